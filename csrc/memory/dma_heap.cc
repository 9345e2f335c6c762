// The system dma-heap: what rpcmem itself uses on current Linux kernels.
#include <fcntl.h>
#include <linux/dma-heap.h>

#include "memory/heap_common.h"
#include "memory/heaps.h"

namespace qnnrt {
namespace {

class DmaHeap final : public DmaBufHeap {
 public:
  using DmaBufHeap::DmaBufHeap;

  const char* name() const override { return "dma_heap"; }

  Result<Allocation> Allocate(size_t size, size_t alignment) override {
    QNNRT_ASSIGN_OR_RETURN(size_t rounded, RoundAllocation(size, alignment, PageSize()));
    QNNRT_RETURN_IF_ERROR(CheckMemoryAvailable(rounded));
    QNNRT_ASSIGN_OR_RETURN(UniqueFd device, OpenDevice(O_RDONLY));
    dma_heap_allocation_data request = {};
    request.len = rounded;
    request.fd_flags = O_RDWR | O_CLOEXEC;
    Result<int> done = Request(device.get(), DMA_HEAP_IOCTL_ALLOC, &request, rounded);
    if (!done.ok()) return std::move(done).status();
    UniqueFd fd(static_cast<int>(request.fd), counters());
    // The heap has backed the buffer with pages already, and its mmap enters them all.
    return AllocationFromFd(std::move(fd), rounded, alignment, false, counters());
  }
};

}  // namespace

std::unique_ptr<Heap> NewDmaHeap(const std::string& device, Counters* counters) {
  return std::make_unique<DmaHeap>(device, counters);
}

}  // namespace qnnrt
