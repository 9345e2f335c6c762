// The runtime's own values -> C structs that others read: what they point at lives as long as this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "abi/qnn_types.h"
#include "ir/tensor.h"

namespace qnnrt {

class ClientStructs {
 public:
  // n zeroed values; null when n is 0.
  template <typename T>
  T* Array(size_t n) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (n == 0) return nullptr;
    blocks_.push_back(std::make_unique<uint8_t[]>(n * sizeof(T)));  // zeroed
    bytes_ += n * sizeof(T);
    return reinterpret_cast<T*>(blocks_.back().get());
  }
  char* Text(const std::string& text);
  // Version 1, with no buffer and no handle. An encoding in blocks is left out.
  void Describe(const Tensor& tensor, Qnn_Tensor_t* out);
  uint64_t bytes() const { return bytes_; }

 private:
  void Quantize(const Quantization& q, Qnn_QuantizeParams_t* out);

  std::vector<std::unique_ptr<uint8_t[]>> blocks_;
  uint64_t bytes_ = 0;
};

}  // namespace qnnrt
