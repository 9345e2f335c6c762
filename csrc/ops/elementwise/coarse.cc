#include "ops/elementwise/coarse.h"

#include "ops/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qnnrt {

#if defined(__x86_64__)

namespace {

#define QNNRT_COARSE \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma"), always_inline))

// The intrinsics with a mask of ones are the plain ones, of which g++ 12 warns that a number behind
// them is not initialized (its bug 105593).
constexpr __mmask16 kAll = 0xffff;

QNNRT_COARSE inline __m512 Of(float x) { return _mm512_set1_ps(x); }

// 1 / x, 0 without its bit: a division takes as long as all the rest. (Of infinity the step would
// make no number.)
QNNRT_COARSE inline __m512 Inverse(__m512 x, __mmask16 these = kAll) {
  const __m512 y = _mm512_maskz_rcp14_ps(kAll, x);
  return _mm512_maskz_fmadd_ps(these, _mm512_fnmadd_ps(x, y, Of(1.0f)), y, y);
}

// 1 / (1 + 2^z). The polynomial is a minimax fit of 2^f. From z = 126 on it is 0, since the least
// normal number times a large x is none that could be left out.
QNNRT_COARSE inline __m512 Logistic2(__m512 z) {
  constexpr int kFloor = 0x09;
  const __mmask16 some = _mm512_cmp_ps_mask(z, Of(126.0f), _CMP_NGE_UQ);
  const __m512 f = _mm512_maskz_reduce_ps(kAll, z, kFloor);
  __m512 p = _mm512_fmadd_ps(Of(0.013534187f), f, Of(0.052011482f));
  p = _mm512_fmadd_ps(p, f, Of(0.24144270f));
  p = _mm512_fmadd_ps(p, f, Of(0.69300383f));
  p = _mm512_fmadd_ps(p, f, Of(1.0000026f));
  return Inverse(Of(1.0f) + _mm512_maskz_scalef_ps(kAll, p, z), some);
}

constexpr float kLog2E = 1.44269504f;

struct CoarseSigmoid {
  QNNRT_COARSE static inline __m512 Do(__m512 x, UnaryParams) { return Logistic2(x * Of(-kLog2E)); }
};

struct CoarseSwish {
  QNNRT_COARSE static inline __m512 Do(__m512 x, UnaryParams p) {
    return x * Logistic2(x * Of(-kLog2E * p.alpha));
  }
};

struct CoarseGeluTanh {
  QNNRT_COARSE static inline __m512 Do(__m512 x, UnaryParams) {
    const __m512 p =
        _mm512_fmadd_ps(Of(-kLog2E * 0.0713548163f), x * x, Of(-kLog2E * 1.5957691216f));
    return x * Logistic2(x * p);
  }
};

// x P(x^2) / Q(x^2), a minimax fit; beyond 6.2 it is 1 - 8e-6.
struct CoarseTanh {
  QNNRT_COARSE static inline __m512 Do(__m512 x, UnaryParams) {
    x = _mm512_maskz_max_ps(kAll, Of(-6.2f), _mm512_maskz_min_ps(kAll, Of(6.2f), x));
    const __m512 t = x * x;
    __m512 p = _mm512_fmadd_ps(Of(4.45025925e-06f), t, Of(2.38233145e-03f));
    p = _mm512_fmadd_ps(p, t, Of(1.24182505e-01f));
    p = _mm512_fmadd_ps(p, t, Of(9.99999602e-01f));
    __m512 q = _mm512_fmadd_ps(Of(1.54013621e-04f), t, Of(2.15576897e-02f));
    q = _mm512_fmadd_ps(q, t, Of(4.57512579e-01f));
    q = _mm512_fmadd_ps(q, t, Of(1.0f));
    return x * p * Inverse(q);
  }
};

template <typename Op>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma"))) void Run(
    const void* in, void* out, size_t count, UnaryParams p) {
  constexpr size_t kLanes = 16, kBeside = 4;
  const float* const x = static_cast<const float*>(in);
  float* const y = static_cast<float*>(out);
  size_t i = 0;
  for (; i + kBeside * kLanes <= count; i += kBeside * kLanes) {
#pragma GCC unroll 4
    for (size_t k = 0; k < kBeside * kLanes; k += kLanes)
      _mm512_storeu_ps(y + i + k, Op::Do(_mm512_loadu_ps(x + i + k), p));
  }
  for (; i < count; i += kLanes) {
    const size_t left = count - i;
    const __mmask16 these = left >= kLanes ? kAll : static_cast<__mmask16>((1u << left) - 1);
    _mm512_mask_storeu_ps(y + i, these, Op::Do(_mm512_maskz_loadu_ps(these, x + i), p));
  }
}

}  // namespace

UnaryLoop CoarseLoop(Activation activation) {
  if (!CpuRoundsBrains()) return nullptr;
  switch (activation) {
    case Activation::kSigmoid:
      return Run<CoarseSigmoid>;
    case Activation::kTanh:
      return Run<CoarseTanh>;
    case Activation::kGeluTanh:
      return Run<CoarseGeluTanh>;
    case Activation::kSwish:
      return Run<CoarseSwish>;
    default:
      return nullptr;
  }
}

#else

UnaryLoop CoarseLoop(Activation) { return nullptr; }

#endif

}  // namespace qnnrt
