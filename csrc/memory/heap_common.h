// What the kernel-backed heaps share: checked rounding, and mapping a fresh fd as an Allocation.
#pragma once

#include <cstddef>
#include <string>

#include "memory/heap.h"
#include "memory/mapping.h"

namespace qnnrt {

// Checks the arguments of Heap::Allocate and rounds the size up to `granule`. Errors: 1004, 1002.
Result<size_t> RoundAllocation(size_t size, size_t alignment, size_t granule);

// Maps `fd` whole, takes it over, and backs it with memory when `populate` is set.
Result<Allocation> AllocationFromFd(UniqueFd fd, size_t size, size_t alignment, bool populate,
                                    Counters* counters);
void FreeMappedAllocation(Allocation& allocation, Counters* counters);

// A heap behind a device file that hands out dma-bufs.
class DmaBufHeap : public Heap {
 public:
  DmaBufHeap(std::string device, Counters* counters)
      : device_(std::move(device)), counters_(counters) {}

  bool coherent() const override { return false; }
  Status Sync(const Allocation& allocation, CpuAccess access, SyncPoint point) override {
    return DmaBufSync(allocation.fd, access, point);
  }
  void Free(Allocation& allocation) override { FreeMappedAllocation(allocation, counters_); }

 protected:
  // Opened for each allocation that the pool cannot serve: no fd to keep valid across a fork.
  // Errors: 1010.
  Result<UniqueFd> OpenDevice(int flags);
  // Repeated when a signal interrupts it; what ioctl returns. Errors: 1002, with the size and hint.
  Result<int> Request(int device, unsigned long request, void* argument, size_t size,
                      const char* hint_for_invalid = "");
  Counters* counters() const { return counters_; }

 private:
  const std::string device_;
  Counters* const counters_;
};

// A memfd of `size` bytes that cannot shrink (F_SEAL_SHRINK), with huge pages of its own when
// `huge` is set. Errors: 1002, 1003.
Result<UniqueFd> NewSealedMemfd(size_t size, bool huge, Counters* counters);

}  // namespace qnnrt
