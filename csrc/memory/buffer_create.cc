#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <mutex>
#include <new>

#include "abi/qnn_errors.h"
#include "memory/buffer.h"
#include "memory/mapped_twice.h"
#include "support/checked.h"

namespace qnnrt {

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
      if (b->Has(kBufferExported)) {
        by_id_.emplace(b->id, b);
        if (by_id_.count(b->id) > 1) FilesMappedTwice().fetch_add(1, std::memory_order_relaxed);
      }
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

Result<SlotHandle> BufferTable::Import(int fd, const FdInfo& info, uint64_t nbytes, uint64_t offset,
                                       UniqueFd own) {
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
  if (!own.valid()) own = UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0), counters_);
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

}  // namespace qnnrt
