#pragma once

#include <atomic>
#include <cstdint>

namespace qnnrt {

// What one thread at a time adds to, as fast as to an integer; any may read it or begin anew
// meanwhile.
class Counter {
 public:
  void Add(uint64_t n) {
    sum_.store(sum_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t value() const {
    const uint64_t before = before_.load(std::memory_order_relaxed);
    return sum_.load(std::memory_order_relaxed) - before;
  }
  void Reset() { before_.store(sum_.load(std::memory_order_relaxed), std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> sum_{0}, before_{0};
};

}  // namespace qnnrt
