// From an element type at run time to one at compile time.
#pragma once

#include <cstdint>

#include "ir/types.h"

namespace qnnrt {

// f(T{}) for the T of a numeric type but 16-bit floats; what f gives for float when it is none.
template <typename F>
auto VisitNumber(Qnn_DataType_t type, const F& f) {
  switch (type) {
    case QNN_DATATYPE_INT_8:
      return f(int8_t{});
    case QNN_DATATYPE_INT_16:
      return f(int16_t{});
    case QNN_DATATYPE_INT_32:
      return f(int32_t{});
    case QNN_DATATYPE_INT_64:
      return f(int64_t{});
    case QNN_DATATYPE_UINT_8:
      return f(uint8_t{});
    case QNN_DATATYPE_UINT_16:
      return f(uint16_t{});
    case QNN_DATATYPE_UINT_32:
      return f(uint32_t{});
    case QNN_DATATYPE_UINT_64:
      return f(uint64_t{});
    case QNN_DATATYPE_FLOAT_64:
      return f(double{});
    default:
      return f(float{});
  }
}

// f(T{}) for the T that a fixed-point type is stored as.
template <typename F>
auto VisitCode(Qnn_DataType_t type, const F& f) {
  switch (type) {
    case QNN_DATATYPE_UFIXED_POINT_8:
      return f(uint8_t{});
    case QNN_DATATYPE_SFIXED_POINT_8:
      return f(int8_t{});
    case QNN_DATATYPE_UFIXED_POINT_16:
      return f(uint16_t{});
    case QNN_DATATYPE_SFIXED_POINT_16:
      return f(int16_t{});
    default:
      return f(int32_t{});
  }
}

}  // namespace qnnrt
