// CPU features that not every compiler's __builtin_cpu_supports knows.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace qnnrt {

// Conversions between half and single precision (clang has no name for it before version 15).
inline bool CpuHasF16c() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
#else
  return false;
#endif
}

}  // namespace qnnrt
