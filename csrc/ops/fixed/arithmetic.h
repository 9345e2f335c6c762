// The arithmetic of one fixed-point number, for loops that the compiler vectorizes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ops/isa.h"

namespace qnnrt::fixed {

// In 16 bits the sum is exact as a float; in 32 bits the float rounds it.
struct Decoder {
  float scale = 1, shift = 0;
  Decoder() = default;
  Decoder(float scale, int32_t offset) : scale(scale), shift(static_cast<float>(offset)) {}
  template <typename T>
  QNNRT_INLINE float operator()(T code) const {
    return scale * (static_cast<float>(code) + shift);
  }
};

// Rounds half to even what IEEE division by the scale gives, within the codes [low, high]; NaN
// becomes real 0 (`finite`: there is none). For codes of 16 bits and encodings that Takes() is true
// of.
struct Encoder {
  float scale = 1, inverse = 1;
  float least = 0, most = 0;  // the real numbers of the first and the last code
  int32_t bias = 0;           // what rounding by addition leaves, and the offset

  static constexpr float kLargest = std::numeric_limits<float>::max();
  static constexpr float kMagic = 12582912.0f;  // 1.5 x 2^23: adding it rounds to an integer
  static bool Takes(float scale, int32_t offset, int64_t low, int64_t high) {
    // Quotients that do not vanish, and sums that kMagic rounds. The largest float, which stands
    // for infinity, becomes the last code, as with the scale of a mask whose least number it is.
    const int64_t first = low + offset, last = high + offset;
    const double widest = static_cast<double>(std::max(-first, last)) - 0.25;
    return scale > 0x1p-100f && scale < 0x1p126f &&
           static_cast<double>(scale) * widest < kLargest && first > -(1 << 21) && last < (1 << 21);
  }
  Encoder() = default;
  Encoder(float scale, int32_t offset, int64_t low, int64_t high)
      : scale(scale),
        inverse(1.0f / scale),
        least(std::max(scale * static_cast<float>(low + offset), -kLargest)),
        most(std::min(scale * static_cast<float>(high + offset), kLargest)) {
    std::memcpy(&bias, &kMagic, sizeof(bias));
    bias += offset;
  }

  int32_t offset() const {
    int32_t magic;
    std::memcpy(&magic, &kMagic, sizeof(magic));
    return bias - magic;
  }

  // What a Decoder makes of the code.
  template <bool fma, bool finite = false>
  QNNRT_INLINE float Real(float x) const {
    if constexpr (!finite) x = x == x ? x : 0.0f;
    x = std::min(std::max(x, least), most);
    return scale * ((Quotient<fma>(x) + kMagic) - kMagic);
  }

  template <typename T, bool fma, bool finite = false>
  QNNRT_INLINE T Code(float x) const {
    if constexpr (!finite) x = x == x ? x : 0.0f;
    x = std::min(std::max(x, least), most);  // their quotients round to the first and last code
    const float sum = Quotient<fma>(x) + kMagic;
    int32_t bits;
    std::memcpy(&bits, &sum, sizeof(bits));
    return static_cast<T>(bits - bias);
  }

 private:
  // With fused multiply-adds two steps of refinement replace the slow division: the residue is
  // exact, and what it corrects the product by rounds as the quotient does.
  template <bool fma>
  QNNRT_INLINE float Quotient(float x) const {
    if constexpr (!fma) return x / scale;
    const float q = x * inverse;
    const float rest = __builtin_fmaf(-q, scale, x);
    return __builtin_fmaf(rest, inverse, q);
  }
};

// `Loop<fma>` for this CPU: only the base instruction set has no fused multiply-add.
template <template <bool> class Loop>
auto PickFma() {
  return CpuIsa() == Isa::kBase ? PickIsa<Loop<false>>() : PickIsa<Loop<true>>();
}

}  // namespace qnnrt::fixed
