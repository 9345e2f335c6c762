// Qnn_Tensor_t as clients write them.
#pragma once

#include <cstring>

#include "abi/qnn_types.h"
#include "ir/tensor.h"

// One to be declared.
inline Qnn_Tensor_t TensorOf(const char* name, Qnn_TensorType_t type, uint32_t* dims, uint32_t rank,
                             Qnn_DataType_t dtype = QNN_DATATYPE_FLOAT_32) {
  Qnn_Tensor_t t;
  std::memset(&t, 0, sizeof(t));
  t.version = QNN_TENSOR_VERSION_1;
  t.v1.name = name;
  t.v1.type = type;
  t.v1.dataType = dtype;
  t.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
  t.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
  t.v1.rank = rank;
  t.v1.dimensions = dims;
  t.v1.memType = QNN_TENSORMEMTYPE_RAW;
  return t;
}

// One of a graph to be executed, on memory that may be none.
inline Qnn_Tensor_t RawOf(const qnnrt::Tensor& t, void* data = nullptr, uint64_t bytes = 0) {
  Qnn_Tensor_t raw;
  std::memset(&raw, 0, sizeof(raw));
  raw.version = QNN_TENSOR_VERSION_1;
  raw.v1.id = t.id;
  raw.v1.dataType = t.dtype;
  raw.v1.rank = static_cast<uint32_t>(t.shape.size());
  raw.v1.dimensions = const_cast<uint32_t*>(t.shape.data());
  raw.v1.memType = QNN_TENSORMEMTYPE_RAW;
  raw.v1.clientBuf = {data, static_cast<uint32_t>(bytes)};
  return raw;
}
