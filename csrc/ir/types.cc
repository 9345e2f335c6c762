#include "ir/types.h"

#include <cstring>

#include "support/checked.h"
#include "support/cpu.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace qnnrt {
namespace {

struct TypeRow {
  Qnn_DataType_t type;
  const char* name;
  uint8_t size;
  TypeSet bit;
};

constexpr TypeRow kRows[] = {
    {QNN_DATATYPE_INT_8, "INT_8", 1, types::kI8},
    {QNN_DATATYPE_INT_16, "INT_16", 2, types::kI16},
    {QNN_DATATYPE_INT_32, "INT_32", 4, types::kI32},
    {QNN_DATATYPE_INT_64, "INT_64", 8, types::kI64},
    {QNN_DATATYPE_UINT_8, "UINT_8", 1, types::kU8},
    {QNN_DATATYPE_UINT_16, "UINT_16", 2, types::kU16},
    {QNN_DATATYPE_UINT_32, "UINT_32", 4, types::kU32},
    {QNN_DATATYPE_UINT_64, "UINT_64", 8, types::kU64},
    {QNN_DATATYPE_FLOAT_16, "FLOAT_16", 2, types::kF16},
    {QNN_DATATYPE_FLOAT_32, "FLOAT_32", 4, types::kF32},
    {QNN_DATATYPE_FLOAT_64, "FLOAT_64", 8, types::kF64},
    {QNN_DATATYPE_BOOL_8, "BOOL_8", 1, types::kBool},
    {QNN_DATATYPE_BFLOAT_16, "BFLOAT_16", 2, types::kB16},
    {QNN_DATATYPE_SFIXED_POINT_4, "SFIXED_POINT_4", 0, 0},
    {QNN_DATATYPE_SFIXED_POINT_8, "SFIXED_POINT_8", 1, types::kSQ8},
    {QNN_DATATYPE_SFIXED_POINT_16, "SFIXED_POINT_16", 2, types::kSQ16},
    {QNN_DATATYPE_SFIXED_POINT_32, "SFIXED_POINT_32", 4, types::kSQ32},
    {QNN_DATATYPE_UFIXED_POINT_4, "UFIXED_POINT_4", 0, 0},
    {QNN_DATATYPE_UFIXED_POINT_8, "UFIXED_POINT_8", 1, types::kUQ8},
    {QNN_DATATYPE_UFIXED_POINT_16, "UFIXED_POINT_16", 2, types::kUQ16},
    {QNN_DATATYPE_UFIXED_POINT_32, "UFIXED_POINT_32", 4, 0},
    {QNN_DATATYPE_STRING, "STRING", 0, 0},
    {QNN_DATATYPE_UNDEFINED, "UNDEFINED", 0, 0},
};

const TypeRow* Find(uint32_t type) {
  for (const TypeRow& row : kRows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint16_t FloatToBrain(float value) {
  const uint32_t bits = Bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx,f16c"))) void NarrowF16C(const float* in, uint16_t* out, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), half);
  }
  for (; i < count; ++i) out[i] = FloatToHalf(in[i]);
}

__attribute__((target("avx,f16c"))) void WidenF16C(const uint16_t* in, float* out, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
  }
  for (; i < count; ++i) out[i] = HalfToFloat(in[i]);
}

__attribute__((target("avx2"))) void WidenBrainAvx2(const uint16_t* in, float* out, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i brain = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(brain), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), wide);
  }
  for (; i < count; ++i) out[i] = FromBits(static_cast<uint32_t>(in[i]) << 16);
}

__attribute__((target("avx2"))) inline __m256i RoundedBrain(const float* in) {
  const __m256 value = _mm256_loadu_ps(in);
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
}

__attribute__((target("avx2"))) void NarrowBrainAvx2(const float* in, uint16_t* out, size_t count) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i packed = _mm256_packus_epi32(RoundedBrain(in + i), RoundedBrain(in + i + 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_permute4x64_epi64(packed, 0xd8));  // packing goes by halves
  }
  for (; i < count; ++i) out[i] = FloatToBrain(in[i]);
}

#define QNNRT_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

// With masks throughout: gcc warns of the values that the other forms leave undefined.
QNNRT_AVX512 void WidenBrainAvx512(const uint16_t* in, float* out, size_t count) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i brain = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    const __m512i wide =
        _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, brain), 16);
    _mm512_storeu_si512(out + i, wide);
  }
  for (; i < count; i += 16) {
    const __mmask16 left =
        count - i < 16 ? static_cast<__mmask16>((1u << (count - i)) - 1) : 0xffff;
    const __m512i wide = _mm512_maskz_slli_epi32(
        left, _mm512_maskz_cvtepu16_epi32(left, _mm256_maskz_loadu_epi16(left, in + i)), 16);
    _mm512_mask_storeu_epi32(out + i, left, wide);
  }
}

// The rounded values in the upper halves.
QNNRT_AVX512 inline __m512i RoundedUp(const float* in) {
  const __m512 value = _mm512_loadu_ps(in);
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd =
      _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, bits, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(sum, nan, bits, _mm512_set1_epi32(0x400000));
}

