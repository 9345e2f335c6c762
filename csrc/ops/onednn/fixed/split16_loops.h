// What is done to each number on its way into an 8-bit product and out of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "ops/isa.h"

namespace qnnrt::onednn {

struct SplitRun {
  // `flip` makes signed numbers unsigned ones, 32768 higher.
  static QNNRT_INLINE void Run(const uint16_t* in, uint8_t* high, uint8_t* low, size_t n,
                               uint16_t flip) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      const uint16_t x = in[i] ^ flip;
      high[i] = static_cast<uint8_t>(x >> 8);
      low[i] = static_cast<uint8_t>(x);
    }
  }
};

// The transposed form: pixel r has its channels `pixels` numbers apart.
struct SplitColumnsRun {
  static QNNRT_INLINE void Run(const uint16_t* in, uint8_t* high, uint8_t* low, size_t pixels,
                               size_t begin, size_t end, size_t channels, uint16_t flip) {
    for (size_t c = 0; c < channels; ++c) {
      for (size_t r = begin; r < end; ++r) {
        const uint16_t x = in[c * pixels + r] ^ flip;
        high[(r - begin) * channels + c] = static_cast<uint8_t>(x >> 8);
        low[(r - begin) * channels + c] = static_cast<uint8_t>(x);
      }
    }
  }
};

struct CopyColumnsRun {
  static QNNRT_INLINE void Run(const uint8_t* in, uint8_t* out, size_t pixels, size_t begin,
                               size_t end, size_t channels) {
    for (size_t c = 0; c < channels; ++c) {
      for (size_t r = begin; r < end; ++r) out[(r - begin) * channels + c] = in[c * pixels + r];
    }
  }
};

struct Requantize {
  double least, most;  // of the result without its offset
  int32_t offset;
};

// The sums of one pixel: of its high bytes and of its low ones. Of bytes that were not split there
// are only the latter.
struct Sums {
  const int32_t *high, *low;
};

template <bool split>
QNNRT_INLINE double Whole(Sums sums, size_t i) {
  if constexpr (split) return 256.0 * sums.high[i] + sums.low[i];
  return sums.low[i];
}

template <typename T>
QNNRT_INLINE T Rounded(double x, Requantize to) {
  x = std::min(std::max(x, to.least), to.most);
  return static_cast<T>(static_cast<int32_t>(std::nearbyint(x)) - to.offset);
}

// T is unsigned: the codes of signed types are the same bytes.
template <typename T, bool split>
struct JoinRun {
  static QNNRT_INLINE void Run(Sums sums, const double* constants, const double* factors, void* to,
                               size_t n, Requantize limits) {
    T* out = static_cast<T*>(to);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      const double sum = Whole<split>(sums, i) + constants[i];  // exact
      out[i] = Rounded<T>(sum * factors[i], limits);
    }
  }
};

// The same with rest x `inputs` in each sum: the part of the weights that does not fit s8, times
// the sum of all numbers that go into the result.
template <typename T, bool split>
struct JoinRestRun {
  static QNNRT_INLINE void Run(Sums sums, const double* constants, const double* factors,
                               const double* rests, double inputs, void* to, size_t n,
                               Requantize limits) {
    T* out = static_cast<T*>(to);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      const double sum = Whole<split>(sums, i) + constants[i] + rests[i] * inputs;  // exact
      out[i] = Rounded<T>(sum * factors[i], limits);
    }
  }
};

template <typename T>
struct SumRun {
  static QNNRT_INLINE int32_t Run(const void* bytes, size_t n) {
    const T* x = static_cast<const T*>(bytes);
    int32_t sum = 0;
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
};

}  // namespace qnnrt::onednn
