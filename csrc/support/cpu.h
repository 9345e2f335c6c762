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

// Products of BFLOAT_16 in vectors, and rounding to it.
inline bool CpuHasAvx512Bf16() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
#else
  return false;
#endif
}

// Products of BFLOAT_16 with sums in single precision, by matrix units or vectors.
inline bool CpuMultipliesBfloat16() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 22 & 1) != 0) return true;  // AMX-BF16
  return CpuHasAvx512Bf16();
#else
  return false;
#endif
}

}  // namespace qnnrt