QNNRT_AVX512 void NarrowBrainAvx512(const float* in, uint16_t* out, size_t count) {
  size_t i = 0;
  const __m512i odd_halves =
      _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                       25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  for (; i + 32 <= count; i += 32) {
    _mm512_storeu_si512(
        out + i, _mm512_permutex2var_epi16(RoundedUp(in + i), odd_halves, RoundedUp(in + i + 16)));
  }
  for (; i < count; i += 16) {
    const __mmask16 left =
        count - i < 16 ? static_cast<__mmask16>((1u << (count - i)) - 1) : 0xffff;
    const __m512 value = _mm512_maskz_loadu_ps(left, in + i);
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i high = _mm512_maskz_srli_epi32(left, bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    rounded = _mm512_maskz_srli_epi32(left, rounded, 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40));
    _mm256_mask_storeu_epi16(out + i, left, _mm512_maskz_cvtepi32_epi16(left, rounded));
  }
}

bool HaveAvx512() {
  static const bool have = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }();
  return have;
}

bool HaveAvx2() {
  static const bool have = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0;
  }();
  return have;
}

bool HaveF16C() {
  static const bool have = [] {
    __builtin_cpu_init();
    return CpuHasF16c() && __builtin_cpu_supports("avx");
  }();
  return have;
}
#endif

void WidenBrain(const uint16_t* in, float* out, size_t count) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (HaveAvx512()) return WidenBrainAvx512(in, out, count);
  if (HaveAvx2()) return WidenBrainAvx2(in, out, count);
#endif
  for (size_t i = 0; i < count; ++i) out[i] = FromBits(static_cast<uint32_t>(in[i]) << 16);
}

void NarrowBrain(const float* in, uint16_t* out, size_t count) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (HaveAvx512()) return NarrowBrainAvx512(in, out, count);
  if (HaveAvx2()) return NarrowBrainAvx2(in, out, count);
#endif
  for (size_t i = 0; i < count; ++i) out[i] = FloatToBrain(in[i]);
}

}  // namespace

const NarrowFloat* NarrowFloatOf(Qnn_DataType_t type) {
  static constexpr NarrowFloat kHalf = {HalfToFloat, FloatToHalf};
  static constexpr NarrowFloat kBrain = {WidenBrain, NarrowBrain};
  return type == QNN_DATATYPE_FLOAT_16    ? &kHalf
         : type == QNN_DATATYPE_BFLOAT_16 ? &kBrain
                                          : nullptr;
}

size_t ElementSize(Qnn_DataType_t type) {
  const TypeRow* row = Find(type);
  return row ? row->size : 0;
}

const char* DataTypeName(Qnn_DataType_t type) {
  const TypeRow* row = Find(type);
  return row ? row->name : "UNKNOWN";
}

TypeSet TypeBit(uint32_t type) {
  const TypeRow* row = Find(type);
  return row ? row->bit : 0;
}

Qnn_DataType_t StorageType(Qnn_DataType_t type) {
  switch (type) {
    case QNN_DATATYPE_SFIXED_POINT_8:
      return QNN_DATATYPE_INT_8;
    case QNN_DATATYPE_SFIXED_POINT_16:
      return QNN_DATATYPE_INT_16;
    case QNN_DATATYPE_SFIXED_POINT_32:
      return QNN_DATATYPE_INT_32;
    case QNN_DATATYPE_UFIXED_POINT_8:
      return QNN_DATATYPE_UINT_8;
    case QNN_DATATYPE_UFIXED_POINT_16:
      return QNN_DATATYPE_UINT_16;
    default:
      return type;
  }
}

std::string TypeSetNames(TypeSet set) {
  std::string text;
  for (const TypeRow& row : kRows) {
    if (row.bit == 0 || (set & row.bit) == 0) continue;
    if (!text.empty()) text += ", ";
    text += row.name;
  }
  return text;
}

bool ElementCount(const Shape& shape, uint64_t* count) {
  // A zero anywhere makes the product zero, whatever the other dimensions multiply to.
  uint64_t product = 1;
  bool overflow = false;
  for (uint32_t dim : shape) {
    if (dim == 0) {
      *count = 0;
      return true;
    }
    if (!overflow && !CheckedMul(product, dim, &product)) overflow = true;
  }
  if (overflow || product > static_cast<uint64_t>(INT64_MAX)) return false;
  *count = product;
  return true;
}

uint64_t ElementCount(const Shape& shape) {
  uint64_t product = 1;
  for (uint32_t dim : shape) product *= dim;
  return product;
}

std::string ShapeText(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = Bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN stays a (quiet) NaN and keeps its upper payload
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and up
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 lines the mantissa up with the subnormal's, rounded by the adder.
    const float aligned = FromBits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (Bits(aligned) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;  // ties go to the even neighbour
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

float HalfToFloat(uint16_t value) {
  const uint32_t sign = (value & 0x8000u) << 16;
  const uint32_t exponent = (value >> 10) & 0x1fu;
  const uint32_t mantissa = value & 0x3ffu;
  if (exponent == 0x1fu) {
    const uint32_t quiet = mantissa ? 0x400000u : 0;
    return FromBits(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return FromBits(sign | Bits(magnitude));
  }
  return FromBits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

void FloatToHalf(const float* in, uint16_t* out, size_t count) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (HaveF16C()) return NarrowF16C(in, out, count);
#endif
  for (size_t i = 0; i < count; ++i) out[i] = FloatToHalf(in[i]);
}

void HalfToFloat(const uint16_t* in, float* out, size_t count) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (HaveF16C()) return WidenF16C(in, out, count);
#endif
  for (size_t i = 0; i < count; ++i) out[i] = HalfToFloat(in[i]);
}

}  // namespace qnnrt
