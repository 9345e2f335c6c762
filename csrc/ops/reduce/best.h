// The largest or the least of many values, a NaN among them before all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "ops/isa.h"

namespace qnnrt {

// What every value comes before.
template <typename T, bool largest>
constexpr T WorstOf() {
  using L = std::numeric_limits<T>;
  if constexpr (largest) return L::has_infinity ? -L::infinity() : L::lowest();
  return L::has_infinity ? L::infinity() : L::max();
}

template <typename T, bool largest>
QNNRT_INLINE T BestOf(const T* x, size_t n) {
  T best = WorstOf<T, largest>();
  // NaNs are looked for apart: one comparison a value is what processors do.
  uint32_t unordered = 0;
  if constexpr (largest) {
    QNNRT_SIMD_REDUCE(reduction(max : best) reduction(| : unordered))
    for (size_t i = 0; i < n; ++i) {
      best = x[i] > best ? x[i] : best;
      unordered |= x[i] != x[i] ? 1u : 0u;
    }
  } else {
    QNNRT_SIMD_REDUCE(reduction(min : best) reduction(| : unordered))
    for (size_t i = 0; i < n; ++i) {
      best = x[i] < best ? x[i] : best;
      unordered |= x[i] != x[i] ? 1u : 0u;
    }
  }
  return unordered != 0 ? std::numeric_limits<T>::quiet_NaN() : best;
}

}  // namespace qnnrt
