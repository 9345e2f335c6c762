#include "memory/heap_common.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "abi/qnn_errors.h"
#include "support/checked.h"

namespace qnnrt {

Result<size_t> RoundAllocation(size_t size, size_t alignment, size_t granule) {
  if (size == 0) return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "asked for 0 bytes");
  if (!IsPowerOfTwo(alignment) || alignment > kMaxAlignment) {
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                 "alignment %zu: expected a power of two up to %zu", alignment, kMaxAlignment);
  }
  uint64_t rounded;
  if (!CheckedAlignUp(size, granule, &rounded) || rounded > static_cast<uint64_t>(PTRDIFF_MAX)) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "%zu bytes is more than can be addressed", size);
  }
  return static_cast<size_t>(rounded);
}

Result<Allocation> AllocationFromFd(UniqueFd fd, size_t size, size_t alignment, bool populate,
                                    Counters* counters) {
  QNNRT_ASSIGN_OR_RETURN(FileId id, IdOfFd(fd.get()));
  MapRequest request;
  request.fd = fd.get();
  request.size = size;
  request.alignment = alignment;
  Result<void*> mapped = MapShared(request, counters);
  if (!mapped.ok()) return std::move(mapped).status().WithCode(QNN_COMMON_ERROR_MEM_ALLOC);
  Allocation allocation;
  allocation.address = allocation.base = *mapped;
  allocation.size = allocation.base_size = size;
  if (populate) {
    Status status = Populate(allocation.address, size);
    if (!status.ok()) {
      UnmapCounted(allocation.base, size, counters);
      return status;
    }
  }
  allocation.id = id;
  allocation.fd = fd.Release();
  return allocation;
}

void FreeMappedAllocation(Allocation& allocation, Counters* counters) {
  UnmapCounted(allocation.base, allocation.base_size, counters);
  CloseCounted(allocation.fd, counters);
  allocation = Allocation();
}

Result<UniqueFd> DmaBufHeap::OpenDevice(int flags) {
  UniqueFd device(open(device_.c_str(), flags | O_CLOEXEC), counters_);
  if (!device.valid()) {
    return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "%s: %s", device_.c_str(), strerror(errno));
  }
  return device;
}

Result<int> DmaBufHeap::Request(int device, unsigned long request, void* argument, size_t size,
                                const char* hint_for_invalid) {
  int result;
  do {
    result = ioctl(device, request, argument);
  } while (result < 0 && errno == EINTR);
  if (result < 0) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "%s: %zu bytes: %s%s", device_.c_str(), size,
                 strerror(errno), errno == EINVAL ? hint_for_invalid : "");
  }
  return result;
}

Result<UniqueFd> NewSealedMemfd(size_t size, bool huge, Counters* counters) {
  // Beyond this limit ftruncate sends SIGXFSZ, which ends a process that does not expect it.
  rlimit file_size;
  if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && size > file_size.rlim_cur) {
    return Error(
        QNN_COMMON_ERROR_MEM_ALLOC,
        "memfd of %zu bytes: this process may not make files of more than %llu bytes: raise "
        "that limit (RLIMIT_FSIZE, `ulimit -f`)",
        size, static_cast<unsigned long long>(file_size.rlim_cur));
  }
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0);
  UniqueFd fd(memfd_create("qnnrt", flags), counters);
  if (!fd.valid()) {
    return Error(QNN_COMMON_ERROR_SYSTEM, "memfd_create: %s", strerror(errno));
  }
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "memfd of %zu bytes: %s", size, strerror(errno));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return Error(QNN_COMMON_ERROR_SYSTEM, "memfd: sealing against shrinking: %s", strerror(errno));
  }
  return fd;
}

}  // namespace qnnrt
