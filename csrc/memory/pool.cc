#include "memory/pool.h"

#include <new>

#include "memory/mapping.h"
#include "support/checked.h"

namespace qnnrt {
namespace {
constexpr size_t kMaxBuckets = 256;
}  // namespace

bool ReusePool::Take(Heap* heap, size_t size, size_t alignment, Allocation* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto bucket = by_key_.find(Key{heap, size});
  if (bucket != by_key_.end()) {
    auto& entries = bucket->second;
    for (size_t i = entries.size(); i-- > 0;) {  // the one freed last is still in the caches
      Entries::iterator entry = entries[i];
      if (reinterpret_cast<uintptr_t>(entry->allocation.address) & (alignment - 1)) continue;
      *out = entry->allocation;
      bytes_ -= size;
      ++hits_;
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
      // An empty bucket is kept, since sizes usually recur.
      if (entries.empty() && by_key_.size() > kMaxBuckets) by_key_.erase(bucket);
      spare_.splice(spare_.end(), lru_, entry);
      return true;
    }
  }
  ++misses_;
  return false;
}

void ReusePool::Give(Heap* heap, Allocation& allocation) {
  Entries evicted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // What can run out of memory comes first: either the pool has it in both indexes, or neither.
    auto& bucket = by_key_[Key{heap, allocation.size}];
    if (bucket.size() == bucket.capacity()) bucket.reserve(2 * bucket.size() + 4);
    if (spare_.empty()) spare_.emplace_back();
    spare_.front() = {heap, allocation};
    lru_.splice(lru_.end(), spare_, spare_.begin());
    bucket.push_back(std::prev(lru_.end()));
    bytes_ += allocation.size;
    EvictLocked(limit_,
                &evicted);  // oldest first; an entry larger than the limit is evicted itself
  }
  allocation = Allocation();
  FreeAll(&evicted);
}

void ReusePool::SetLimit(uint64_t bytes) {
  Entries evicted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = bytes;
    EvictLocked(bytes, &evicted);
  }
  FreeAll(&evicted);
}

uint64_t ReusePool::Trim(uint64_t keep_bytes) {
  Entries evicted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    EvictLocked(keep_bytes, &evicted);
  }
  return FreeAll(&evicted);
}

ReusePool::Stats ReusePool::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {limit_, bytes_, lru_.size(), hits_, misses_, evictions_};
}

void ReusePool::EvictLocked(uint64_t keep_bytes, Entries* out) {
  while (bytes_ > keep_bytes) {
    Entries::iterator oldest = lru_.begin();
    auto bucket = by_key_.find(Key{oldest->heap, oldest->allocation.size});
    auto& entries = bucket->second;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i] != oldest) continue;
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    if (entries.empty()) by_key_.erase(bucket);
    bytes_ -= oldest->allocation.size;
    ++evictions_;
    out->splice(out->end(), lru_, oldest);
  }
}

uint64_t ReusePool::FreeAll(Entries* entries) {
  uint64_t bytes = 0;
  for (Entry& entry : *entries) {
    bytes += entry.allocation.size;
    entry.heap->Free(entry.allocation);
  }
  entries->clear();
  return bytes;
}

void ReusePool::ResetAfterFork() {
  lru_.clear();
  by_key_.clear();
  bytes_ = 0;
}

Result<Allocation> PoolHeap::Allocate(size_t size, size_t alignment) {
  // Heaps round to pages: the same rounding here makes the key. Odd arguments are the heap's to
  // refuse.
  const size_t page = PageSize();
  const bool poolable = size != 0 && size <= SIZE_MAX - page && IsPowerOfTwo(alignment);
  if (poolable) {
    Allocation allocation;
    if (pool_->Take(upstream(), (size + page - 1) & ~(page - 1), alignment, &allocation)) {
      return allocation;
    }
  }
  Result<Allocation> fresh = HeapAdaptor::Allocate(size, alignment);
  if (!fresh.ok() && poolable && pool_->Trim(0) > 0) {
    return HeapAdaptor::Allocate(size, alignment);  // the pool's memory may be what is missing
  }
  return fresh;
}

void PoolHeap::Free(Allocation& allocation) {
  if (allocation.reusable) {
    try {
      pool_->Give(upstream(), allocation);
      return;
    } catch (const std::bad_alloc&) {  // no memory for the pool's entry: free it
    }
  }
  upstream()->Free(allocation);
}

}  // namespace qnnrt
