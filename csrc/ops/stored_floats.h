// The floats of a tensor as a kernel computes with them: in place where they are stored as
// FLOAT_32, by way of a buffer that stays in the first cache where they have 16 bits.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ir/node.h"

namespace qnnrt {

constexpr size_t kFloatBlock = 1024;  // floats of a buffer on the stack

class StoredFloats {
 public:
  explicit StoredFloats(const Tensor& tensor) : narrow_(NarrowFloatOf(tensor.dtype)) {}
  bool narrow() const { return narrow_ != nullptr; }

  // `count` floats from number `at` on: where they lie, or in `buffer`.
  const float* Read(const void* data, size_t at, size_t count, float* buffer) const {
    if (narrow_ == nullptr) return static_cast<const float*>(data) + at;
    narrow_->widen(static_cast<const uint16_t*>(data) + at, buffer, count);
    return buffer;
  }
  // Where to compute them, ...
  float* Place(void* data, size_t at, float* buffer) const {
    return narrow_ == nullptr ? static_cast<float*>(data) + at : buffer;
  }
  // ... and how they get from there into the tensor.
  void Store(const float* placed, void* data, size_t at, size_t count) const {
    if (narrow_ != nullptr) narrow_->narrow(placed, static_cast<uint16_t*>(data) + at, count);
  }

 private:
  const NarrowFloat* narrow_;
};

}  // namespace qnnrt
