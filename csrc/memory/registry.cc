#include "memory/registry.h"

#include <algorithm>
#include <new>
#include <string>

#include "abi/qnn_errors.h"
#include "support/checked.h"

namespace qnnrt {
namespace {
using Ull = unsigned long long;
}  // namespace

// ---- Index ----

size_t RegistrationIndex::ChainOf(const Key& key) const {
  const uint64_t mixed =
      (FileIdHash()(key.id) ^ key.context * 0xC2B2AE3D27D4EB4Fu ^ key.offset) * 0x9E3779B97F4A7C15u;
  return (mixed >> 32) & (chains_.size() - 1);
}

void RegistrationIndex::Reserve(size_t more) {
  const size_t needed = 2 * (size_ + more);  // most chains have one: others are cache misses
  if (needed <= chains_.size()) return;
  size_t n = std::max<size_t>(chains_.size(), 64);
  while (n < needed) n *= 2;
  std::vector<MemRegistration*> before(n, nullptr);
  before.swap(chains_);
  size_ = 0;
  for (MemRegistration* r : before) {
    while (r != nullptr) {
      MemRegistration* next = r->chained;
      Add(r);
      r = next;
    }
  }
}

MemRegistration* RegistrationIndex::Find(const Key& key) const {
  if (chains_.empty()) return nullptr;
  MemRegistration* r = chains_[ChainOf(key)];
  while (r != nullptr && !(KeyOf(*r) == key)) r = r->chained;
  return r;
}

void RegistrationIndex::Add(MemRegistration* r) {
  MemRegistration*& first = chains_[ChainOf(KeyOf(*r))];
  r->chained = first;
  first = r;
  ++size_;
}

void RegistrationIndex::Remove(MemRegistration* r) {
  MemRegistration** link = &chains_[ChainOf(KeyOf(*r))];
  while (*link != r) link = &(*link)->chained;
  *link = r->chained;
  --size_;
}

void RegistrationIndex::Clear() {
  chains_.clear();
  size_ = 0;
}

// ---- Register ----

Status Registry::Register(uint64_t context, const MemDescriptor* descriptors, uint32_t count,
                          uint32_t kinds, SlotHandle* handles, ProcessDomain* domain) {
  if (handles) std::fill_n(handles, count, SlotHandle{0});
  if (!descriptors || !handles || count == 0) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                 "expected at least one descriptor and room for its handle");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  last_count_ = count;
  if (count > 1) {
    slots_.Prefetch(count);
    if (RegisterTogether(context, descriptors, count, kinds, handles, domain)) return Status::Ok();
  }
  for (uint32_t i = 0; i < count; ++i) {
    const MemRegistration* before = i > 0 ? slots_.Peek(handles[i - 1]) : nullptr;
    if (before && before->fd != descriptors[i].fd) before = nullptr;
    if (before && i == 1) {  // all at once: each pin in between waits for what was asked for before
      for (uint32_t k = 1; k < count; ++k) {
        registered_.Prefetch({context, before->id, descriptors[k].offset});
      }
    }
    Status status = RegisterOne(context, descriptors[i], kinds, before, &handles[i], domain);
    if (status.ok()) continue;
    for (uint32_t k = 0; k < i; ++k) {  // nobody else has seen these: they cannot be pinned
      MemRegistration* r = slots_.Peek(handles[k]);
      if (slots_.Retire(handles[k]) == Slots::Retired::kYes) Remove(r);
    }
    std::fill_n(handles, count, SlotHandle{0});
    return count == 1 ? std::move(status)
                      : std::move(status).Within("descriptor " + std::to_string(i));
  }
  return Status::Ok();
}

void Registry::Prefetch() const {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && last_count_ > 1) slots_.Prefetch(last_count_);
}

