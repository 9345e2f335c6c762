#include "memory/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "abi/qnn_errors.h"
#include "support/checked.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

namespace qnnrt {
namespace {

// Below this the allocation itself fails on a shortage; reading /proc would cost more.
constexpr size_t kCheckMemoryFrom = size_t{64} << 20;

// The first "key number" in a file of such lines, or in a file that is one number. -1 when absent.
int64_t ReadNumber(const char* path, const char* key) {
  FILE* file = std::fopen(path, "re");
  if (!file) return -1;
  char line[256];
  int64_t value = -1;
  size_t key_length = key ? strlen(key) : 0;
  while (std::fgets(line, sizeof line, file)) {
    if (key && strncmp(line, key, key_length) != 0) continue;
    char* end;
    const char* digits = line + key_length;
    long long number = std::strtoll(digits, &end, 10);
    if (end != digits) value = number;
    break;
  }
  std::fclose(file);
  return value;
}

// Room that the control group leaves, or -1 when it sets no limit. Page cache counts as room.
int64_t ControlGroupRoom() {
  int64_t limit = ReadNumber("/sys/fs/cgroup/memory.max", nullptr);
  if (limit < 0) return -1;
  int64_t used = ReadNumber("/sys/fs/cgroup/memory.current", nullptr);
  int64_t cache = ReadNumber("/sys/fs/cgroup/memory.stat", "file ");
  int64_t shmem = ReadNumber("/sys/fs/cgroup/memory.stat", "shmem ");
  if (used < 0) return -1;
  int64_t reclaimable =
      std::max<int64_t>(0, std::max<int64_t>(cache, 0) - std::max<int64_t>(shmem, 0));
  return std::max<int64_t>(0, limit - used + reclaimable);
}

Status MapError(int fd, const char* what, int error) {
  return Error(QNN_MEM_ERROR_MAPPING, "fd %d: %s: %s", fd, what, strerror(error));
}

// Mappings that the kernel would not give up: it refuses for want of memory, which passes, so each
// later call that maps or unmaps tries them again. Their count stays until then.
class Leftovers {
 public:
  static Leftovers& Get() {
    static Leftovers leftovers;
    return leftovers;
  }
  bool Add(void* address, size_t size) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (count_ == kMost) return false;
    pieces_[count_++] = {address, size};
    any_.store(true, std::memory_order_relaxed);
    return true;
  }
  void Retry(Counters* counters) {
    if (!any_.load(std::memory_order_relaxed)) return;
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;  // somebody does it right now
    for (size_t i = count_; i-- > 0;) {
      if (munmap(pieces_[i].address, pieces_[i].size) != 0) continue;
      pieces_[i] = pieces_[--count_];
      counters->maps.fetch_sub(1, std::memory_order_relaxed);
    }
    any_.store(count_ != 0, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kMost = 256;
  struct Piece {
    void* address;
    size_t size;
  };
  std::mutex mutex_;
  std::atomic<bool> any_{false};
  size_t count_ = 0;
  Piece pieces_[kMost];
};

}  // namespace

size_t PageSize() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

UniqueFd::UniqueFd(int fd, Counters* counters) : fd_(fd), counters_(counters) {
  if (fd_ >= 0) counters_->fds.fetch_add(1, std::memory_order_relaxed);
}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = std::exchange(other.fd_, -1);
    counters_ = other.counters_;
  }
  return *this;
}

void UniqueFd::Reset() {
  if (fd_ >= 0) CloseCounted(std::exchange(fd_, -1), counters_);
}

int UniqueFd::Release() { return std::exchange(fd_, -1); }

void CloseCounted(int fd, Counters* counters) {
  if (fd < 0) return;
  close(fd);  // EINTR on Linux has closed it all the same
  counters->fds.fetch_sub(1, std::memory_order_relaxed);
}

Result<void*> MapShared(const MapRequest& request, Counters* counters) {
  RetryUnmaps(counters);
  const int protection = request.writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const size_t page = PageSize();
  void* address;
  if (request.alignment <= page) {
    address = mmap(nullptr, request.size, protection, MAP_SHARED, request.fd,
                   static_cast<off_t>(request.offset));
    if (address == MAP_FAILED) return MapError(request.fd, "mmap", errno);
  } else {
    // Reserve enough to find an aligned start, map over it, give the ends back.
    uint64_t reserve;
    if (!CheckedAdd(request.size, request.alignment, &reserve)) {
      return Error(QNN_COMMON_ERROR_MEM_ALLOC, "%zu bytes aligned to %zu: too large", request.size,
                   request.alignment);
    }
    void* area =
        mmap(nullptr, reserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED) return MapError(request.fd, "reserving addresses", errno);
    uintptr_t begin = reinterpret_cast<uintptr_t>(area);
    uintptr_t start = (begin + request.alignment - 1) & ~(uintptr_t{request.alignment} - 1);
    address = mmap(reinterpret_cast<void*>(start), request.size, protection, MAP_SHARED | MAP_FIXED,
                   request.fd, static_cast<off_t>(request.offset));
    if (address == MAP_FAILED) {
      int error = errno;
      munmap(area, reserve);
      return MapError(request.fd, "mmap", error);
    }
    if (start > begin) munmap(area, start - begin);
    uintptr_t end = start + request.size, limit = begin + reserve;
    if (limit > end) munmap(reinterpret_cast<void*>(end), limit - end);
  }
  counters->maps.fetch_add(1, std::memory_order_relaxed);
  return address;
}

