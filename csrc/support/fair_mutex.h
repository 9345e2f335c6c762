// A mutex for what is held long and taken again at once, as by a thread that executes in a loop.
// The system's own goes to whoever comes first, and that is the thread that has just given it back:
// others waited for seconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "support/clock.h"

namespace qnnrt {

// Eventually fair: free, it is taken as fast as the system's; but once a thread has waited for 100
// us, those that come later line up behind it. A Lockable.
class FairMutex {
 public:
  void lock() {
    if (!try_lock()) Wait();
  }
  bool try_lock() {
    const uint64_t since = waiting_since_.load(std::memory_order_relaxed);
    return (since == 0 || !ComesFirst(since)) && mutex_.try_lock();
  }
  void unlock() { mutex_.unlock(); }

  // Whether who has waited since then, in ticks, comes before newcomers.
  static bool ComesFirst(uint64_t since) { return Ticks::Now() - since >= Patience(); }

 private:
  static uint64_t Patience() {
    static const uint64_t ticks = Ticks::In(100000);
    return ticks;
  }

  void Wait() {
    std::lock_guard<std::mutex> turn(turn_);
    waiting_since_.store(Ticks::Now() | 1, std::memory_order_relaxed);  // never 0
    mutex_.lock();
    waiting_since_.store(0, std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::mutex turn_;                         // of the first that waits; the others wait for it
  std::atomic<uint64_t> waiting_since_{0};  // the first one, in ticks; 0: none waits
};

}  // namespace qnnrt