Status Registry::RegisterOne(uint64_t context, const MemDescriptor& d, uint32_t kinds,
                             const MemRegistration* before, SlotHandle* handle,
                             ProcessDomain* domain) {
  if (!(kinds & KindBit(d.kind)) || d.kind == MemKind::kQurt || d.kind == MemKind::kOpenCl) {
    return Error(QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE, "memory type %s is not supported here%s",
                 MemKindName(d.kind),
                 d.kind == MemKind::kQurt ? ": it is an address on the DSP; memory behind an fd is "
                                            "QNN_HTP_MEM_SHARED_BUFFER (1)"
                                          : "");
  }
  MemRegistration r;
  r.context = context;
  r.kind = d.kind;
  r.data_type = d.data_type;
  r.fd = d.fd;
  QNNRT_RETURN_IF_ERROR(CheckShape(d, &r));
  if (d.fd < 0) return Error(QNN_MEM_ERROR_INVALID_ARGUMENT, "fd %d: expected an open one", d.fd);
  uint64_t end;
  if (!CheckedAdd(d.offset, r.nbytes, &end) || (d.states_size && end > d.size)) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                 "offset %llu and %llu bytes of tensor go beyond the buffer's size %llu",
                 Ull{d.offset}, Ull{r.nbytes}, Ull{d.size});
  }
  if (before) {
    r.id = before->id;
  } else {
    QNNRT_ASSIGN_OR_RETURN(r.id, IdOfFd(d.fd));
  }
  r.offset = d.offset;
  QNNRT_RETURN_IF_ERROR(d.kind == MemKind::kDmaBuf ? LocateClientMapping(d, &r)
                                                   : LocateInFd(d, before, &r));
  // From here on r holds a pin on its buffer.
  Status status;
  SlotHandle made = 0;
  MemRegistration* slot = nullptr;
  MemRegistration** first = nullptr;
  try {
    if (const MemRegistration* other = Find(RegistrationIndex::KeyOf(r))) {
      status = Error(QNN_MEM_ERROR_ALREADY_REGISTERED,
                     "fd %d at offset %llu is registered in this context already, as handle 0x%llx",
                     d.fd, Ull{r.offset}, Ull{other->handle});
    } else {
      registered_.Reserve(1);
      first = &by_context_.try_emplace(context, nullptr).first->second;
      if (domain) status = MapFile(&r, domain);
    }
    if (status.ok()) {
      slot = slots_.Insert(&made);
      if (!slot) status = Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "too many memory handles");
    }
  } catch (const std::bad_alloc&) {
    status = Error(QNN_COMMON_ERROR_MEM_ALLOC, "out of memory for a memory handle's record");
  }
  if (!status.ok()) {
    UnmapFile(r);
    if (r.buffer) buffers_->Unpin(r.buffer);
    if (r.watch_fd >= 0) CloseCounted(r.watch_fd, counters_);
    return status;
  }
  if (r.buffer) {
    BufferTable::Keep(r.buffer, Hold::kRegistration);
    if (d.states_size) r.buffer->stated_size = d.size;
  }
  r.handle = made;
  r.next = *first;
  *slot = r;
  registered_.Add(slot);
  if (*first) (*first)->previous = slot;
  *first = slot;
  counters_->handles.fetch_add(1, std::memory_order_relaxed);
  slots_.Publish(made);
  *handle = made;
  return Status::Ok();
}

// ---- Process domain ----

Status Registry::MapFile(MemRegistration* r, ProcessDomain* domain, uint32_t count) {
  auto [entry, fresh] = mapped_.try_emplace(r->id);
  if (fresh) {
    Status status;
    try {
      Result<ProcessDomain::Share> share = domain->Map(
          r->file_size, "registered buffer", "fd " + std::to_string(r->fd), QNN_MEM_ERROR_MAPPING);
      if (share.ok()) entry->second.share = std::move(*share);
      status = std::move(share).status();
    } catch (const std::bad_alloc&) {
      status = Error(QNN_COMMON_ERROR_MEM_ALLOC, "out of memory for a memory handle's record");
    }
    if (!status.ok()) {
      mapped_.erase(entry);
      return status;
    }
  }
  entry->second.registrations += count;
  r->counted = true;
  return Status::Ok();
}

void Registry::UnmapFile(const MemRegistration& r) {
  if (!r.counted) return;
  auto entry = mapped_.find(r.id);
  if (--entry->second.registrations == 0) mapped_.erase(entry);
}

// ---- Deregister ----

void Registry::Remove(MemRegistration* r) {
  if (RegistrationGroup* group = r->group) {
    group->Find(r->offset)->registration = nullptr;
    if (--group->live == 0) groups_.erase({r->context, r->id});
  } else {
    registered_.Remove(r);
  }
  UnmapFile(*r);
  if (r->next) r->next->previous = r->previous;
  if (r->previous) {
    r->previous->next = r->next;
  } else if (r->next) {
    by_context_[r->context] = r->next;
  } else {
    by_context_.erase(r->context);
  }
  if (r->buffer) {
    if (r->buffer->registrations.load(std::memory_order_relaxed) == 1) r->buffer->stated_size = 0;
    buffers_->ReleaseHold(r->buffer, Hold::kRegistration);
  }
  if (r->watch_fd >= 0) CloseCounted(r->watch_fd, counters_);
  counters_->handles.fetch_sub(1, std::memory_order_relaxed);
  const SlotHandle handle = r->handle;
  slots_.Recycle(handle);
}

