// What loops in the vectors of AVX512-VNNI share: whether a processor has them, and, for 16-bit
// activations, the way from 32-bit sums to codes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ops/isa.h"
#include "ops/onednn/fixed/split16_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qnnrt::onednn {

// QNNRT_ISA leaves them out.
inline bool HasWordVectors() {
#if defined(__x86_64__)
  static const bool has = CpuIsa() == Isa::kAvx512 && std::getenv("QNNRT_ISA") == nullptr &&
                          __builtin_cpu_supports("avx512vnni");
  return has;
#else
  return false;
#endif
}

#if defined(__x86_64__)

#define QNNRT_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

// The intrinsics with a mask of ones are the plain ones, of which g++ 12 warns that a number behind
// them is not initialized (its bug 105593).
constexpr __mmask8 kAll8 = 0xff;
constexpr __mmask16 kAll16 = 0xffff;

QNNRT_VNNI QNNRT_INLINE __m512i BroadcastFour(const uint8_t* bytes) {
  int x;
  std::memcpy(&x, bytes, sizeof(x));
  return _mm512_set1_epi32(x);
}

// Products in fours. By hand: of so many sums the compiler would move some to memory and back in
// each step.
QNNRT_VNNI QNNRT_INLINE void AddFours(__m512i* sum, __m512i bytes, __m512i weights) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(bytes), "v"(weights));
}

// Codes of 16 bits: (sum + fraction) x factor, rounded half to even, as JoinRun does. Without
// kFractions there are none; kFar: results may lie beyond where rounding to 32 bits is safe.
template <bool kFractions, bool kFar>
struct WordCodes {
  QNNRT_VNNI QNNRT_INLINE explicit WordCodes(const Requantize& to)
      : least(_mm512_set1_pd(to.least)), most(_mm512_set1_pd(to.most)) {
    // As unsigned ones, which signed ones are lower than by 32768.
    const int32_t below = to.least < to.offset ? 32768 : 0;
    offset = _mm512_set1_epi32(below - to.offset);
    low =
        _mm512_set1_epi16(static_cast<int16_t>(static_cast<int32_t>(to.least) - to.offset + below));
    high =
        _mm512_set1_epi16(static_cast<int16_t>(static_cast<int32_t>(to.most) - to.offset + below));
    flip = _mm512_set1_epi16(static_cast<int16_t>(below));
  }

  QNNRT_VNNI QNNRT_INLINE __m256i Steps(__m512d sums, const double* fractions,
                                        const double* factors) const {
    if constexpr (kFractions) sums = _mm512_add_pd(sums, _mm512_loadu_pd(fractions));
    __m512d x = _mm512_mul_pd(sums, _mm512_loadu_pd(factors));
    if constexpr (kFar) {
      x = _mm512_maskz_min_pd(kAll8, _mm512_maskz_max_pd(kAll8, x, least), most);
    }
    return _mm512_maskz_cvtpd_epi32(kAll8, x);
  }

  QNNRT_VNNI QNNRT_INLINE __m512i Sixteen(__m512i sums, const double* fractions,
                                          const double* factors) const {
    const __m256i half0 = _mm512_maskz_extracti64x4_epi64(kAll8, sums, 0);
    const __m256i half1 = _mm512_maskz_extracti64x4_epi64(kAll8, sums, 1);
    return Both(Steps(_mm512_maskz_cvtepi32_pd(kAll8, half0), fractions, factors),
                Steps(_mm512_maskz_cvtepi32_pd(kAll8, half1), fractions + 8, factors + 8));
  }

  // Of 256 times the high sums, and the low ones.
  QNNRT_VNNI QNNRT_INLINE __m512i Sixteen(__m512i highs, __m512i lows, const double* fractions,
                                          const double* factors) const {
    const __m512d base = _mm512_set1_pd(256.0);
    __m256i steps[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const __m256i h = i == 0 ? _mm512_maskz_extracti64x4_epi64(kAll8, highs, 0)
                               : _mm512_maskz_extracti64x4_epi64(kAll8, highs, 1);
      const __m256i l = i == 0 ? _mm512_maskz_extracti64x4_epi64(kAll8, lows, 0)
                               : _mm512_maskz_extracti64x4_epi64(kAll8, lows, 1);
      const __m512d sums = _mm512_fmadd_pd(_mm512_maskz_cvtepi32_pd(kAll8, h), base,
                                           _mm512_maskz_cvtepi32_pd(kAll8, l));  // exact
      steps[i] = Steps(sums, fractions + 8 * i, factors + 8 * i);
    }
    return Both(steps[0], steps[1]);
  }

  QNNRT_VNNI QNNRT_INLINE __m512i Both(__m256i first, __m256i second) const {
    const __m512i steps = _mm512_maskz_inserti64x4(kAll8, _mm512_castsi256_si512(first), second, 1);
    return _mm512_add_epi32(steps, offset);
  }

  // Of two vectors of Sixteen(): quarters of both in turn.
  QNNRT_VNNI QNNRT_INLINE __m512i Packed(__m512i first, __m512i second) const {
    const __m512i codes = _mm512_packus_epi32(first, second);
    return _mm512_xor_si512(_mm512_min_epu16(_mm512_max_epu16(codes, low), high), flip);
  }

  __m512d least, most;
  __m512i offset, low, high, flip;
};

#endif

// How sums of up to 32 channels become codes, in the order of the sums.
struct alignas(64) WordJoin {
  static constexpr size_t kChannels = 32;
  int32_t start[kChannels];  // the integers of constants: where sums begin
  double fractions[kChannels], factors[kChannels];
};

// Those of all channels. `most`: of a sum; order(c): where channel c of a block lies.
class WordJoins {
 public:
  template <typename Order>
  WordJoins(const double* constants, const double* factors, size_t channels, double most,
            const Order& order)
      : blocks_((channels + WordJoin::kChannels - 1) / WordJoin::kChannels) {
    constexpr double kFits = 2147483647.0, kSafe = 1073741824.0;
    for (size_t c = 0; c < channels; ++c) {
      WordJoin& block = blocks_[c / WordJoin::kChannels];
      const size_t at = order(c % WordJoin::kChannels);
      const double whole = std::floor(constants[c]);
      const bool fits = most + std::abs(whole) < kFits;
      block.start[at] = fits ? static_cast<int32_t>(whole) : 0;
      block.fractions[at] = fits ? constants[c] - whole : constants[c];
      block.factors[at] = factors[c];
      fit_ &= fits;
      fractions_ |= block.fractions[at] != 0;
      far_ |= !((most + std::abs(whole)) * std::abs(factors[c]) < kSafe);
    }
  }

  const WordJoin* blocks() const { return blocks_.data(); }
  WordJoin* blocks() { return blocks_.data(); }
  size_t count() const { return blocks_.size(); }
  bool fit() const { return fit_; }  // sums that begin at `start` fit 32 bits
  bool fractions() const { return fractions_; }
  bool far() const { return far_; }
  size_t bytes() const { return blocks_.size() * sizeof(WordJoin); }

 private:
  std::vector<WordJoin> blocks_;  // zeros where there is no channel
  bool fit_ = true, fractions_ = false, far_ = false;
};

}  // namespace qnnrt::onednn
