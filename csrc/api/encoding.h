// Encodings of the client's tensors -> Quantization.
#pragma once

#include "abi/qnn_types.h"
#include "ir/tensor.h"
#include "support/status.h"

namespace qnnrt {

// The encoding of `tensor`, whose name, type, element type and shape (of elements that can be
// counted) are there. The size of every array is checked before it is read; what the values must be
// is for CheckEncoding. A type that is not fixed-point keeps no arrays: they mean nothing to it.
// Errors: 7004 a bad field, 7005 an encoding that is not supported.
Status ReadEncoding(const Qnn_QuantizeParams_t& params, Tensor* tensor);

inline bool IsPacked4(Qnn_DataType_t type) {
  return type == QNN_DATATYPE_SFIXED_POINT_4 || type == QNN_DATATYPE_UFIXED_POINT_4;
}
// The 8-bit type that elements of such a type are kept in.
Qnn_DataType_t UnpackedType(Qnn_DataType_t type);

}  // namespace qnnrt