Status Registry::Deregister(const SlotHandle* handles, uint32_t count) {
  if (!handles || count == 0) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT, "expected at least one handle");
  }
  Status first;
  std::lock_guard<std::mutex> lock(mutex_);
  for (uint32_t i = 0; i < count; ++i) {
    MemRegistration* r = slots_.Peek(handles[i]);
    switch (slots_.Retire(handles[i])) {
      case Slots::Retired::kYes:
        Remove(r);
        break;
      case Slots::Retired::kStale:
        if (first.ok()) first = Stale(handles[i]);
        break;
      case Slots::Retired::kPinned:
        if (first.ok()) {
          first = Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                        r->bound > 0
                            ? "memory handle 0x%llx is bound to a graph by an execution "
                              "environment; release that environment first"
                            : "memory handle 0x%llx is in flight: an execution uses it that runs "
                              "or waits in a queue; deregister it after",
                        Ull{handles[i]});
        }
        break;
    }
  }
  return first;
}

uint32_t Registry::FreeContext(uint64_t context, uint32_t* in_use) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint32_t gone = 0, kept = 0;
  auto found = by_context_.find(context);
  MemRegistration* r = found == by_context_.end() ? nullptr : found->second;
  while (r) {
    MemRegistration* next = r->next;
    if (slots_.Retire(r->handle) == Slots::Retired::kYes) {
      Remove(r);
      ++gone;
    } else {
      ++kept;
    }
    r = next;
  }
  if (in_use) *in_use = kept;
  return gone;
}

uint32_t Registry::DeregisterBuffer(const Buffer* buffer, uint32_t* in_use) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint32_t gone = 0, kept = 0;
  slots_.ForEachLive([&](SlotHandle handle, MemRegistration& r) {
    if (r.buffer != buffer) return;
    if (slots_.Retire(handle) == Slots::Retired::kYes) {
      Remove(&r);
      ++gone;
    } else {
      ++kept;
    }
  });
  *in_use = kept;
  return gone;
}

uint32_t Registry::InFlight(const Buffer* buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  int64_t pins = 0;
  slots_.ForEachLive([&](SlotHandle handle, MemRegistration& r) {
    if (r.buffer == buffer) pins += std::max<int64_t>(0, slots_.PinsOf(handle) - r.bound);
  });
  return static_cast<uint32_t>(pins);
}

// ---- Execution ----

void Registry::NoteBound(const std::vector<SlotHandle>& handles, bool bound) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (SlotHandle handle : handles) slots_.Peek(handle)->bound += bound ? 1 : -1;
}

bool Registry::StillCovered(const MemRegistration* r) const {
  Result<uint64_t> size = SizeOfFd(r->buffer ? r->buffer->fd : r->watch_fd);
  return size.ok() && *size >= r->offset + r->nbytes;
}

Status Registry::Stale(SlotHandle handle) const {
  const char* why = forked_.load(std::memory_order_relaxed)
                        ? "; handles do not survive a fork, register again in this process"
                        : "";
  return Error(QNN_MEM_ERROR_INVALID_HANDLE, "memory handle 0x%llx is not registered%s",
               Ull{handle}, why);
}

Result<const MemRegistration*> Registry::Acquire(SlotHandle handle, uint64_t context) {
  const MemRegistration* r = slots_.Acquire(handle);
  if (!r) return Stale(handle);
  if (r->context != context) {
    slots_.Release(handle);
    return Error(QNN_MEM_ERROR_INVALID_HANDLE,
                 "memory handle 0x%llx belongs to another context; register the buffer in this one",
                 Ull{handle});
  }
  if (r->can_shrink && !StillCovered(r)) {
    const int fd = r->fd;
    slots_.Release(handle);
    return Error(
        QNN_MEM_ERROR_MAPPING,
        "memory handle 0x%llx: the file behind fd %d has shrunk below the tensor; its maker "
        "truncated it",
        Ull{handle}, fd);
  }
  return r;
}

Result<MemUse> Registry::AcquireKind(uint64_t context, MemKind kind) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = by_context_.find(context);
  const MemRegistration* r = found == by_context_.end() ? nullptr : found->second;
  while (r && r->kind != kind) r = r->next;
  if (!r) return MemUse();
  QNNRT_ASSIGN_OR_RETURN(const MemRegistration* pinned, Acquire(r->handle, context));
  return MemUse(this, pinned);
}

void Registry::InvalidateAfterFork() {
  slots_.ForEachLive([this](SlotHandle handle, MemRegistration&) { slots_.ForceRetire(handle); });
  registered_.Clear();
  groups_.clear();
  by_context_.clear();
  mapped_.clear();
  counters_->handles.store(0, std::memory_order_relaxed);
  forked_.store(true, std::memory_order_relaxed);
}

}  // namespace qnnrt