void UnmapCounted(void* address, size_t size, Counters* counters) {
  if (!address) return;
  if (munmap(address, size) == 0) {
    counters->maps.fetch_sub(1, std::memory_order_relaxed);
  } else {
    (void)Leftovers::Get().Add(address, size);
  }
  RetryUnmaps(counters);
}

void RetryUnmaps(Counters* counters) { Leftovers::Get().Retry(counters); }

Status Populate(void* address, size_t size) {
  int result;
  do {
    result = madvise(address, size, MADV_POPULATE_WRITE);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0) return Status::Ok();
  if (errno == ENOMEM || errno == EHWPOISON) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "no memory to back %zu bytes: %s", size,
                 strerror(errno));
  }
  // Kernels before 5.14 do not know the call, and pages that drivers insert refuse it: touch
  // instead.
  volatile char* bytes = static_cast<volatile char*>(address);
  for (size_t i = 0; i < size; i += PageSize()) bytes[i] = 0;
  return Status::Ok();
}

Status CheckMemoryAvailable(size_t size) {
  if (size < kCheckMemoryFrom) return Status::Ok();
  int64_t kib = ReadNumber("/proc/meminfo", "MemAvailable:");
  int64_t room = ControlGroupRoom();
  int64_t available = kib < 0 ? INT64_MAX : kib * 1024;
  if (room >= 0) available = std::min(available, room);
  if (available == INT64_MAX || size <= static_cast<uint64_t>(available)) return Status::Ok();
  return Error(
      QNN_COMMON_ERROR_MEM_ALLOC,
      "asked for %zu bytes, the machine has %lld bytes available; free some or ask for less", size,
      static_cast<long long>(available));
}

Result<FileId> IdOfFd(int fd) {
  struct stat st;
  if (fd < 0) return Error(QNN_MEM_ERROR_MAPPING, "fd %d is not a file descriptor", fd);
  if (fstat(fd, &st) != 0) return MapError(fd, "not usable", errno);
  return FileId{static_cast<uint64_t>(st.st_dev), static_cast<uint64_t>(st.st_ino)};
}

Result<FdInfo> InspectFd(int fd) {
  struct stat st;
  if (fd < 0) return Error(QNN_MEM_ERROR_MAPPING, "fd %d is not a file descriptor", fd);
  if (fstat(fd, &st) != 0) return MapError(fd, "not usable", errno);
  // Only memfds and other files of a tmpfs have seals: the commonest memory takes one call less.
  const int seals = fcntl(fd, F_GET_SEALS);
  struct statfs fs = {};
  if (seals < 0 && fstatfs(fd, &fs) != 0) return MapError(fd, "statfs", errno);
  FdInfo info;
  info.id = {static_cast<uint64_t>(st.st_dev), static_cast<uint64_t>(st.st_ino)};
  int mode = fcntl(fd, F_GETFL);
  info.writable = mode >= 0 && (mode & O_ACCMODE) == O_RDWR;
  if (mode >= 0 && (mode & O_ACCMODE) == O_WRONLY) {
    return Error(QNN_MEM_ERROR_MAPPING, "fd %d is open for writing only; memory needs reading too",
                 fd);
  }
  if (static_cast<uint64_t>(fs.f_type) == DMA_BUF_MAGIC) {
    info.kind = FdKind::kDmaBuf;
    off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0) return MapError(fd, "size of the dma-buf", errno);
    info.size = static_cast<uint64_t>(end);
    return info;
  }
  if (!S_ISREG(st.st_mode)) {
    return Error(QNN_MEM_ERROR_MAPPING,
                 "fd %d is not memory that can be shared; expected a dma-buf, a memfd or a file",
                 fd);
  }
  info.size = static_cast<uint64_t>(st.st_size);
  info.kind = seals >= 0 ? FdKind::kMemfd : FdKind::kFile;
  info.can_shrink = seals < 0 || !(seals & F_SEAL_SHRINK);
  if (seals >= 0 && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))) info.writable = false;
  return info;
}

Result<uint64_t> SizeOfFd(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return MapError(fd, "not usable", errno);
  if (S_ISREG(st.st_mode)) return static_cast<uint64_t>(st.st_size);
  off_t end = lseek(fd, 0, SEEK_END);
  if (end < 0) return MapError(fd, "size", errno);
  return static_cast<uint64_t>(end);
}

Status DmaBufSync(int fd, CpuAccess access, SyncPoint point) {
  dma_buf_sync sync = {};
  uint32_t bits = static_cast<uint32_t>(access);
  if (bits & static_cast<uint32_t>(CpuAccess::kRead)) sync.flags |= DMA_BUF_SYNC_READ;
  if (bits & static_cast<uint32_t>(CpuAccess::kWrite)) sync.flags |= DMA_BUF_SYNC_WRITE;
  sync.flags |= point == SyncPoint::kBegin ? DMA_BUF_SYNC_START : DMA_BUF_SYNC_END;
  int result;
  do {
    result = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0) return Status::Ok();
  return Error(QNN_COMMON_ERROR_SYSTEM, "fd %d: DMA_BUF_IOCTL_SYNC: %s", fd, strerror(errno));
}

}  // namespace qnnrt
