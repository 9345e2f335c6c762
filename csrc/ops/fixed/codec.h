// Fixed-point numbers, real = scale x (q + offset), and the floats that they stand for.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ops/encoding.h"

namespace qnnrt {

// One pair of scale and offset for the whole tensor.
inline bool OneScale(const Quantization& q) { return q.per_tensor() && q.scales.size() == 1; }

// Reads the elements of a floating-point or fixed-point tensor as floats, and rounds floats to
// them: half to even, limited to what the type (and the encoding's bit width) can hold; NaN becomes
// real 0.
class Codec {
 public:
  Codec() = default;
  explicit Codec(const Tensor& tensor);
  static bool Needs(const Tensor& tensor) {
    return NarrowFloatOf(tensor.dtype) != nullptr || IsFixed(tensor.dtype);
  }

  // `count` elements from number `begin` on of the tensor at `elements`; values[0] is the first.
  void Read(const void* elements, size_t begin, size_t count, float* values) const;
  void Write(const float* values, void* elements, size_t begin, size_t count) const;

  // Elements [begin, end) of the tensor at `elements`; `values` is that of element 0, too.
  void Decode(const void* elements, float* values, size_t begin, size_t end) const {
    Read(elements, begin, end - begin, values + begin);
  }
  void Encode(const float* values, void* elements, size_t begin, size_t end) const {
    Write(values + begin, elements, begin, end - begin);
  }

 private:
  template <typename Fn>
  void ForRuns(size_t begin, size_t end, Fn fn) const;

  Qnn_DataType_t dtype_ = QNN_DATATYPE_UNDEFINED;
  std::shared_ptr<const Quantization> quantization_;
  size_t inner_ = 1, axis_ = 1;  // elements behind one index of the axis; its size
  Shape shape_;                  // of a tensor in blocks
};

}  // namespace qnnrt
