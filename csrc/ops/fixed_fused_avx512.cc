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
  __m512 scale_a, shift_a, scale_b, shift_b, scale, inverse, magic;
  __m512i bias, order;
  QNNRT_AVX512_INLINE explicit Constants(const Encodings& e)
      : scale_a(_mm512_set1_ps(e.a.scale)),
        shift_a(_mm512_set1_ps(e.a.shift)),
        scale_b(_mm512_set1_ps(e.b.scale)),
        shift_b(_mm512_set1_ps(e.b.shift)),
        scale(_mm512_set1_ps(e.out.scale)),
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

template <BinaryOp op>
QNNRT_AVX512_INLINE __m512 Do(__m512 x, __m512 y) {
  if constexpr (op == BinaryOp::kAdd) return _mm512_add_ps(x, y);
  if constexpr (op == BinaryOp::kSubtract) return _mm512_sub_ps(x, y);
  if constexpr (op == BinaryOp::kMultiply) return _mm512_mul_ps(x, y);
}

// The code of a real number, before it saturates. Divided as an Encoder does it, or, `once`,
// multiplied by the inverse and rounded once.
template <bool once>
QNNRT_AVX512_INLINE __m512i Code(const Constants& c, __m512 real) {
  __m512 rounded;
  if constexpr (once) {
    rounded = _mm512_fmadd_ps(real, c.inverse, c.magic);
  } else {
    const __m512 near = _mm512_mul_ps(real, c.inverse);
    const __m512 rest = _mm512_fnmadd_ps(near, c.scale, real);
    rounded = _mm512_add_ps(_mm512_fmadd_ps(rest, c.inverse, near), c.magic);
  }
  return _mm512_sub_epi32(_mm512_castps_si512(rounded), c.bias);
}

template <BinaryOp op, bool is_signed, bool once>
struct TwoCodes {
  using Second = uint8_t;
  static QNNRT_AVX512_INLINE __m512i Sixteen(const Constants& c, const uint8_t* a,
                                             const uint8_t* b) {
    const __m512 x = _mm512_mul_ps(c.scale_a, _mm512_add_ps(Load<is_signed>(a), c.shift_a));
    const __m512 y = _mm512_mul_ps(c.scale_b, _mm512_add_ps(Load<is_signed>(b), c.shift_b));
    return Code<once>(c, Do<op>(x, y));
  }
};

template <BinaryOp op, bool is_signed, bool row_first>
struct CodesAndRow {
  using Second = float;
  static QNNRT_AVX512_INLINE __m512i Sixteen(const Constants& c, const uint8_t* a,
                                             const float* row) {
    const __m512 x = _mm512_mul_ps(c.scale_a, _mm512_add_ps(Load<is_signed>(a), c.shift_a));
    const __m512 y = _mm512_loadu_ps(row);
    return Code<false>(c, row_first ? Do<op>(y, x) : Do<op>(x, y));
  }
};

template <typename Codes, bool is_signed>
QNNRT_AVX512_INLINE void Block(const Constants& c, const uint8_t* a,
                               const typename Codes::Second* b, uint8_t* out) {
  const __m512i low =
      _mm512_packs_epi32(Codes::Sixteen(c, a, b), Codes::Sixteen(c, a + 16, b + 16));
  const __m512i high =
      _mm512_packs_epi32(Codes::Sixteen(c, a + 32, b + 32), Codes::Sixteen(c, a + 48, b + 48));
  const __m512i bytes = is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
  _mm512_storeu_si512(out, _mm512_maskz_permutexvar_epi32(0xffff, c.order, bytes));
}

template <typename Codes, bool is_signed>
QNNRT_AVX512_INLINE void RunBlocks(const void* a, const typename Codes::Second* b, void* out,
                                   size_t n, const Encodings& encodings) {
  const Constants c(encodings);
  const uint8_t* x = static_cast<const uint8_t*>(a);
  uint8_t* o = static_cast<uint8_t*>(out);
  size_t i = 0;
  for (; i + 64 <= n; i += 64) Block<Codes, is_signed>(c, x + i, b + i, o + i);
  if (i == n) return;
  alignas(64) uint8_t codes[64] = {}, results[64];
  alignas(64) typename Codes::Second second[64] = {};
  std::memcpy(codes, x + i, n - i);
  std::memcpy(second, b + i, (n - i) * sizeof(second[0]));
  Block<Codes, is_signed>(c, codes, second, results);
  std::memcpy(o + i, results, n - i);
}

