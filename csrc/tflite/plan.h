// A partition as a list of QNN tensors and operations, before a backend has seen it. The same
// lowering fills one for a single node, to ask the backend about it, and one for a partition.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

#include "abi/qnn_types.h"

namespace qnnrt::tflite {

using Dims = std::vector<uint32_t>;

uint64_t Elements(const Dims& dims);
std::string Text(const Dims& dims);
// QNN has no tensors of rank 0: a scalar is held as one element.
Dims Physical(const Dims& dims);

// real = scale * (q + offset); one for all elements, or one for each index along `axis`.
struct Encoding {
  std::vector<float> scale;
  std::vector<int32_t> offset;
  int32_t axis = -1;

  bool none() const { return scale.empty(); }
  bool per_axis() const { return scale.size() > 1; }
  bool operator==(const Encoding& o) const {
    return scale == o.scale && offset == o.offset && (axis == o.axis || !per_axis());
  }
};

struct PlannedTensor {
  std::string name;
  Qnn_TensorType_t type = QNN_TENSOR_TYPE_NATIVE;
  Qnn_DataType_t dtype = QNN_DATATYPE_UNDEFINED;
  Dims dims;
  Encoding encoding;
  int index = -1;      // the runtime's number of an input or output
  bool state = false;  // of a variable tensor, which the runtime keeps from run to run

  // Of constants. `owned` where they were computed here; elsewhere they stay in the model.
  const void* data = nullptr;
  std::vector<uint8_t> owned;
  // Dimension i is dimension order[i] of `source`, which is how the data lies. Moved when built.
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
  std::vector<int> inputs;  // -1: left out
  std::vector<int> outputs;
  std::vector<Param> params;
};

struct Plan {
  std::deque<PlannedTensor> tensors;  // references stay valid
  std::vector<PlannedOp> ops;
};

// The bytes of one element; 0 for types without.
uint32_t ElementBytes(Qnn_DataType_t dtype);

}  // namespace qnnrt::tflite
