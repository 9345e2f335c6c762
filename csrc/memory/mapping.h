// File descriptors and mappings: owners for both, and what can be learnt about an fd from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory/counters.h"
#include "memory/heap.h"
#include "support/status.h"

namespace qnnrt {

size_t PageSize();
inline constexpr size_t kHugePageSize = size_t{2} << 20;

// Owns an fd and counts it.
class UniqueFd {
 public:
  UniqueFd() = default;
  UniqueFd(int fd, Counters* counters);
  UniqueFd(UniqueFd&& other) noexcept { *this = std::move(other); }
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { Reset(); }
  void Reset();
  int get() const { return fd_; }
  int Release();  // still counted: the new owner closes it through CloseCounted
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
  Counters* counters_ = nullptr;
};
void CloseCounted(int fd, Counters* counters);

struct MapRequest {
  int fd = -1;
  uint64_t offset = 0;  // a multiple of the page size
  size_t size = 0;      // a multiple of the page size
  size_t alignment = 0;
  bool writable = true;
};
// MAP_SHARED at an aligned address. Errors: 8003 with the errno's text.
Result<void*> MapShared(const MapRequest& request, Counters* counters);
void UnmapCounted(void* address, size_t size, Counters* counters);
// Tries mappings again that the kernel would not give up, as each call that maps or unmaps does.
void RetryUnmaps(Counters* counters);

// Backs every page of a fresh writable mapping now, so that running out of memory is an error here
// and not SIGBUS later, and the first access takes no page faults.
Status Populate(void* address, size_t size);

// Refuses sizes that the machine or its control group cannot back: beyond that the kernel
// kills the process instead of failing.
Status CheckMemoryAvailable(size_t size);

struct FileIdHash {
  size_t operator()(const FileId& id) const {
    return static_cast<size_t>((id.inode * 0x9E3779B97F4A7C15u) ^ (id.device << 17));
  }
};

enum class FdKind { kDmaBuf, kMemfd, kFile };
struct FdInfo {
  FdKind kind = FdKind::kFile;
  FileId id;
  uint64_t size = 0;        // real size now
  bool can_shrink = false;  // the other side can truncate it
  bool writable = true;
};
// Identity alone, one system call. Errors: 8003 when the fd is not open.
Result<FileId> IdOfFd(int fd);
// Errors: 8003 when the fd is not open or not mappable memory.
Result<FdInfo> InspectFd(int fd);
// Size alone, two system calls at most. Errors: 8003.
Result<uint64_t> SizeOfFd(int fd);

// DMA_BUF_IOCTL_SYNC, again on EINTR and EAGAIN. Errors: 1003.
Status DmaBufSync(int fd, CpuAccess access, SyncPoint point);

}  // namespace qnnrt
