// Behaviour stacked on any heap: statistics here, the reuse pool in pool.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "memory/heap.h"

namespace qnnrt {

// Passes everything through; a base for adaptors that change one thing.
class HeapAdaptor : public Heap {
 public:
  explicit HeapAdaptor(Heap* upstream) : upstream_(upstream) {}
  const char* name() const override { return upstream_->name(); }
  Result<Allocation> Allocate(size_t size, size_t alignment) override {
    return upstream_->Allocate(size, alignment);
  }
  void Free(Allocation& allocation) override { upstream_->Free(allocation); }
  Status Sync(const Allocation& allocation, CpuAccess access, SyncPoint point) override {
    return upstream_->Sync(allocation, access, point);
  }
  bool coherent() const override { return upstream_->coherent(); }
  Heap* upstream() const { return upstream_; }

 private:
  Heap* upstream_;
};

class StatisticsHeap final : public HeapAdaptor {
 public:
  struct Totals {
    int64_t live_bytes, peak_bytes, live_allocations, allocations, failures;
  };
  using HeapAdaptor::HeapAdaptor;
  Result<Allocation> Allocate(size_t size, size_t alignment) override;
  void Free(Allocation& allocation) override;
  Totals totals() const;

 private:
  std::atomic<int64_t> live_bytes_{0}, peak_bytes_{0}, live_{0}, allocations_{0}, failures_{0};
};

}  // namespace qnnrt
