// QNN tensors and operations before a backend has seen them: what one operator of TFLite becomes,
// or, merged by the delegate, a partition.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "abi/qnn_types.h"

namespace qnnrt::tflite {

using Dims = std::vector<uint32_t>;

// Saturates: hostile shapes have more elements than 64 bits count.
uint64_t Elements(const Dims& dims);
template <typename T>
std::string Text(const std::vector<T>& values) {
  std::string text;
  for (const T& v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return "[" + text + "]";
}
// QNN has no tensors of rank 0: a scalar is held as one element.
Dims Physical(const Dims& dims);

// real = scale * (q + offset); one for all elements, or one for each index along `axis`.
struct Encoding {
  std::vector<float> scale;
  std::vector<int32_t> offset;
  int32_t axis = -1;
  uint32_t bits = 0;  // of an element, where they are fewer than its type has

  bool none() const { return scale.empty(); }
  bool per_axis() const { return scale.size() > 1; }
  bool operator==(const Encoding& o) const {
    return scale == o.scale && offset == o.offset && bits == o.bits &&
           (axis == o.axis || !per_axis());
  }
};

struct PlannedTensor {
  std::string name;
  Qnn_TensorType_t type = QNN_TENSOR_TYPE_NATIVE;
  Qnn_DataType_t dtype = QNN_DATATYPE_UNDEFINED;
  Dims dims;
  Encoding encoding;
  // The input of the node that it is (APP_WRITE), or whose elements it has (STATIC); in a merged
  // plan the runtime's number of an input or output of the partition.
  int index = -1;
  bool state = false;  // of a variable tensor, which is kept from run to run

  // Of constants. `owned` where they were computed here; elsewhere they are the model's.
  const void* data = nullptr;
  std::vector<uint8_t> owned;
  bool decoded = false;    // `owned` has the real numbers that the input's integers stand for
  bool reencoded = false;  // the input's integers, with an encoding of its own
  // Dimension i is dimension order[i] of `source`, the layout of the data. Transposed when built.
  std::vector<uint32_t> order;
  Dims source;

  const void* bytes() const { return owned.empty() ? data : owned.data(); }
};

struct Param {
  const char* name;
  Qnn_Scalar_t scalar;
  Dims dims;                     // empty: it is the scalar
  Qnn_DataType_t dtype;          // of a tensor
  std::vector<uint32_t> values;  // of a tensor, by their bits
};

Param U32(const char* name, uint32_t value);
Param I32(const char* name, int32_t value);
Param F32(const char* name, float value);
Param Flag(const char* name, bool value);
Param U32s(const char* name, std::vector<uint32_t> values, Dims dims = {});
Param I32s(const char* name, const std::vector<int32_t>& values, Dims dims);

struct PlannedOp {
  std::string name;
  const char* type;
  std::vector<int> inputs;  // -1: omitted
  std::vector<int> outputs;
  std::vector<Param> params;
};

struct Plan {
  std::deque<PlannedTensor> tensors;  // references stay valid
  std::vector<PlannedOp> ops;
};

// The elements of `dims`: the first one is at element `begin` of the data, the others are `strides`
// elements apart.
std::vector<uint8_t> Gathered(const void* data, int64_t begin, const Dims& dims,
                              const std::vector<int64_t>& strides, uint32_t element_bytes);

// The bytes of one element; 0 for types without.
uint32_t ElementBytes(Qnn_DataType_t dtype);
// The type of the integers that hold fixed-point numbers; any other type is itself.
Qnn_DataType_t Plain(Qnn_DataType_t dtype);
// "int8" of INT_8 and SFIXED_POINT_8.
std::string TypeName(Qnn_DataType_t dtype);

}  // namespace qnnrt::tflite
