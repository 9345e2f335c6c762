// dma-bufs made from a memfd, for machines without a dma-heap. The driver pins the memfd's pages,
// so it must be sealed against shrinking; the memfd's own fd is not needed afterwards.
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <string.h>
#include <sys/ioctl.h>

#include "abi/qnn_errors.h"
#include "memory/heap_common.h"
#include "memory/heaps.h"

namespace qnnrt {
namespace {

class UdmabufHeap final : public Heap {
 public:
  UdmabufHeap(std::string device, Counters* counters)
      : device_(std::move(device)), counters_(counters) {}

  const char* name() const override { return "udmabuf"; }
  bool coherent() const override { return false; }
  Status Sync(const Allocation& allocation, CpuAccess access, SyncPoint point) override {
    return DmaBufSync(allocation.fd, access, point);
  }

  Result<Allocation> Allocate(size_t size, size_t alignment) override {
    QNNRT_ASSIGN_OR_RETURN(size_t rounded, RoundAllocation(size, alignment, PageSize()));
    QNNRT_RETURN_IF_ERROR(CheckMemoryAvailable(rounded));
    UniqueFd device(open(device_.c_str(), O_RDWR | O_CLOEXEC), counters_);
    if (!device.valid()) {
      return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "%s: %s", device_.c_str(),
                   strerror(errno));
    }
    QNNRT_ASSIGN_OR_RETURN(UniqueFd pages, NewSealedMemfd(rounded, false, counters_));
    udmabuf_create request = {};
    request.memfd = static_cast<uint32_t>(pages.get());
    request.flags = UDMABUF_FLAGS_CLOEXEC;
    request.size = rounded;
    int result;
    do {
      result = ioctl(device.get(), UDMABUF_CREATE, &request);
    } while (result < 0 && errno == EINTR);
    if (result < 0) {
      const char* hint = errno == EINVAL ? " (over the driver's size_limit_mb?)" : "";
      return Error(QNN_COMMON_ERROR_MEM_ALLOC, "%s: %zu bytes: %s%s", device_.c_str(), rounded,
                   strerror(errno), hint);
    }
    return AllocationFromFd(UniqueFd(result, counters_), rounded, alignment, true, counters_);
  }

  void Free(Allocation& allocation) override { FreeMappedAllocation(allocation, counters_); }

 private:
  std::string device_;
  Counters* counters_;
};

}  // namespace

std::unique_ptr<Heap> NewUdmabufHeap(const std::string& device, Counters* counters) {
  return std::make_unique<UdmabufHeap>(device, counters);
}

}  // namespace qnnrt
