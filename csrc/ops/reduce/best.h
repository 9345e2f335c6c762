// The largest or the least of many values, a NaN among them before all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "abi/qnn_types.h"
#include "ops/isa.h"

namespace qnnrt {

// What every value comes before.
template <typename T, bool largest>
constexpr T WorstOf() {
  using L = std::numeric_limits<T>;
  if constexpr (largest) return L::has_infinity ? -L::infinity() : L::lowest();
  return L::has_infinity ? L::infinity() : L::max();
}

// Whether x comes strictly before y.
template <typename T, bool largest>
QNNRT_INLINE bool Before(T x, T y) {
  const bool unordered = (x != x) & (y == y);  // no branches: loops of these are vectorised
  return (largest ? x > y : x < y) | unordered;
}

// Indices are counted in 32 bits, as sizes are, so that a loop over wide ones is no other one. They
// are not negative: INT_32 and UINT_32 hold the same bits.
inline bool IsWide(Qnn_DataType_t indices) { return indices == QNN_DATATYPE_INT_64; }

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
