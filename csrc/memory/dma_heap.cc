// The system dma-heap: what rpcmem itself uses on current Linux kernels.
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <string.h>
#include <sys/ioctl.h>

#include "abi/qnn_errors.h"
#include "memory/heap_common.h"
#include "memory/heaps.h"

namespace qnnrt {
namespace {

class DmaHeap final : public Heap {
 public:
  DmaHeap(std::string device, Counters* counters)
      : device_(std::move(device)), counters_(counters) {}

  const char* name() const override { return "dma_heap"; }
  bool coherent() const override { return false; }
  Status Sync(const Allocation& allocation, CpuAccess access, SyncPoint point) override {
    return DmaBufSync(allocation.fd, access, point);
  }

  Result<Allocation> Allocate(size_t size, size_t alignment) override {
    QNNRT_ASSIGN_OR_RETURN(size_t rounded, RoundAllocation(size, alignment, PageSize()));
    QNNRT_RETURN_IF_ERROR(CheckMemoryAvailable(rounded));
    // Opened for each cold allocation: nothing to keep valid across a fork, and the pool makes it
    // rare.
    UniqueFd device(open(device_.c_str(), O_RDONLY | O_CLOEXEC), counters_);
    if (!device.valid()) {
      return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "%s: %s", device_.c_str(),
                   strerror(errno));
    }
    dma_heap_allocation_data request = {};
    request.len = rounded;
    request.fd_flags = O_RDWR | O_CLOEXEC;
    int result;
    do {
      result = ioctl(device.get(), DMA_HEAP_IOCTL_ALLOC, &request);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
      return Error(QNN_COMMON_ERROR_MEM_ALLOC, "%s: %zu bytes: %s", device_.c_str(), rounded,
                   strerror(errno));
    }
    UniqueFd fd(static_cast<int>(request.fd), counters_);
    // The heap has backed the buffer with pages already, and its mmap enters them all.
    return AllocationFromFd(std::move(fd), rounded, alignment, false, counters_);
  }

  void Free(Allocation& allocation) override { FreeMappedAllocation(allocation, counters_); }

 private:
  std::string device_;
  Counters* counters_;
};

}  // namespace

std::unique_ptr<Heap> NewDmaHeap(const std::string& device, Counters* counters) {
  return std::make_unique<DmaHeap>(device, counters);
}

}  // namespace qnnrt
