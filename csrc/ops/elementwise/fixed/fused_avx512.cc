// Sums, differences and products of 8 bits with AVX-512: the compiler's widening and narrowing take
// longer than the arithmetic, and its clamps are what saturating packs do anyway.
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "ops/elementwise/fixed/fused.h"
#include "ops/fixed/codec.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qnnrt::fixed {

#if defined(__x86_64__)
namespace {

#define QNNRT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd")))
#define QNNRT_AVX512_INLINE \
  __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd"))) inline

// Packing works within 128 bits: this puts the quarters behind one another.
QNNRT_AVX512_INLINE __m512i InOrder() {
  return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

struct Constants {
  __m512 scale_a, shift_a, scale_b, shift_b, scale, inverse, magic, steps_a, steps_b, constant;
  __m512i bias, zero, order, low, high;
  bool limited;  // to less than saturation does
  QNNRT_AVX512_INLINE explicit Constants(const Encodings& e)
      : scale_a(_mm512_set1_ps(e.a.scale)),
        shift_a(_mm512_set1_ps(e.a.shift)),
        scale_b(_mm512_set1_ps(e.b.scale)),
        shift_b(_mm512_set1_ps(e.b.shift)),
        scale(_mm512_set1_ps(e.out.scale)),
        inverse(_mm512_set1_ps(e.out.inverse)),
        magic(_mm512_set1_ps(Encoder::kMagic)),
        steps_a(_mm512_set1_ps(e.steps.a)),
        steps_b(_mm512_set1_ps(e.steps.b)),
        constant(_mm512_set1_ps(e.steps.constant)),
        bias(_mm512_set1_epi32(e.out.bias)),
        zero(_mm512_set1_epi16(static_cast<int16_t>(-e.out.offset()))),
        order(InOrder()),
        low(_mm512_set1_epi8(static_cast<int8_t>(e.codes.low))),
        high(_mm512_set1_epi8(static_cast<int8_t>(e.codes.high))),
        limited(e.codes.high - e.codes.low < 255) {}
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

// What follows on Sixteen(): the offset of the output, if that is not in it yet.
struct WithOffset {
  static QNNRT_AVX512_INLINE __m512i Finish(const Constants&, __m512i words) { return words; }
};

template <BinaryOp op, bool is_signed, bool once>
struct TwoCodes : WithOffset {
  using Second = uint8_t;
  static QNNRT_AVX512_INLINE __m512i Sixteen(const Constants& c, const uint8_t* a,
                                             const uint8_t* b) {
    const __m512 x = _mm512_mul_ps(c.scale_a, _mm512_add_ps(Load<is_signed>(a), c.shift_a));
    const __m512 y = _mm512_mul_ps(c.scale_b, _mm512_add_ps(Load<is_signed>(b), c.shift_b));
    return Code<once>(c, Do<op>(x, y));
  }
};

// A sum or a difference straight from the codes: two thirds of the instructions.
template <bool is_signed>
struct Sum {
  using Second = uint8_t;
  static QNNRT_AVX512_INLINE __m512i Sixteen(const Constants& c, const uint8_t* a,
                                             const uint8_t* b) {
    const __m512 y = _mm512_fmadd_ps(Load<is_signed>(b), c.steps_b, c.constant);
    return _mm512_maskz_cvtps_epi32(0xffff, _mm512_fmadd_ps(Load<is_signed>(a), c.steps_a, y));
  }
  static QNNRT_AVX512_INLINE __m512i Finish(const Constants& c, __m512i words) {
    return _mm512_adds_epi16(words, c.zero);
  }
};

template <BinaryOp op, bool is_signed, bool row_first>
struct CodesAndRow : WithOffset {
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
  const __m512i low = Codes::Finish(
      c, _mm512_packs_epi32(Codes::Sixteen(c, a, b), Codes::Sixteen(c, a + 16, b + 16)));
  const __m512i high = Codes::Finish(
      c, _mm512_packs_epi32(Codes::Sixteen(c, a + 32, b + 32), Codes::Sixteen(c, a + 48, b + 48)));
  __m512i bytes = is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
  if (c.limited) {
    bytes = is_signed ? _mm512_min_epi8(_mm512_max_epi8(bytes, c.low), c.high)
                      : _mm512_min_epu8(_mm512_max_epu8(bytes, c.low), c.high);
  }
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

template <bool is_signed>
QNNRT_AVX512 void RunSum(const void* a, const void* b, void* out, size_t n,
                         const Encodings& encodings) {
  RunBlocks<Sum<is_signed>, is_signed>(a, static_cast<const uint8_t*>(b), out, n, encodings);
}

template <BinaryOp op, bool is_signed, bool row_first>
QNNRT_AVX512 void RunRow(const void* a, const float* row, void* out, size_t n,
                         const Encodings& encodings) {
  RunBlocks<CodesAndRow<op, is_signed, row_first>, is_signed>(a, row, out, n, encodings);
}

// Sixteen sums, each with constants of its own.
template <bool is_signed>
QNNRT_AVX512_INLINE __m512i Sixteen(const uint8_t* codes, const float* factors,
                                    const float* addends) {
  const __m512 sum =
      _mm512_fmadd_ps(Load<is_signed>(codes), _mm512_loadu_ps(factors), _mm512_loadu_ps(addends));
  return _mm512_maskz_cvtps_epi32(0xffff, sum);
}

template <bool is_signed>
QNNRT_AVX512_INLINE void AffineBlock(const uint8_t* x, const float* f, const float* a, uint8_t* out,
                                     __m512i zero, __m512i order) {
  const __m512i low =
      _mm512_packs_epi32(Sixteen<is_signed>(x, f, a), Sixteen<is_signed>(x + 16, f + 16, a + 16));
  const __m512i high = _mm512_packs_epi32(Sixteen<is_signed>(x + 32, f + 32, a + 32),
                                          Sixteen<is_signed>(x + 48, f + 48, a + 48));
  const __m512i l = _mm512_adds_epi16(low, zero), h = _mm512_adds_epi16(high, zero);
  const __m512i bytes = is_signed ? _mm512_packs_epi16(l, h) : _mm512_packus_epi16(l, h);
  _mm512_storeu_si512(out, _mm512_maskz_permutexvar_epi32(0xffff, order, bytes));
}

template <bool is_signed>
QNNRT_AVX512 void RunAffine(const void* codes, const float* factors, const float* addends,
                            void* out, size_t n, int32_t zero) {
  const __m512i z = _mm512_set1_epi16(static_cast<int16_t>(zero));
  const __m512i order = InOrder();
  const uint8_t* x = static_cast<const uint8_t*>(codes);
  uint8_t* o = static_cast<uint8_t*>(out);
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    AffineBlock<is_signed>(x + i, factors + i, addends + i, o + i, z, order);
  }
  if (i == n) return;
  alignas(64) uint8_t last[64] = {}, results[64];
  alignas(64) float f[64] = {}, a[64] = {};
  std::memcpy(last, x + i, n - i);
  std::memcpy(f, factors + i, (n - i) * sizeof(float));
  std::memcpy(a, addends + i, (n - i) * sizeof(float));
  AffineBlock<is_signed>(last, f, a, results, z, order);
  std::memcpy(o + i, results, n - i);
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

// Whether these loops serve: all results have codes that floats round to.
bool Suits(const Node& node) {
  const Tensor& out = *node.outputs[0];
  const float a = Largest(*node.inputs[0]), b = Largest(*node.inputs[1]);
  return CpuIsa() == Isa::kAvx512 && ElementSize(out.dtype) == 1 &&
         std::fmax(a + b, a * b) < out.quantization.scales[0] * 0x1p20f;
}

// There are no more than 65536 pairs of codes: a loop that gives the right code for all of them is
// as good as the exact one.
class Pairs {
 public:
  static std::optional<Pairs> Of(FusedLoop exact, const Encodings& encodings) {
    Pairs pairs;
    pairs.memory_ = AlignedBytes::Make(4 * kCount);
    if (!pairs.memory_) return std::nullopt;
    uint8_t *a = pairs.At(0), *b = pairs.At(1);
    for (size_t i = 0; i < kCount; ++i) a[i] = static_cast<uint8_t>(i);
    for (size_t i = 0; i < kCount; ++i) b[i] = static_cast<uint8_t>(i >> 8);
    exact(a, b, pairs.At(2), kCount, encodings);
    return pairs;
  }
  bool Agree(FusedLoop loop, const Encodings& encodings) const {
    loop(At(0), At(1), At(3), kCount, encodings);
    return std::memcmp(At(2), At(3), kCount) == 0;
  }

 private:
  static constexpr size_t kCount = 65536;
  uint8_t* At(size_t part) const { return static_cast<uint8_t*>(memory_->data()) + part * kCount; }

  std::shared_ptr<AlignedBytes> memory_;  // both codes, the right results, those of a loop
};

FusedLoop SumOf(bool is_signed) { return is_signed ? RunSum<true> : RunSum<false>; }

// Finds the steps of a sum or a difference; true if there are such that are right.
bool TryStepsOf(BinaryOp op, const Node& node, const Pairs& pairs, Encodings* encodings) {
  const Tensor& out = *node.outputs[0];
  double steps[2], constant = 0;
  for (size_t i = 0; i < 2; ++i) {
    const Quantization& q = node.inputs[i]->quantization;
    steps[i] = static_cast<double>(q.scales[0]) / static_cast<double>(out.quantization.scales[0]);
    if (i == 1 && op == BinaryOp::kSubtract) steps[i] = -steps[i];
    constant += steps[i] * q.offsets[0];
  }
  Encodings tried = *encodings;
  const FusedLoop sum = SumOf(out.dtype == QNN_DATATYPE_SFIXED_POINT_8);
  for (int a : kNudges) {
    for (int b : kNudges) {
      for (int c : kNudges) {
        tried.steps = {Nudged(static_cast<float>(steps[0]), a),
                       Nudged(static_cast<float>(steps[1]), b),
                       Nudged(static_cast<float>(constant), c)};
        if (!pairs.Agree(sum, tried)) continue;
        *encodings = tried;
        return true;
      }
    }
  }
  return false;
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
  const std::optional<Pairs> pairs = Pairs::Of(exact, *encodings);
  if (!pairs) return exact;
  if (op != BinaryOp::kMultiply && TryStepsOf(op, node, *pairs, encodings)) {
    return SumOf(is_signed);
  }
  const FusedLoop once = is_signed ? LoopOf<true, true>(op) : LoopOf<false, true>(op);
  Encodings tried = *encodings;
  for (int nudge : kNudges) {
    tried.out.inverse = Nudged(encodings->out.inverse, nudge);
    if (!pairs->Agree(once, tried)) continue;
    *encodings = tried;
    return once;
  }
  return exact;
}
AffineLoop PickAffine8(Qnn_DataType_t type) {
  if (CpuIsa() != Isa::kAvx512) return nullptr;
  if (type == QNN_DATATYPE_UFIXED_POINT_8) return RunAffine<false>;
  return type == QNN_DATATYPE_SFIXED_POINT_8 ? RunAffine<true> : nullptr;
}
#else
AffineLoop PickAffine8(Qnn_DataType_t) { return nullptr; }
FusedLoop PickFused8(BinaryOp, const Node&, FusedLoop any, Encodings*) { return any; }
FusedRow PickFusedRow8(BinaryOp, const Node&, size_t, FusedRow any) { return any; }
#endif

}  // namespace qnnrt::fixed
