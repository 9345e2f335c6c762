// dma-bufs made from a memfd, for machines without a dma-heap. The driver pins the memfd's pages,
// so it must be sealed against shrinking; the memfd's own fd is not needed afterwards.
#include <fcntl.h>
#include <linux/udmabuf.h>

#include "memory/heap_common.h"
#include "memory/heaps.h"

namespace qnnrt {
namespace {

class UdmabufHeap final : public DmaBufHeap {
 public:
  using DmaBufHeap::DmaBufHeap;

  const char* name() const override { return "udmabuf"; }

  Result<Allocation> Allocate(size_t size, size_t alignment) override {
    QNNRT_ASSIGN_OR_RETURN(size_t rounded, RoundAllocation(size, alignment, PageSize()));
    QNNRT_RETURN_IF_ERROR(CheckMemoryAvailable(rounded));
    QNNRT_ASSIGN_OR_RETURN(UniqueFd device, OpenDevice(O_RDWR));
    QNNRT_ASSIGN_OR_RETURN(UniqueFd pages, NewSealedMemfd(rounded, false, counters()));
    udmabuf_create request = {};
    request.memfd = static_cast<uint32_t>(pages.get());
    request.flags = UDMABUF_FLAGS_CLOEXEC;
    request.size = rounded;
    QNNRT_ASSIGN_OR_RETURN(int fd, Request(device.get(), UDMABUF_CREATE, &request, rounded,
                                           " (over the driver's size_limit_mb?)"));
    return AllocationFromFd(UniqueFd(fd, counters()), rounded, alignment, true, counters());
  }
};

}  // namespace

std::unique_ptr<Heap> NewUdmabufHeap(const std::string& device, Counters* counters) {
  return std::make_unique<UdmabufHeap>(device, counters);
}

}  // namespace qnnrt
