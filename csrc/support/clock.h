#pragma once

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdint>

namespace qnnrt {

inline uint64_t MonotonicNanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

// For counters that every execution adds to and few callers read: the processor's time stamp
// counter where its rate is constant, at a third of the cost of clock_gettime. The rate is measured
// when a count is converted, over the time since the library was loaded.
class Ticks {
 public:
  static uint64_t Now() { return Read(origin_.even); }

  static uint64_t ToNanoseconds(uint64_t ticks) {
    return static_cast<uint64_t>(static_cast<double>(ticks) * NanosecondsPerTick());
  }
  static uint64_t In(uint64_t nanoseconds) {
    return static_cast<uint64_t>(static_cast<double>(nanoseconds) / NanosecondsPerTick());
  }

 private:
  static double NanosecondsPerTick() {
    Moment moment(origin_.even);
    while (moment.nanoseconds - origin_.moment.nanoseconds < 1000000) {  // too short to tell
      timespec pause = {0, 1000000};
      nanosleep(&pause, nullptr);
      moment = Moment(origin_.even);
    }
    return static_cast<double>(moment.nanoseconds - origin_.moment.nanoseconds) /
           static_cast<double>(moment.ticks - origin_.moment.ticks);
  }

  // What both clocks say at one time: of some looks the shortest, as a thread may lose its core
  // between the two.
  struct Moment {
    explicit Moment(bool even) {
      for (uint64_t i = 0, least = UINT64_MAX; i < 8; ++i) {
        const uint64_t before = Read(even), between = MonotonicNanoseconds();
        const uint64_t took = Read(even) - before;
        if (took >= least) continue;
        least = took;
        ticks = before + took / 2;
        nanoseconds = between;
      }
    }
    uint64_t ticks = 0, nanoseconds = 0;
  };

  struct Origin {
    bool even = Even();
    Moment moment{even};
  };

  static uint64_t Read(bool even) {
#if defined(__x86_64__)
    if (even) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (even) {
      uint64_t ticks;
      asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
      return ticks;
    }
#endif
    return MonotonicNanoseconds();
  }

  // The bit by which x86 processors say that their counter neither stops nor changes its rate.
  static bool Even() {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
  }

  static const Origin origin_;
};

inline const Ticks::Origin Ticks::origin_;

}  // namespace qnnrt
