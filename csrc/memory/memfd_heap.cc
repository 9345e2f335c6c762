// Memory that works everywhere: a memfd sealed against shrinking, on huge pages when the machine
// grants them (a reserved huge page pool first, then transparent huge pages for shared memory).
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "abi/qnn_errors.h"
#include "memory/heap_common.h"
#include "memory/heaps.h"

namespace qnnrt {
namespace {

// Free pages of the 2 MiB pool; 0 when there is none.
uint64_t FreeHugePages() {
  unsigned long long pages = 0, reserved = 0;
  auto read = [](const char* path, unsigned long long* value) {
    if (FILE* file = std::fopen(path, "re")) {
      if (std::fscanf(file, "%llu", value) != 1) *value = 0;
      std::fclose(file);
    }
  };
  read("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", &pages);
  read("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", &reserved);
  return pages > reserved ? pages - reserved : 0;
}

// Whether the kernel gives transparent huge pages to shared memory that asks.
bool SharedHugePagesGranted() {
  char line[128] = "";
  if (FILE* file = std::fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re")) {
    if (!std::fgets(line, sizeof line, file)) line[0] = '\0';
    std::fclose(file);
  }
  for (const char* word : {"[always]", "[within_size]", "[advise]", "[force]"}) {
    if (std::strstr(line, word)) return true;
  }
  return false;
}

class MemfdHeap final : public Heap {
 public:
  explicit MemfdHeap(Counters* counters)
      : counters_(counters), transparent_(SharedHugePagesGranted()) {}

  const char* name() const override { return "memfd"; }
  bool coherent() const override { return true; }
  Status Sync(const Allocation&, CpuAccess, SyncPoint) override { return Status::Ok(); }

  Result<Allocation> Allocate(size_t size, size_t alignment) override {
    QNNRT_ASSIGN_OR_RETURN(size_t rounded, RoundAllocation(size, alignment, PageSize()));
    if (rounded >= kHugePageSize) {
      // Only whole huge pages, so that the size of the fd stays what rounding to pages gives.
      if (rounded % kHugePageSize == 0 && rounded / kHugePageSize <= FreeHugePages()) {
        Result<Allocation> huge = AllocateFrom(rounded, alignment, true);
        if (huge.ok()) return huge;
      }
      if (transparent_) alignment = std::max(alignment, kHugePageSize);
    }
    QNNRT_RETURN_IF_ERROR(CheckMemoryAvailable(rounded));
    return AllocateFrom(rounded, alignment, false);
  }

  void Free(Allocation& allocation) override { FreeMappedAllocation(allocation, counters_); }

 private:
  Result<Allocation> AllocateFrom(size_t size, size_t alignment, bool huge) {
    QNNRT_ASSIGN_OR_RETURN(UniqueFd fd, NewSealedMemfd(size, huge, counters_));
    if (huge) alignment = std::max(alignment, kHugePageSize);
    const bool advise = !huge && transparent_ && size >= kHugePageSize;
    // All pages in one call are cheaper than one by one, and a shortage is an error here. Not where
    // huge pages are to be had: those follow the advice on the mapping.
    if (!huge && !advise && fallocate(fd.get(), 0, 0, static_cast<off_t>(size)) != 0 &&
        (errno == ENOMEM || errno == ENOSPC)) {
      return Error(QNN_COMMON_ERROR_MEM_ALLOC, "memfd of %zu bytes: %s", size, strerror(errno));
    }
    QNNRT_ASSIGN_OR_RETURN(Allocation allocation,
                           AllocationFromFd(std::move(fd), size, alignment, !advise, counters_));
    if (advise) {
      (void)madvise(allocation.address, size, MADV_HUGEPAGE);
      Status status = Populate(allocation.address, size);
      if (!status.ok()) {
        Free(allocation);
        return status;
      }
    }
    return allocation;
  }

  Counters* counters_;
  const bool transparent_;
};

}  // namespace

std::unique_ptr<Heap> NewMemfdHeap(Counters* counters) {
  return std::make_unique<MemfdHeap>(counters);
}

}  // namespace qnnrt
