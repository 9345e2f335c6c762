// Batchnorm of fixed-point numbers, y = x * weight + bias along the last axis, in one pass.
#include <algorithm>

#include "ops/fixed/affine.h"
#include "ops/fixed/codec.h"
#include "ops/fixed/kernels.h"
#include "ops/simd.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 1024;       // elements of a block, on the stack
constexpr size_t kGrain = 16 * 1024;  // elements worth a thread

class FixedBatchnorm final : public Kernel {
 public:
  explicit FixedBatchnorm(const Node& node)
      : in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        weight_(*node.inputs[1]),
        has_bias_(node.HasInput(2)),
        count_(node.inputs[0]->elements()),
        channels_(node.inputs[0]->shape.back()),
        row_(channels_ * std::max<size_t>(1, kBlock / channels_)) {
    if (has_bias_) bias_ = Codec(*node.inputs[2]);
  }

  size_t ScratchBytes() const override { return 2 * row_ * sizeof(float); }

  Status Run(const ExecArgs& args) override {
    // Weights and biases are decoded for each run, which costs little beside the elements, and are
    // repeated where there are few.
    float* weight = static_cast<float*>(args.scratch);
    float* bias = weight + row_;
    weight_.Read(args.in[1], 0, channels_, weight);
    if (has_bias_) {
      bias_.Read(args.in[2], 0, channels_, bias);
    } else {
      std::fill_n(bias, channels_, 0.0f);
    }
    for (size_t i = channels_; i < row_; ++i) {
      weight[i] = weight[i - channels_], bias[i] = bias[i - channels_];
    }
    args.threads.For(count_, kGrain, [&](size_t begin, size_t end) {
      alignas(64) float values[kBlock];
      for (size_t at = begin; at < end;) {
        const size_t phase = at % channels_;
        const size_t n = std::min({end - at, row_ - phase, kBlock});
        in_.Read(args.in[0], at, n, values);
        Simd().affine(values, values, weight + phase, bias + phase, n);
        out_.Write(values, args.out[0], at, n);
        at += n;
      }
    });
    return {};
  }

 private:
  const Codec in_, out_, weight_;
  Codec bias_;
  const bool has_bias_;
  const size_t count_, channels_, row_;
};

std::vector<float> Constants(const Tensor& tensor) {
  std::vector<float> values(tensor.elements());
  Codec(tensor).Read(tensor.data->data(), 0, values.size(), values.data());
  return values;
}

// Of 8 bits, with constant weights and biases.
Result<KernelPtr> MakeOnCodes(const Node& node) {
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  if (ElementSize(in.dtype) != 1) return KernelPtr();
  const size_t channels = in.shape.back();
  std::vector<float> constants[] = {std::vector<float>(channels), std::vector<float>(channels)};
  for (size_t i = 0; i < 2; ++i) {
    if (!node.HasInput(i + 1)) continue;
    const Tensor& tensor = *node.inputs[i + 1];
    if (!tensor.is_static() || !tensor.data->there()) return KernelPtr();
    constants[i] = Constants(tensor);
  }
  const std::vector<float>&weight = constants[0], &bias = constants[1];
  uint8_t codes[256];
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  alignas(64) float decoded[256];
  Codec(in).Read(codes, 0, 256, decoded);
  const Codec encoder(out);
  return fixed::MakeFixedAffine(
      node, 0,
      [&](size_t c) {
        return fixed::Affine{static_cast<double>(weight[c]), static_cast<double>(bias[c])};
      },
      [&](size_t c, uint8_t* results) {
        alignas(64) float w[256], b[256], values[256];
        std::fill_n(w, 256, weight[c]);
        std::fill_n(b, 256, bias[c]);
        Simd().affine(values, decoded, w, b, 256);
        encoder.Write(values, results, 0, 256);
      });
}

}  // namespace

Result<KernelPtr> MakeFixedBatchnorm(const Node& node, const KernelOptions&) {
  const Tensor& in = *node.inputs[0];
  if (!node.post_ops.empty() || !IsFixed(in.dtype) || in.shape.back() == 0) return KernelPtr();
  QNNRT_ASSIGN_OR_RETURN(KernelPtr affine, MakeOnCodes(node));
  if (affine) return affine;
  return KernelPtr(std::make_unique<FixedBatchnorm>(node));
}

}  // namespace qnnrt
