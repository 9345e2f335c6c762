#include "memory/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>

#include <mutex>
#include <new>

#include "abi/qnn_errors.h"
#include "support/checked.h"

namespace qnnrt {
namespace {

std::atomic<int32_t>& CountOf(Buffer* buffer, Hold hold) {
  switch (hold) {
    case Hold::kOwner:
      return buffer->owners;
    case Hold::kExport:
      return buffer->exports;
    case Hold::kRegistration:
      return buffer->registrations;
    case Hold::kPool:
      return buffer->pools;
    case Hold::kExecution:
      break;
  }
  return buffer->executions;
}

Status Inherited() {
  return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
               "the buffer belongs to the parent process: after a fork it can be read and written "
               "here, not changed; send it to the child by fd instead");
}

Status StaleHandle(SlotHandle handle) {
  return Error(QNN_MEM_ERROR_INVALID_HANDLE, "buffer handle 0x%llx was closed or never made",
               static_cast<unsigned long long>(handle));
}

bool AddOwner(Buffer* buffer) {
  int32_t owners = buffer->owners.load(std::memory_order_relaxed);
  do {
    if (owners <= 0) return false;
  } while (!buffer->owners.compare_exchange_weak(owners, owners + 1, std::memory_order_relaxed));
  return true;
}

}  // namespace

const char* Buffer::heap_name() const {
  if (heap) return heap->name();
  return Has(kBufferImported) ? "imported" : "wrapped";
}

// ---- Making ----

Result<SlotHandle> BufferTable::Add(const Draft& draft) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  SlotHandle handle;
  Buffer* b;
  try {
    b = slots_.Insert(&handle);
  } catch (const std::bad_alloc&) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "out of memory for a buffer's record");
  }
  if (!b) return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "too many live buffers");
  b->handle = handle;
  b->address = draft.address;
  b->nbytes = draft.nbytes;
  b->mapped = draft.mapped;
  b->fd = draft.fd;
  b->fd_offset = draft.fd_offset;
  b->fd_size = draft.fd_size;
  b->heap = draft.heap;
  b->allocation = draft.allocation;
  b->stated_size = 0;
  b->id = draft.id;
  b->flags.store(draft.flags, std::memory_order_relaxed);
  b->owners.store(1, std::memory_order_relaxed);
  b->exports.store(0, std::memory_order_relaxed);
  b->registrations.store(0, std::memory_order_relaxed);
  b->executions.store(0, std::memory_order_relaxed);
  b->pools.store(0, std::memory_order_relaxed);
  b->orphan.store(false, std::memory_order_relaxed);
  if (b->fd >= 0) {
    const size_t fd = static_cast<size_t>(b->fd);
    try {
      if (by_fd_.size() <= fd) by_fd_.resize(fd + 64);
      by_address_.emplace(reinterpret_cast<uintptr_t>(b->address), b);
      if (b->Has(kBufferExported)) by_id_.emplace(b->id, b);
    } catch (const std::bad_alloc&) {
      by_address_.erase(reinterpret_cast<uintptr_t>(b->address));
      slots_.Cancel(handle);
      return Error(QNN_COMMON_ERROR_MEM_ALLOC, "out of memory for a buffer's record");
    }
    by_fd_[fd] = b;
  }
  counters_->buffers.fetch_add(1, std::memory_order_relaxed);
  slots_.Publish(handle);
  return handle;
}

Result<SlotHandle> BufferTable::Allocate(Heap* heap, uint64_t nbytes, uint64_t alignment,
                                         uint32_t flags) {
  QNNRT_ASSIGN_OR_RETURN(Allocation allocation, heap->Allocate(nbytes, alignment));
  Draft draft;
  draft.address = static_cast<uint8_t*>(allocation.address);
  draft.nbytes = nbytes;
  draft.mapped = allocation.size;
  draft.fd = allocation.fd;
  draft.fd_offset = allocation.fd_offset;
  // A larger block behind an aligned start (vendor heap) is the file's whole size.
  draft.fd_size = allocation.base_size;
  draft.heap = heap;
  draft.allocation = allocation;
  draft.id = allocation.id;
  draft.flags = flags | (heap->coherent() ? kBufferCoherent : kBufferDmaBuf);
  Result<SlotHandle> handle = Add(draft);
  if (!handle.ok()) heap->Free(allocation);
  return handle;
}

