// Sums, differences and products of 8 bits with AVX-512: the compiler's widening and narrowing take
// longer than the arithmetic, and its clamps are what saturating packs do anyway.
#include <cmath>
#include <cstring>
#include <memory>

#include "ops/fixed.h"
#include "ops/fixed_fused.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qnnrt::fixed {

#if defined(__x86_64__)
namespace {

#define QNNRT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd")))
#define QNNRT_AVX512_INLINE \
  __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd"))) inline

struct Constants {
  __m512 scale_a, shift_a, scale_b, shift_b, inverse, magic;
  __m512i bias, order;
  QNNRT_AVX512_INLINE explicit Constants(const Encodings& e)
      : scale_a(_mm512_set1_ps(e.a.scale)),
        shift_a(_mm512_set1_ps(e.a.shift)),
        scale_b(_mm512_set1_ps(e.b.scale)),
        shift_b(_mm512_set1_ps(e.b.shift)),
        inverse(_mm512_set1_ps(e.out.inverse)),
        magic(_mm512_set1_ps(Encoder::kMagic)),
        bias(_mm512_set1_epi32(e.out.bias)),
        // packing works within 128 bits: this puts the quarters behind one another
        order(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)) {}
};

template <bool is_signed>
QNNRT_AVX512_INLINE __m512 Load(const uint8_t* codes) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  // All of them; gcc 12 warns of its own header where there is no mask.
  const __m512i wide = is_signed ? _mm512_maskz_cvtepi8_epi32(0xffff, bytes)
                                 : _mm512_maskz_cvtepu8_epi32(0xffff, bytes);
  return _mm512_maskz_cvtepi32_ps(0xffff, wide);
}

template <BinaryOp op, bool is_signed>
QNNRT_AVX512_INLINE __m512i Sixteen(const Constants& c, const uint8_t* a, const uint8_t* b) {
  const __m512 x = _mm512_mul_ps(c.scale_a, _mm512_add_ps(Load<is_signed>(a), c.shift_a));
  const __m512 y = _mm512_mul_ps(c.scale_b, _mm512_add_ps(Load<is_signed>(b), c.shift_b));
  const __m512 real = op == BinaryOp::kAdd        ? _mm512_add_ps(x, y)
                      : op == BinaryOp::kSubtract ? _mm512_sub_ps(x, y)
                                                  : _mm512_mul_ps(x, y);
  const __m512 rounded = _mm512_fmadd_ps(real, c.inverse, c.magic);
  return _mm512_sub_epi32(_mm512_castps_si512(rounded), c.bias);
}

template <BinaryOp op, bool is_signed>
QNNRT_AVX512_INLINE void Block(const Constants& c, const uint8_t* a, const uint8_t* b,
                               uint8_t* out) {
  const __m512i low = _mm512_packs_epi32(Sixteen<op, is_signed>(c, a, b),
                                         Sixteen<op, is_signed>(c, a + 16, b + 16));
  const __m512i high = _mm512_packs_epi32(Sixteen<op, is_signed>(c, a + 32, b + 32),
                                          Sixteen<op, is_signed>(c, a + 48, b + 48));
  const __m512i bytes = is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
  _mm512_storeu_si512(out, _mm512_maskz_permutexvar_epi32(0xffff, c.order, bytes));
}

template <BinaryOp op, bool is_signed>
QNNRT_AVX512 void Run(const void* a, const void* b, void* out, size_t n,
                      const Encodings& encodings) {
  const Constants c(encodings);
  const uint8_t* x = static_cast<const uint8_t*>(a);
  const uint8_t* y = static_cast<const uint8_t*>(b);
  uint8_t* o = static_cast<uint8_t*>(out);
  size_t i = 0;
  for (; i + 64 <= n; i += 64) Block<op, is_signed>(c, x + i, y + i, o + i);
  if (i == n) return;
  alignas(64) uint8_t rest[3][64] = {};
  std::memcpy(rest[0], x + i, n - i);
  std::memcpy(rest[1], y + i, n - i);
  Block<op, is_signed>(c, rest[0], rest[1], rest[2]);
  std::memcpy(o + i, rest[2], n - i);
}

template <BinaryOp op>
FusedLoop OfType(Qnn_DataType_t type) {
  if (type == QNN_DATATYPE_UFIXED_POINT_8) return Run<op, false>;
  return type == QNN_DATATYPE_SFIXED_POINT_8 ? Run<op, true> : nullptr;
}

FusedLoop Of(BinaryOp op, Qnn_DataType_t type) {
  switch (op) {
    case BinaryOp::kAdd:
      return OfType<BinaryOp::kAdd>(type);
    case BinaryOp::kSubtract:
      return OfType<BinaryOp::kSubtract>(type);
    case BinaryOp::kMultiply:
      return OfType<BinaryOp::kMultiply>(type);
    default:
      return nullptr;
  }
}

// The largest sum, or product, that codes of 8 bits can make, as codes of the result.
bool RoundsEverywhere(const Encodings& e) {
  const float a = e.a.scale * (std::fabs(e.a.shift) + 256.0f);
  const float b = e.b.scale * (std::fabs(e.b.shift) + 256.0f);
  return std::fmax(a + b, a * b) < e.out.scale * 0x1p20f;
}

}  // namespace

FusedLoop PickFused8(BinaryOp op, const Tensor& out, FusedLoop exact, Encodings* encodings) {
  const FusedLoop fast = CpuIsa() == Isa::kAvx512 ? Of(op, out.dtype) : nullptr;
  const FixedRange range = RangeOf(out.dtype, out.quantization.bitwidth);
  if (fast == nullptr || range.high - range.low != 255 || !RoundsEverywhere(*encodings)) {
    return exact;
  }
  // Multiplying by the inverse and rounding once is not dividing and rounding twice. But there are
  // no more than 65536 pairs: one inverse of three gives the right code for all of them, or none.
  constexpr size_t kPairs = 65536;
  const std::shared_ptr<AlignedBytes> memory = AlignedBytes::Make(4 * kPairs);
  if (!memory) return exact;
  uint8_t* a = static_cast<uint8_t*>(memory->data());
  uint8_t *b = a + kPairs, *right = b + kPairs, *got = right + kPairs;
  for (size_t i = 0; i < kPairs; ++i) a[i] = static_cast<uint8_t>(i);
  for (size_t i = 0; i < kPairs; ++i) b[i] = static_cast<uint8_t>(i >> 8);
  exact(a, b, right, kPairs, *encodings);
  Encodings tried = *encodings;
  const float inverse = encodings->out.inverse;
  for (const float candidate :
       {inverse, std::nextafter(inverse, 0.0f), std::nextafter(inverse, INFINITY)}) {
    tried.out.inverse = candidate;
    fast(a, b, got, kPairs, tried);
    if (std::memcmp(right, got, kPairs) != 0) continue;
    *encodings = tried;
    return fast;
  }
  return exact;
}
#else
FusedLoop PickFused8(BinaryOp, const Tensor&, FusedLoop exact, Encodings*) { return exact; }
#endif

}  // namespace qnnrt::fixed
