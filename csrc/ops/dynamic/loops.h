// What the portable kernels of integer products share.
#pragma once

#include <algorithm>
#include <cstring>

#include "ops/dynamic/dynamic.h"
#include "ops/isa.h"
#include "ops/post_ops.h"

namespace qnnrt {

constexpr size_t kColumns = 4;  // of B that are multiplied with a row of A together
inline size_t RoundedColumns(size_t n) { return (n + kColumns - 1) / kColumns * kColumns; }

// A row of `k` numbers with `n` columns, which lie as rows, padded to RoundedColumns(n) of them.
// Differences of bytes fit 16 bits, so that two products are one instruction's.
struct DotsRun {
  static QNNRT_INLINE void Run(const int16_t* a, const int16_t* b, size_t k, size_t n,
                               int32_t* sums) {
    for (size_t c = 0; c < n; c += kColumns, b += kColumns * k) {
      const int16_t *b0 = b, *b1 = b + k, *b2 = b + 2 * k, *b3 = b + 3 * k;
      int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (size_t i = 0; i < k; ++i) {
        s0 += a[i] * b0[i];
        s1 += a[i] * b1[i];
        s2 += a[i] * b2[i];
        s3 += a[i] * b3[i];
      }
      const int32_t four[kColumns] = {s0, s1, s2, s3};
      std::copy_n(four, std::min(kColumns, n - c), sums + c);
    }
  }
};

// A factor, with its zero point.
class ByteInput {
 public:
  ByteInput(const Node& node, size_t i)
      : port_(kZero0Port + i),
        computed_(node.HasInput(port_)),
        signed_((TypeBit(node.inputs[i]->dtype) & (types::kI8 | types::kSQ8)) != 0),
        zero_(IsFixed(node.inputs[i]->dtype) ? -node.inputs[i]->quantization.offsets[0] : 0) {}

  int32_t Zero(const ExecArgs& args) const {
    return computed_ ? *static_cast<const int32_t*>(args.in[port_]) : zero_;
  }
  // Every `step`-th of the bytes, without the zero point.
  void Widen(const uint8_t* from, size_t count, size_t step, int32_t zero, int16_t* to) const {
    if (signed_) {
      const int8_t* codes = reinterpret_cast<const int8_t*>(from);
      for (size_t i = 0; i < count; ++i) to[i] = static_cast<int16_t>(codes[i * step] - zero);
    } else {
      for (size_t i = 0; i < count; ++i) to[i] = static_cast<int16_t>(from[i * step] - zero);
    }
  }

 private:
  const size_t port_;
  const bool computed_, signed_;
  const int32_t zero_;
};

// Sums in the output become what the node gives.
class FinishSums {
 public:
  explicit FinishSums(const Node& node)
      : post_ops_(node),
        real_(node.outputs[0]->dtype == QNN_DATATYPE_FLOAT_32),
        biased_(node.HasInput(kBiasPort)),
        scales_(node.HasInput(kScalePort) ? node.inputs[kScalePort]->elements() : 0) {}

  // A row of `n` columns from element `at` on.
  void Run(const ExecArgs& args, size_t at, size_t n) const {
    if (!real_) return;
    const float* scale = scales_ == 0 ? nullptr : static_cast<const float*>(args.in[kScalePort]);
    const float* bias = biased_ ? static_cast<const float*>(args.in[kBiasPort]) : nullptr;
    float* out = static_cast<float*>(args.out[0]) + at;
    for (size_t i = 0; i < n; ++i) {  // the same bytes become floats
      int32_t sum;
      std::memcpy(&sum, out + i, sizeof sum);
      float value = static_cast<float>(sum);
      if (scale != nullptr) value *= scale[scales_ == 1 ? 0 : i];
      out[i] = bias == nullptr ? value : value + bias[i];
    }
    post_ops_.Apply(args, out, at, n);
  }

 private:
  const PostOps post_ops_;
  const bool real_, biased_;
  const size_t scales_;
};

}  // namespace qnnrt
