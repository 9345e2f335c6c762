// Element types and shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "abi/qnn_types.h"

namespace qnnrt {

using Shape = std::vector<uint32_t>;

// Bytes of one element; 0 for a type that has no fixed size here (STRING, UNDEFINED, 4 bit).
size_t ElementSize(Qnn_DataType_t type);
// "FLOAT_32"; never null.
const char* DataTypeName(Qnn_DataType_t type);

// A set of element types, one bit each, so that an op's rule is one constant.
using TypeSet = uint32_t;
namespace types {
constexpr TypeSet kI8 = 1u << 0, kI16 = 1u << 1, kI32 = 1u << 2, kI64 = 1u << 3;
constexpr TypeSet kU8 = 1u << 4, kU16 = 1u << 5, kU32 = 1u << 6, kU64 = 1u << 7;
constexpr TypeSet kF16 = 1u << 8, kF32 = 1u << 9, kF64 = 1u << 10, kBool = 1u << 11;
constexpr TypeSet kUQ8 = 1u << 12, kUQ16 = 1u << 13;                    // UFIXED_POINT_8, _16
constexpr TypeSet kSQ8 = 1u << 14, kSQ16 = 1u << 15, kSQ32 = 1u << 16;  // SFIXED_POINT_8, ...
constexpr TypeSet kB16 = 1u << 17;                                      // BFLOAT_16
constexpr TypeSet kFixed8 = kUQ8 | kSQ8, kFixed16 = kUQ16 | kSQ16;
constexpr TypeSet kFixed = kFixed8 | kFixed16 | kSQ32;
constexpr TypeSet kSigned = kI8 | kI16 | kI32 | kI64;
constexpr TypeSet kUnsigned = kU8 | kU16 | kU32 | kU64;
constexpr TypeSet kInt = kSigned | kUnsigned;
constexpr TypeSet kFloat = kF16 | kB16 | kF32;  // what every float op takes
constexpr TypeSet kIndex = kI32 | kU32 | kI64;  // what an index input may be
constexpr TypeSet kNumber = kInt | kFloat | kF64;
constexpr TypeSet kAny = kNumber | kBool;
}  // namespace types
// 0 for a type that no op takes. Asked of the number: an enumeration must not even hold a value
// that is none of it.
TypeSet TypeBit(uint32_t type);
inline bool IsFixed(Qnn_DataType_t type) { return (TypeBit(type) & types::kFixed) != 0; }
// A float that kernels compute with as FLOAT_32: that, or what 16 bits keep of it.
inline bool IsFloat(Qnn_DataType_t type) { return (TypeBit(type) & types::kFloat) != 0; }
// The integers that fixed-point numbers are stored as; other types are themselves.
Qnn_DataType_t StorageType(Qnn_DataType_t type);
std::string TypeSetNames(TypeSet set);  // "FLOAT_16, FLOAT_32"

// Number of elements; false when it does not fit 63 bits.
bool ElementCount(const Shape& shape, uint64_t* count);
// Shapes that were checked once already.
uint64_t ElementCount(const Shape& shape);
std::string ShapeText(const Shape& shape);  // "[1, 224, 224, 3]"

// IEEE half precision, as storage. Arithmetic is done in float.
uint16_t FloatToHalf(float value);
float HalfToFloat(uint16_t value);
void FloatToHalf(const float* in, uint16_t* out, size_t count);
void HalfToFloat(const uint16_t* in, float* out, size_t count);

// How floats are stored in 16 bits, FLOAT_16 or BFLOAT_16: rounded to even, NaN stays one.
struct NarrowFloat {
  void (*widen)(const uint16_t* in, float* out, size_t count);
  void (*narrow)(const float* in, uint16_t* out, size_t count);
  float Wide(uint16_t value) const {
    float wide;
    widen(&value, &wide, 1);
    return wide;
  }
};
const NarrowFloat* NarrowFloatOf(Qnn_DataType_t type);  // null for other types

}  // namespace qnnrt