Result<SlotHandle> BufferTable::Import(int fd, uint64_t nbytes, uint64_t offset) {
  QNNRT_ASSIGN_OR_RETURN(FdInfo info, InspectFd(fd));
  if (nbytes == 0 && offset < info.size) nbytes = info.size - offset;
  uint64_t end, map_end;
  if (nbytes == 0 || !CheckedAdd(offset, nbytes, &end) || end > info.size ||
      !CheckedAlignUp(end, PageSize(), &map_end)) {
    return Error(
        QNN_COMMON_ERROR_INVALID_ARGUMENT,
        "fd %d holds %llu bytes; expected a range inside it, got %llu bytes at offset %llu", fd,
        static_cast<unsigned long long>(info.size), static_cast<unsigned long long>(nbytes),
        static_cast<unsigned long long>(offset));
  }
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0), counters_);
  if (!own.valid()) return Error(QNN_MEM_ERROR_MAPPING, "fd %d: dup: %s", fd, strerror(errno));
  MapRequest request;
  request.fd = own.get();
  request.offset = offset & ~(uint64_t{PageSize()} - 1);
  request.size = map_end - request.offset;
  request.writable = info.writable;
  QNNRT_ASSIGN_OR_RETURN(void* base, MapShared(request, counters_));
  Draft draft;
  draft.address = static_cast<uint8_t*>(base) + (offset - request.offset);
  draft.nbytes = draft.mapped = nbytes;
  draft.fd = own.get();
  draft.fd_offset = offset;
  draft.fd_size = info.size;
  draft.allocation.base = base;
  draft.allocation.base_size = request.size;
  draft.id = info.id;
  draft.flags = kBufferImported | kBufferExported;
  draft.flags |= info.kind == FdKind::kDmaBuf ? kBufferDmaBuf : kBufferCoherent;
  if (info.can_shrink) draft.flags |= kBufferCanShrink;
  if (!info.writable) draft.flags |= kBufferReadOnly;
  Result<SlotHandle> handle = Add(draft);
  if (handle.ok()) {
    (void)own.Release();
  } else {
    UnmapCounted(base, request.size, counters_);
  }
  return handle;
}

Result<SlotHandle> BufferTable::Wrap(void* address, uint64_t nbytes, bool read_only) {
  uint64_t end;
  if (!address || nbytes == 0 || !CheckedAdd(reinterpret_cast<uintptr_t>(address), nbytes, &end)) {
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                 "expected an address and a size above 0, got %p and %llu bytes", address,
                 static_cast<unsigned long long>(nbytes));
  }
  Draft draft;
  draft.address = static_cast<uint8_t*>(address);
  draft.nbytes = draft.mapped = nbytes;
  draft.flags = kBufferWrapped | kBufferCoherent;
  if (read_only) draft.flags |= kBufferReadOnly;
  return Add(draft);
}

// ---- Holding and letting go ----

void BufferTable::Unpin(Buffer* buffer) {
  const SlotHandle handle = buffer->handle;
  if (slots_.Release(handle) == 0 && buffer->orphan.load(std::memory_order_acquire)) {
    if (slots_.Retire(handle) == Slots::Retired::kYes) Finish(buffer);
  }
}

void BufferTable::Keep(Buffer* pinned, Hold hold) {
  CountOf(pinned, hold).fetch_add(1, std::memory_order_relaxed);
}

void BufferTable::LetGo(Buffer* buffer, Hold hold) {
  CountOf(buffer, hold).fetch_sub(1, std::memory_order_relaxed);
  Unpin(buffer);
}

