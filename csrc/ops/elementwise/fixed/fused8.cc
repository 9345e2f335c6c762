// Sums, differences and products of 8 bits with vectors laid out by hand: the compiler's widening
// and narrowing take longer than the arithmetic, and its clamps are what saturating packs do
// anyway.
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "ops/elementwise/fixed/fused.h"
#include "ops/fixed/codec.h"
// Targets are switched on for whole parts of the file, as in simd.cc: clang does not know how.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define QNNRT_X86_LEVELS 1
#include <immintrin.h>
#endif

namespace qnnrt::fixed {

#ifdef QNNRT_X86_LEVELS
namespace {

struct Loops {
  FusedLoop exact, once, sum;  // of two tensors
  FusedRow row;
  AffineLoop affine;
};

#define QNNRT_VECTOR static inline __attribute__((always_inline))

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma")
namespace avx512 {
using Floats = __m512;
using Ints = __m512i;
constexpr size_t kLanes = 16;

QNNRT_VECTOR Floats All(float value) { return _mm512_set1_ps(value); }
QNNRT_VECTOR Ints AllInts(int32_t value) { return _mm512_set1_epi32(value); }
QNNRT_VECTOR Ints AllWords(int16_t value) { return _mm512_set1_epi16(value); }
QNNRT_VECTOR Ints AllBytes(int8_t value) { return _mm512_set1_epi8(value); }
QNNRT_VECTOR Floats LoadFloats(const float* p) { return _mm512_loadu_ps(p); }
template <bool is_signed>
QNNRT_VECTOR Floats Load(const uint8_t* codes) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  // All of them; gcc 12 warns of its own header where there is no mask.
  const Ints wide = is_signed ? _mm512_maskz_cvtepi8_epi32(0xffff, bytes)
                              : _mm512_maskz_cvtepu8_epi32(0xffff, bytes);
  return _mm512_maskz_cvtepi32_ps(0xffff, wide);
}
QNNRT_VECTOR Floats MulAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
QNNRT_VECTOR Floats NegMulAdd(Floats a, Floats b, Floats c) { return _mm512_fnmadd_ps(a, b, c); }
QNNRT_VECTOR Ints Rounded(Floats v) { return _mm512_maskz_cvtps_epi32(0xffff, v); }
QNNRT_VECTOR Ints Bits(Floats v) { return _mm512_castps_si512(v); }
QNNRT_VECTOR Ints MinusInts(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
QNNRT_VECTOR Ints PackWords(Ints a, Ints b) { return _mm512_packs_epi32(a, b); }
QNNRT_VECTOR Ints PlusWords(Ints a, Ints b) { return _mm512_adds_epi16(a, b); }
template <bool is_signed>
QNNRT_VECTOR Ints PackBytes(Ints a, Ints b) {
  return is_signed ? _mm512_packs_epi16(a, b) : _mm512_packus_epi16(a, b);
}
template <bool is_signed>
QNNRT_VECTOR Ints Limit(Ints v, Ints low, Ints high) {
  return is_signed ? _mm512_min_epi8(_mm512_max_epi8(v, low), high)
                   : _mm512_min_epu8(_mm512_max_epu8(v, low), high);
}
// Packing works within 128 bits: this puts the quarters behind one another.
QNNRT_VECTOR void StoreInOrder(uint8_t* out, Ints bytes) {
  const Ints order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(out, _mm512_maskz_permutexvar_epi32(0xffff, order, bytes));
}
#include "ops/elementwise/fixed/fused8.inc"
}  // namespace avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
using Floats = __m256;
using Ints = __m256i;
constexpr size_t kLanes = 8;

QNNRT_VECTOR Floats All(float value) { return _mm256_set1_ps(value); }
QNNRT_VECTOR Ints AllInts(int32_t value) { return _mm256_set1_epi32(value); }
QNNRT_VECTOR Ints AllWords(int16_t value) { return _mm256_set1_epi16(value); }
QNNRT_VECTOR Ints AllBytes(int8_t value) { return _mm256_set1_epi8(value); }
QNNRT_VECTOR Floats LoadFloats(const float* p) { return _mm256_loadu_ps(p); }
template <bool is_signed>
QNNRT_VECTOR Floats Load(const uint8_t* codes) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
}
QNNRT_VECTOR Floats MulAdd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
QNNRT_VECTOR Floats NegMulAdd(Floats a, Floats b, Floats c) { return _mm256_fnmadd_ps(a, b, c); }
QNNRT_VECTOR Ints Rounded(Floats v) { return _mm256_cvtps_epi32(v); }
QNNRT_VECTOR Ints Bits(Floats v) { return _mm256_castps_si256(v); }
QNNRT_VECTOR Ints MinusInts(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
QNNRT_VECTOR Ints PackWords(Ints a, Ints b) { return _mm256_packs_epi32(a, b); }
QNNRT_VECTOR Ints PlusWords(Ints a, Ints b) { return _mm256_adds_epi16(a, b); }
template <bool is_signed>
QNNRT_VECTOR Ints PackBytes(Ints a, Ints b) {
  return is_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
}
template <bool is_signed>
QNNRT_VECTOR Ints Limit(Ints v, Ints low, Ints high) {
  return is_signed ? _mm256_min_epi8(_mm256_max_epi8(v, low), high)
                   : _mm256_min_epu8(_mm256_max_epu8(v, low), high);
}
QNNRT_VECTOR void StoreInOrder(uint8_t* out, Ints bytes) {
  const Ints order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<Ints*>(out), _mm256_permutevar8x32_epi32(bytes, order));
}
#include "ops/elementwise/fixed/fused8.inc"
}  // namespace avx2
#pragma GCC pop_options
#undef QNNRT_VECTOR