template <BinaryOp op, bool is_signed, bool once>
QNNRT_AVX512 void Run(const void* a, const void* b, void* out, size_t n,
                      const Encodings& encodings) {
  RunBlocks<TwoCodes<op, is_signed, once>, is_signed>(a, static_cast<const uint8_t*>(b), out, n,
                                                      encodings);
}

template <BinaryOp op, bool is_signed, bool row_first>
QNNRT_AVX512 void RunRow(const void* a, const float* row, void* out, size_t n,
                         const Encodings& encodings) {
  RunBlocks<CodesAndRow<op, is_signed, row_first>, is_signed>(a, row, out, n, encodings);
}

template <bool is_signed>
FusedRow RowOf(BinaryOp op, bool row_first) {
  switch (op) {
    case BinaryOp::kAdd:
      return RunRow<BinaryOp::kAdd, is_signed, false>;
    case BinaryOp::kSubtract:
      return row_first ? RunRow<BinaryOp::kSubtract, is_signed, true>
                       : RunRow<BinaryOp::kSubtract, is_signed, false>;
    case BinaryOp::kMultiply:
      return RunRow<BinaryOp::kMultiply, is_signed, false>;
    default:
      return nullptr;
  }
}

template <bool is_signed, bool once>
FusedLoop LoopOf(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return Run<BinaryOp::kAdd, is_signed, once>;
    case BinaryOp::kSubtract:
      return Run<BinaryOp::kSubtract, is_signed, once>;
    case BinaryOp::kMultiply:
      return Run<BinaryOp::kMultiply, is_signed, once>;
    default:
      return nullptr;
  }
}

// The greatest real number, regardless of its sign, that a code stands for; about.
float Largest(const Tensor& tensor) {
  const FixedRange range = RangeOf(tensor.dtype, tensor.quantization.bitwidth);
  const float offset = static_cast<float>(tensor.quantization.offsets[0]);
  return tensor.quantization.scales[0] *
         (std::fabs(offset) + std::fmax(std::fabs(static_cast<float>(range.low)),
                                        std::fabs(static_cast<float>(range.high))));
}

// Whether these loops serve: all results have codes that floats round to, and whatever saturates
// does so where a byte ends.
bool Suits(const Node& node) {
  const Tensor& out = *node.outputs[0];
  const FixedRange range = RangeOf(out.dtype, out.quantization.bitwidth);
  const float a = Largest(*node.inputs[0]), b = Largest(*node.inputs[1]);
  return CpuIsa() == Isa::kAvx512 && ElementSize(out.dtype) == 1 && range.high - range.low == 255 &&
         std::fmax(a + b, a * b) < out.quantization.scales[0] * 0x1p20f;
}

}  // namespace

FusedRow PickFusedRow8(BinaryOp op, const Node& node, size_t row_input, FusedRow any) {
  if (!Suits(node)) return any;
  const bool is_signed = node.outputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8;
  return is_signed ? RowOf<true>(op, row_input == 0) : RowOf<false>(op, row_input == 0);
}

FusedLoop PickFused8(BinaryOp op, const Node& node, FusedLoop any, Encodings* encodings) {
  if (!Suits(node)) return any;
  const bool is_signed = node.outputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8;
  const FusedLoop exact = is_signed ? LoopOf<true, false>(op) : LoopOf<false, false>(op);
  const FusedLoop once = is_signed ? LoopOf<true, true>(op) : LoopOf<false, true>(op);
  // Rounding once is not dividing and rounding twice. But there are no more than 65536 pairs: one
  // inverse of three gives the right code for all of them, or none.
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
    once(a, b, got, kPairs, tried);
    if (std::memcmp(right, got, kPairs) != 0) continue;
    *encodings = tried;
    return once;
  }
  return exact;
}
#else
FusedLoop PickFused8(BinaryOp, const Node&, FusedLoop any, Encodings*) { return any; }
FusedRow PickFusedRow8(BinaryOp, const Node&, size_t, FusedRow any) { return any; }
#endif

}  // namespace qnnrt::fixed