Status BufferTable::Take(SlotHandle handle, Hold hold) {
  Buffer* b = Pin(handle);
  if (!b) return StaleHandle(handle);
  if (b->Has(kBufferInherited) && hold != Hold::kExport) {
    Unpin(b);
    return Inherited();
  }
  if (hold != Hold::kOwner) {
    CountOf(b, hold).fetch_add(1, std::memory_order_relaxed);
  } else if (!AddOwner(b)) {
    Unpin(b);
    return StaleHandle(handle);
  }
  return Status::Ok();  // the pin stays: it is the hold
}

Status BufferTable::Drop(SlotHandle handle, Hold hold) {
  if (hold == Hold::kOwner) return Release(handle);
  Buffer* b = Pin(handle);
  if (!b) return StaleHandle(handle);
  std::atomic<int32_t>& count = CountOf(b, hold);
  int32_t held = count.load(std::memory_order_relaxed);
  do {
    if (held <= 0) {
      Unpin(b);
      return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                   "an end call without its begin: nothing of that kind holds the buffer");
    }
  } while (!count.compare_exchange_weak(held, held - 1, std::memory_order_relaxed));
  slots_.Release(handle);  // the hold's pin; ours keeps the buffer
  Unpin(b);
  return Status::Ok();
}

Status BufferTable::Release(SlotHandle handle) {
  Buffer* b = Pin(handle);
  if (!b) return StaleHandle(handle);
  if (b->Has(kBufferInherited)) {
    Unpin(b);
    return Inherited();
  }
  int32_t owners = b->owners.load(std::memory_order_relaxed);
  do {
    if (owners <= 0) {
      Unpin(b);
      return StaleHandle(handle);
    }
  } while (!b->owners.compare_exchange_weak(owners, owners - 1, std::memory_order_relaxed));
  if (owners > 1) {
    slots_.Release(handle);  // owners beyond the first have a pin each
  } else {
    b->orphan.store(true, std::memory_order_release);
  }
  Unpin(b);
  return Status::Ok();
}

bool Buffer::Held() const {
  if (owners.load(std::memory_order_relaxed) > 1) return true;
  for (const auto* count : {&exports, &registrations, &executions, &pools}) {
    if (count->load(std::memory_order_relaxed) > 0) return true;
  }
  return false;
}

Status BufferTable::InUse(const Buffer& b) {
  std::string who;
  auto add = [&who](int32_t count, const char* what) {
    if (count <= 0) return;
    who += (who.empty() ? "" : ", ") + std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  add(b.owners.load(std::memory_order_relaxed) - 1, "other owner");
  add(b.exports.load(std::memory_order_relaxed), "exported view");
  add(b.registrations.load(std::memory_order_relaxed), "registered memory handle");
  add(b.executions.load(std::memory_order_relaxed), "running execution");
  add(b.pools.load(std::memory_order_relaxed), "memory pool");
  if (who.empty()) who = "a call on another thread";
  return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
               "buffer of %llu bytes is in use by %s; let go of them first",
               static_cast<unsigned long long>(b.nbytes), who.c_str());
}

Status BufferTable::Close(SlotHandle handle) {
  for (int attempt = 0;; ++attempt) {
    Buffer* b = Pin(handle);
    if (!b) return StaleHandle(handle);
    const bool inherited = b->Has(kBufferInherited);
    if (inherited || b->owners.load(std::memory_order_relaxed) == 0) {
      Unpin(b);
      return inherited ? Inherited() : StaleHandle(handle);
    }
    // Pins without a name are calls passing through: they end in a moment.
    if (b->Held() || attempt == 1000) {
      Status status = InUse(*b);
      Unpin(b);
      return status;
    }
    Unpin(b);
    Slots::Retired retired = slots_.Retire(handle);
    if (retired == Slots::Retired::kYes) {
      Finish(b);
      return Status::Ok();
    }
    if (retired == Slots::Retired::kStale) return StaleHandle(handle);
    sched_yield();
  }
}