// For a processor that has one of the two.
Loops LoopsOf(BinaryOp op, bool row_first, bool is_signed) {
  return CpuIsa() == Isa::kAvx512 ? avx512::LoopsOf(op, row_first, is_signed)
                                  : avx2::LoopsOf(op, row_first, is_signed);
}

// The greatest real number, regardless of its sign, that a code stands for; about.
float Largest(const Tensor& tensor) {
  const FixedRange range = RangeOf(tensor.dtype, tensor.quantization.bitwidth);
  const float offset = static_cast<float>(tensor.quantization.offsets[0]);
  return tensor.quantization.scales[0] *
         (std::fabs(offset) + std::fmax(std::fabs(static_cast<float>(range.low)),
                                        std::fabs(static_cast<float>(range.high))));
}

bool IsSigned(const Node& node) { return node.outputs[0]->dtype == QNN_DATATYPE_SFIXED_POINT_8; }

// Whether these loops serve: all results have codes that floats round to.
bool Suits(const Node& node) {
  const Tensor& out = *node.outputs[0];
  const float a = Largest(*node.inputs[0]), b = Largest(*node.inputs[1]);
  return CpuIsa() != Isa::kBase && ElementSize(out.dtype) == 1 &&
         std::fmax(a + b, a * b) < out.quantization.scales[0] * 0x1p20f;
}

// Results from which on a faster loop is looked for, which takes up to 100 us; the exact one takes
// some 3 ns for each more. Nodes that are evaluated for a table have 256.
constexpr size_t kLeastFitted = 512;

// There are no more than 65536 pairs of codes: a loop that gives the right code for all of them is
// as good as the exact one. They are compared in parts, so that most wrong loops are found out
// soon.
class Pairs {
 public:
  static std::optional<Pairs> Of(FusedLoop exact, const Encodings& encodings) {
    Pairs pairs;
    pairs.memory_ = AlignedBytes::Make(kCount + 3 * kPart);
    if (!pairs.memory_) return std::nullopt;
    for (size_t i = 0; i < kPart; ++i) pairs.first()[i] = static_cast<uint8_t>(i);
    for (size_t begin = 0; begin < kCount; begin += kPart) {
      pairs.FillSecond(begin);
      exact(pairs.first(), pairs.second(), pairs.right() + begin, kPart, encodings);
    }
    return pairs;
  }
  bool Agree(FusedLoop loop, const Encodings& encodings) const {
    for (size_t begin = 0; begin < kCount; begin += kPart) {
      FillSecond(begin);
      loop(first(), second(), result(), kPart, encodings);
      if (std::memcmp(right() + begin, result(), kPart) != 0) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kCount = 65536, kPart = 8192;
  uint8_t* right() const { return static_cast<uint8_t*>(memory_->data()); }
  uint8_t* first() const { return right() + kCount; }
  uint8_t* second() const { return first() + kPart; }
  uint8_t* result() const { return second() + kPart; }
  void FillSecond(size_t begin) const {  // each code with all 256 first ones
    for (size_t i = 0; i < kPart; i += 256) {
      std::memset(second() + i, static_cast<int>((begin + i) >> 8), 256);
    }
  }

  std::shared_ptr<AlignedBytes> memory_;  // the right results, both codes, the results of a loop
};

// Finds the steps of a sum or a difference; true if there are such that are right.
bool TryStepsOf(BinaryOp op, const Node& node, const Pairs& pairs, FusedLoop sum,
                Encodings* encodings) {
  const Tensor& out = *node.outputs[0];
  double steps[2], constant = 0;
  for (size_t i = 0; i < 2; ++i) {
    const Quantization& q = node.inputs[i]->quantization;
    steps[i] = static_cast<double>(q.scales[0]) / static_cast<double>(out.quantization.scales[0]);
    if (i == 1 && op == BinaryOp::kSubtract) steps[i] = -steps[i];
    constant += steps[i] * q.offsets[0];
  }
  Encodings tried = *encodings;
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
  return LoopsOf(op, row_input == 0, IsSigned(node)).row;
}

FusedLoop PickFused8(BinaryOp op, const Node& node, FusedLoop any, Encodings* encodings) {
  if (!Suits(node)) return any;
  const Loops loops = LoopsOf(op, false, IsSigned(node));
  if (node.outputs[0]->elements() < kLeastFitted) return loops.exact;
  const std::optional<Pairs> pairs = Pairs::Of(loops.exact, *encodings);
  if (!pairs) return loops.exact;
  if (op != BinaryOp::kMultiply && TryStepsOf(op, node, *pairs, loops.sum, encodings)) {
    return loops.sum;
  }
  Encodings tried = *encodings;
  for (int nudge : kNudges) {
    tried.out.inverse = Nudged(encodings->out.inverse, nudge);
    if (!pairs->Agree(loops.once, tried)) continue;
    *encodings = tried;
    return loops.once;
  }
  return loops.exact;
}

AffineLoop PickAffine8(Qnn_DataType_t type) {
  if (CpuIsa() == Isa::kBase) return nullptr;
  const bool is_signed = type == QNN_DATATYPE_SFIXED_POINT_8;
  if (!is_signed && type != QNN_DATATYPE_UFIXED_POINT_8) return nullptr;
  return LoopsOf(BinaryOp::kAdd, false, is_signed).affine;
}
#else
AffineLoop PickAffine8(Qnn_DataType_t) { return nullptr; }
FusedLoop PickFused8(BinaryOp, const Node&, FusedLoop any, Encodings*) { return any; }
FusedRow PickFusedRow8(BinaryOp, const Node&, size_t, FusedRow any) { return any; }
#endif

}  // namespace qnnrt::fixed
