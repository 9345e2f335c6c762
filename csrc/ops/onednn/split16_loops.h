// What is done to each number of 16 bits on its way into an 8-bit product and out of it.
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

struct Requantize {
  double least, most;  // of the result without its offset
  int32_t offset;
};

struct JoinRun {
  static QNNRT_INLINE void Run(const int32_t* high, const int32_t* low, const double* constants,
                               const double* factors, uint16_t* out, size_t n, Requantize to) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      const double sum = 256.0 * high[i] + low[i] + constants[i];  // exact
      const double x = std::min(std::max(sum * factors[i], to.least), to.most);
      out[i] = static_cast<uint16_t>(static_cast<int32_t>(std::nearbyint(x)) - to.offset);
    }
  }
};

// The same with rest x `inputs` in each sum: the part of the weights that does not fit s8, times
// the sum of all numbers that go into the result.
struct JoinRestRun {
  static QNNRT_INLINE void Run(const int32_t* high, const int32_t* low, const double* constants,
                               const double* factors, const double* rests, double inputs,
                               uint16_t* out, size_t n, Requantize to) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      const double sum = 256.0 * high[i] + low[i] + constants[i] + rests[i] * inputs;  // exact
      const double x = std::min(std::max(sum * factors[i], to.least), to.most);
      out[i] = static_cast<uint16_t>(static_cast<int32_t>(std::nearbyint(x)) - to.offset);
    }
  }
};

struct SumRun {
  static QNNRT_INLINE int64_t Run(const uint8_t* high, const uint8_t* low, size_t n) {
    int32_t highs = 0, lows = 0;
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      highs += high[i];
      lows += low[i];
    }
    return int64_t{256} * highs + lows;
  }
};

}  // namespace qnnrt::onednn
