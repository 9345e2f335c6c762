// Elements of constants: TFLite's are read as whole numbers, whatever their type.
#pragma once

#include <cstring>

#include "tflite/lowering/plan.h"

namespace qnnrt::tflite {

template <typename T>
T At(const void* data, uint64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  return value;
}

// Of integers, fixed-point ones among them.
inline bool IsWhole(Qnn_DataType_t dtype) {
  const uint32_t kind = static_cast<uint32_t>(Plain(dtype)) >> 8;
  return kind == 0 || kind == 1;
}

// Whether ReadWhole reads elements of this type.
inline bool HasWhole(Qnn_DataType_t dtype) {
  return IsWhole(dtype) || dtype == QNN_DATATYPE_BOOL_8;
}

// An element of integers or booleans.
inline int64_t ReadWhole(const void* data, Qnn_DataType_t dtype, uint64_t i) {
  switch (static_cast<uint32_t>(Plain(dtype))) {
    case QNN_DATATYPE_INT_8:
      return At<int8_t>(data, i);
    case QNN_DATATYPE_INT_16:
      return At<int16_t>(data, i);
    case QNN_DATATYPE_INT_32:
      return At<int32_t>(data, i);
    case QNN_DATATYPE_INT_64:
      return At<int64_t>(data, i);
    case QNN_DATATYPE_UINT_16:
      return At<uint16_t>(data, i);
    case QNN_DATATYPE_UINT_32:
      return At<uint32_t>(data, i);
    case QNN_DATATYPE_UINT_64:
      return static_cast<int64_t>(At<uint64_t>(data, i));
    default:  // UINT_8 and BOOL_8
      return At<uint8_t>(data, i);
  }
}

}  // namespace qnnrt::tflite
