// Freed memory kept for the next buffer of the same heap and mapped size: an alloc/free pair then
// costs no system call and no page fault. Memory whose fd has left the process is never kept:
// somebody else may still see it. Contents of reused memory are unspecified, as malloc's.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "memory/adaptors.h"

namespace qnnrt {

// One pool for all heaps, bounded in bytes. Evicts the least recently freed memory first.
class ReusePool {
 public:
  struct Stats {
    uint64_t limit, bytes, entries, hits, misses, evictions;
  };
  explicit ReusePool(uint64_t limit) : limit_(limit) {}
  ~ReusePool() { Trim(0); }

  // Takes memory of exactly `size` mapped bytes whose address has the alignment; false when none.
  bool Take(Heap* heap, size_t size, size_t alignment, Allocation* out);
  // Keeps the allocation, or frees it when it does not fit under the limit.
  void Give(Heap* heap, Allocation& allocation);
  void SetLimit(uint64_t bytes);
  uint64_t Trim(uint64_t keep_bytes);  // returns the bytes given back
  Stats stats() const;

  std::mutex& mutex() { return mutex_; }
  // In a forked child, mutex rebuilt: what is pooled is shared with the parent and stays unused.
  void ResetAfterFork();

 private:
  struct Entry {
    Heap* heap;
    Allocation allocation;
  };
  using Entries = std::list<Entry>;
  struct Key {
    Heap* heap;
    size_t size;
    bool operator==(const Key& o) const { return heap == o.heap && size == o.size; }
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return (reinterpret_cast<uintptr_t>(k.heap) >> 4) ^ (k.size * 0x9E3779B97F4A7C15u >> 20);
    }
  };
  // Moves entries out until at most keep_bytes are left; the caller frees them without the lock.
  void EvictLocked(uint64_t keep_bytes, Entries* out);
  static uint64_t FreeAll(Entries* entries);

  mutable std::mutex mutex_;
  Entries lru_;    // oldest first
  Entries spare_;  // nodes for reuse, so that the steady state allocates nothing
  std::unordered_map<Key, std::vector<Entries::iterator>, KeyHash> by_key_;
  uint64_t limit_;
  uint64_t bytes_ = 0, hits_ = 0, misses_ = 0, evictions_ = 0;
};

class PoolHeap final : public HeapAdaptor {
 public:
  PoolHeap(Heap* upstream, ReusePool* pool) : HeapAdaptor(upstream), pool_(pool) {}
  Result<Allocation> Allocate(size_t size, size_t alignment) override;
  void Free(Allocation& allocation) override;

 private:
  ReusePool* pool_;
};

}  // namespace qnnrt
