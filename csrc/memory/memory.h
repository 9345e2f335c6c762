// The memory subsystem as one object: heaps, pool, buffers, handles. The library's only memory
// state.
#pragma once

#include <memory>
#include <vector>

#include "memory/adaptors.h"
#include "memory/buffer.h"
#include "memory/client_maps.h"
#include "memory/client_pools.h"
#include "memory/counters.h"
#include "memory/heaps.h"
#include "memory/mapping.h"
#include "memory/pool.h"
#include "memory/registry.h"

namespace qnnrt {

class Memory {
 public:
  // Made at first use and never destroyed: buffers may outlive every static destructor. Reads
  // QNNRT_HEAP, QNNRT_VENDOR_LIBRARY, QNNRT_POOL_BYTES and QNNRT_STRICT once.
  static Memory& Get();

  Counters& counters() { return counters_; }
  const HeapSet& heaps() const { return heaps_; }
  ReusePool& pool() { return pool_; }
  BufferTable& buffers() { return buffers_; }
  BufferPin Pin(SlotHandle buffer) { return {&buffers_, buffers_.Pin(buffer)}; }
  Registry& registry() { return registry_; }
  ClientMaps& client_maps() { return client_maps_; }
  ClientPools& client_pools() { return client_pools_; }
  bool strict() const { return strict_; }

  // heap: a name, or null for the default; without QNNRT_HEAP a default that is out of memory hands
  // over to the next heap in order. nbytes > 0; alignment a power of two, 0 for the page size.
  Result<SlotHandle> Allocate(const char* heap, uint64_t nbytes, uint64_t alignment,
                              uint32_t flags = 0);
  // Frees what the pool keeps above that. Returns the bytes.
  uint64_t Trim(uint64_t keep_bytes) {
    RetryUnmaps(&counters_);
    return pool_.Trim(keep_bytes);
  }
  // Close with the graphs whose pools lie in the buffer, and the executions that run through
  // handles, named in the message.
  Status Close(SlotHandle buffer);
  // The error that Close would give, with who holds it; Ok when nobody does, or it is closed.
  Status CheckFree(SlotHandle buffer);

  // The Nth allocation from now fails, whatever its heap; 0 turns it off. For tests.
  void FailNth(int64_t nth) { fail_countdown_.store(nth, std::memory_order_relaxed); }
  StatisticsHeap::Totals HeapTotals(const char* name) const;

  // A warning: a request that was carried out although it is a client error. Standard error unless
  // set.
  using WarningSink = void (*)(const char* message);
  void SetWarningSink(WarningSink sink) { sink_.store(sink, std::memory_order_release); }
  // printf's format; takes no memory, so that it can be used where none is left.
  void Warn(const char* format, ...) const __attribute__((format(printf, 2, 3)));

 private:
  Memory();
  Status WithHolders(Status status, const Buffer* pinned);
  static void BeforeFork();
  static void AfterForkParent();
  static void AfterForkChild();

  struct Stack {  // a heap with its adaptors, outermost last
    std::unique_ptr<StatisticsHeap> statistics;
    std::unique_ptr<PoolHeap> pool;
  };

  Counters counters_;
  HeapSet heaps_;
  ReusePool pool_;
  std::vector<Stack> stacks_;  // as heaps_.all(); empty ones for heaps the machine lacks
  BufferTable buffers_;
  Registry registry_;
  ClientMaps client_maps_;
  ClientPools client_pools_;
  std::atomic<int64_t> fail_countdown_{0};
  bool strict_ = false;
  bool forced_heap_ = false;
  std::atomic<WarningSink> sink_{nullptr};
};

}  // namespace qnnrt