void BufferTable::Finish(Buffer* b) {
  Heap* heap = b->heap;
  Allocation allocation = b->allocation;
  const int fd = b->fd;
  {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    if (fd >= 0) {
      by_address_.erase(reinterpret_cast<uintptr_t>(b->address));
      by_fd_[static_cast<size_t>(fd)] = nullptr;
      if (b->Has(kBufferExported)) {
        auto range = by_id_.equal_range(b->id);
        for (auto it = range.first; it != range.second; ++it) {
          if (it->second != b) continue;
          by_id_.erase(it);
          break;
        }
      }
    }
    allocation.reusable = !b->Has(kBufferExported);
    slots_.Recycle(b->handle);
  }
  if (heap) {
    heap->Free(allocation);
  } else if (fd >= 0) {
    UnmapCounted(allocation.base, allocation.base_size, counters_);
    CloseCounted(fd, counters_);
  }
  counters_->buffers.fetch_sub(1, std::memory_order_relaxed);
}

// ---- Looking up ----

Buffer* BufferTable::PinByAddress(const void* address) {
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(address);
  std::shared_lock<std::shared_mutex> lock(mutex_);
  auto it = by_address_.upper_bound(wanted);
  if (it == by_address_.begin()) return nullptr;
  Buffer* b = std::prev(it)->second;
  if (wanted - reinterpret_cast<uintptr_t>(b->address) >= b->nbytes) return nullptr;
  return Pin(b->handle);
}

Buffer* BufferTable::PinByFd(int fd) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  if (fd < 0 || static_cast<size_t>(fd) >= by_fd_.size()) return nullptr;
  Buffer* b = by_fd_[static_cast<size_t>(fd)];
  return b ? Pin(b->handle) : nullptr;
}

Buffer* BufferTable::PinByFile(const FileId& id, uint64_t offset, uint64_t nbytes) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  auto range = by_id_.equal_range(id);
  for (auto it = range.first; it != range.second; ++it) {
    Buffer* b = it->second;
    if (offset < b->fd_offset || offset - b->fd_offset > b->mapped ||
        nbytes > b->mapped - (offset - b->fd_offset)) {
      continue;
    }
    if (Buffer* pinned = Pin(b->handle)) return pinned;
  }
  return nullptr;
}

Result<int> BufferTable::ExportFd(Buffer* b) {
  if (b->fd < 0) {
    return Error(QNN_COMMON_ERROR_NOT_SUPPORTED, "%s memory has no fd", b->heap_name());
  }
  if (b->Has(kBufferInherited)) return Inherited();
  if (b->Has(kBufferExported)) return b->fd;
  std::unique_lock<std::shared_mutex> lock(mutex_);
  if (!b->Has(kBufferExported)) {  // from here on the file can come back under another number
    by_id_.emplace(b->id, b);
    b->Set(kBufferExported);
  }
  return b->fd;
}

// ---- State of the memory ----

Status BufferTable::CheckAlive(const Buffer* b) const {
  if (!b->Has(kBufferCanShrink)) return Status::Ok();
  QNNRT_ASSIGN_OR_RETURN(uint64_t size, SizeOfFd(b->fd));
  if (size >= b->fd_offset + b->nbytes) return Status::Ok();
  return Error(
      QNN_MEM_ERROR_MAPPING,
      "the imported file has shrunk to %llu bytes; the buffer needs %llu: its maker truncated "
      "it (seal memfds with F_SEAL_SHRINK to rule that out)",
      static_cast<unsigned long long>(size),
      static_cast<unsigned long long>(b->fd_offset + b->nbytes));
}

Status BufferTable::Sync(const Buffer* b, CpuAccess access, SyncPoint point) const {
  QNNRT_RETURN_IF_ERROR(CheckAlive(b));
  if (b->Has(kBufferCoherent)) return Status::Ok();
  if (b->heap) return b->heap->Sync(b->allocation, access, point);
  return DmaBufSync(b->fd, access, point);
}

void BufferTable::MarkInheritedAfterFork() {
  slots_.ForEachLive([](SlotHandle, Buffer& b) { b.Set(kBufferInherited); });
}

}  // namespace qnnrt
