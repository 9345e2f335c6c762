// A tensor as the client described it: a plain value, a deep copy of what came in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/types.h"

namespace qnnrt {

// Bytes on a 64-byte boundary: the memory of static tensors and packed weights.
class AlignedBytes {
 public:
  static std::shared_ptr<AlignedBytes> Make(size_t size);  // null when out of memory
  static std::shared_ptr<AlignedBytes> Copy(const void* data, size_t size);
  // Read-only bytes of somebody else's, which are valid as long as `owner` is kept.
  static std::shared_ptr<AlignedBytes> Foreign(const void* data, size_t size,
                                               std::shared_ptr<const void> owner);
  // A size without data, for bytes that nobody reads any more: data() is null.
  static std::shared_ptr<AlignedBytes> Absent(size_t size);
  ~AlignedBytes();
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  void* data() { return data_; }
  const void* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  AlignedBytes(void* data, size_t size) : data_(data), size_(size) {}
  static std::shared_ptr<AlignedBytes> Wrap(void* data, size_t size);
  void* data_;
  size_t size_;
  bool foreign_ = false;
  std::shared_ptr<const void> owner_;
};

// Quantization of a tensor, real = scale x (q + offset): one pair for the whole tensor, one for
// each index of an axis, or one for each block of elements (of static tensors only, in row-major
// order of the blocks, and axis is -1).
struct Quantization {
  bool defined = false;
  Qnn_QuantizationEncoding_t encoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
  int32_t axis = -1;
  uint32_t bitwidth = 0;  // 0: all bits of the type
  std::vector<float> scales;
  std::vector<int32_t> offsets;
  std::vector<uint32_t> block{};  // size of a block along each dim; empty: no blocks

  bool per_tensor() const { return axis < 0 && block.empty(); }
  bool in_blocks() const { return !block.empty(); }
};

struct Tensor {
  uint32_t id = 0;
  std::string name;
  Qnn_TensorType_t type = QNN_TENSOR_TYPE_NATIVE;
  Qnn_DataType_t dtype = QNN_DATATYPE_FLOAT_32;
  Shape shape;
  Quantization quantization;
  Qnn_TensorMemType_t mem_type = QNN_TENSORMEMTYPE_RAW;
  std::shared_ptr<AlignedBytes> data;  // the value of a STATIC tensor, else null
  // Of a graph output (APP_READ) that is the new value of an APP_READWRITE tensor: that tensor,
  // whose memory, id and name it has.
  const Tensor* updates = nullptr;

  bool is_static() const { return data != nullptr; }
  bool is_state() const { return type == QNN_TENSOR_TYPE_APP_READWRITE; }
  // A state is an input that has an output of its own once a node writes it.
  bool is_input() const { return type == QNN_TENSOR_TYPE_APP_WRITE || is_state(); }
  bool is_output() const { return type == QNN_TENSOR_TYPE_APP_READ; }
  uint64_t elements() const { return ElementCount(shape); }
  uint64_t bytes() const { return elements() * ElementSize(dtype); }
  template <typename T>
  const T* data_as() const {
    return data ? static_cast<const T*>(data->data()) : nullptr;
  }
};

// Whether both hold the same values, as the same bytes: one element type and, of fixed-point
// numbers, one encoding of as many bits.
bool SameEncoding(const Tensor& a, const Tensor& b);

}  // namespace qnnrt
