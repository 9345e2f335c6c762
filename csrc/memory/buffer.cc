#include "memory/buffer.h"

#include <sched.h>

#include <mutex>

#include "abi/qnn_errors.h"

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

// ---- Holds ----

void BufferTable::Unpin(Buffer* buffer) {
  const SlotHandle handle = buffer->handle;
  if (slots_.Release(handle) == 0 && buffer->orphan.load(std::memory_order_acquire)) {
    if (slots_.Retire(handle) == Slots::Retired::kYes) Finish(buffer);
  }
}

void BufferTable::Keep(Buffer* pinned, Hold hold, int32_t count) {
  CountOf(pinned, hold).fetch_add(count, std::memory_order_relaxed);
}

void BufferTable::ReleaseHold(Buffer* buffer, Hold hold) {
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
    BufferPin pin(this, Pin(handle));
    if (!pin) return StaleHandle(handle);
    if (pin->Has(kBufferInherited)) return Inherited();
    if (pin->owners.load(std::memory_order_relaxed) == 0) return StaleHandle(handle);
    // Pins that are not counted by kind are running calls: they end in a moment.
    if (pin->Held() || attempt == 1000) return InUse(*pin.get());
    Buffer* const b = pin.release();
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

// ---- Lookup ----

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
