#include "memory/adaptors.h"

namespace qnnrt {

Result<Allocation> StatisticsHeap::Allocate(size_t size, size_t alignment) {
  Result<Allocation> allocation = HeapAdaptor::Allocate(size, alignment);
  if (!allocation.ok()) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    return allocation;
  }
  const int64_t bytes = static_cast<int64_t>(allocation->size);
  allocations_.fetch_add(1, std::memory_order_relaxed);
  live_.fetch_add(1, std::memory_order_relaxed);
  const int64_t now = live_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return allocation;
}

void StatisticsHeap::Free(Allocation& allocation) {
  live_.fetch_sub(1, std::memory_order_relaxed);
  live_bytes_.fetch_sub(static_cast<int64_t>(allocation.size), std::memory_order_relaxed);
  HeapAdaptor::Free(allocation);
}

StatisticsHeap::Totals StatisticsHeap::totals() const {
  return {live_bytes_.load(std::memory_order_relaxed), peak_bytes_.load(std::memory_order_relaxed),
          live_.load(std::memory_order_relaxed), allocations_.load(std::memory_order_relaxed),
          failures_.load(std::memory_order_relaxed)};
}

}  // namespace qnnrt
