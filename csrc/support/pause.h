// What a loop does that looks for a change of memory: leaves the core to its other thread.
#pragma once

namespace qnnrt {

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace qnnrt
