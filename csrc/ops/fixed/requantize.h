// From one fixed-point encoding to another, in one pass: what decoding to floats and encoding them
// gives, to the bit.
#pragma once

#include <array>

#include "ops/fixed/arithmetic.h"
#include "ops/fixed/codec.h"
#include "ops/lookup.h"

namespace qnnrt {

class Requantizer {
 public:
  Requantizer() = default;
  // Two fixed-point tensors, of one shape where one of them has a scale for each index of an axis.
  Requantizer(const Tensor& from, const Tensor& to);

  // Elements [begin, end); both pointers are those of element 0. They may be equal where the
  // elements are equally large.
  void Run(const void* in, void* out, size_t begin, size_t end) const;

  // Rows of `count` elements that lie behind each other in `in`, and begin every `stride` bytes in
  // `out`. Only where both tensors have one scale.
  void RunRows(const void* in, void* out, size_t count, size_t rows, size_t stride) const;

 private:
  using Loop = void (*)(const void* in, void* out, size_t n, const fixed::Decoder& decode,
                        const fixed::Encoder& encode);

  void ThroughFloats(const void* in, void* out, size_t begin, size_t end) const;

  size_t from_size_ = 0, to_size_ = 0;
  fixed::Decoder decode_;
  fixed::Encoder encode_;
  Loop loop_ = nullptr;        // null: through floats
  Lookup lookup_ = nullptr;    // from 8 bits, where that is faster
  LookupRows rows_ = nullptr;  // likewise, to 8 bits
  alignas(64) std::array<uint8_t, 512> table_{};
  Codec from_, to_;
};

}  // namespace qnnrt
