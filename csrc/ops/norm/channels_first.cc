// Batchnorm and InstanceNorm of [N, C, spatial...], where their channels are: what a pass makes of
// those between two transposes that put the channels last and back.
#include <algorithm>
#include <cmath>

#include "ops/isa.h"
#include "ops/norm/norm.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/simd.h"

namespace qnnrt {
namespace {

constexpr size_t kGrain = 16 * 1024;  // elements worth a thread
constexpr size_t kChunk = 4 * 1024;   // whose sum is taken in float before it goes to double

struct RowAffine {
  static QNNRT_INLINE void Run(float* out, const float* x, size_t n, float shift, float scale,
                               float bias) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) out[i] = (x[i] - shift) * scale + bias;
  }
};

// The elements of a channel of an image are a row.
class ChannelsFirst : public Kernel {
 public:
  explicit ChannelsFirst(const Node& node)
      : post_ops_(node), has_bias_(node.HasInput(2)), channels_(node.inputs[0]->shape[1]) {
    const Shape& shape = node.inputs[0]->shape;
    rows_ = size_t{shape[0]} * channels_;
    for (size_t i = 2; i < shape.size(); ++i) pixels_ *= shape[i];
  }

 protected:
  // out = (in - shift) * scale + bias for `count` elements of a row from element `at` on, and what
  // follows.
  void Write(const ExecArgs& args, size_t at, size_t count, float shift, float scale,
             float bias) const {
    float* out = static_cast<float*>(args.out[0]) + at;
    affine_(out, static_cast<const float*>(args.in[0]) + at, count, shift, scale, bias);
    post_ops_.Apply(args, out, at, count);
  }
  float Weight(const ExecArgs& args, size_t row) const {
    return static_cast<const float*>(args.in[1])[row % channels_];
  }
  float Bias(const ExecArgs& args, size_t row) const {
    return has_bias_ ? static_cast<const float*>(args.in[2])[row % channels_] : 0.0f;
  }

  const decltype(PickIsa<RowAffine>()) affine_ = PickIsa<RowAffine>();
  const PostOps post_ops_;
  const bool has_bias_;
  const size_t channels_;
  size_t rows_ = 0, pixels_ = 1;
};

class BatchnormChannelsFirst final : public ChannelsFirst {
 public:
  using ChannelsFirst::ChannelsFirst;

  Status Run(const ExecArgs& args) override {
    args.threads.For(rows_ * pixels_, kGrain, [&](size_t begin, size_t end) {
      for (size_t at = begin; at < end;) {
        const size_t row = at / pixels_, count = std::min(end, (row + 1) * pixels_) - at;
        Write(args, at, count, 0.0f, Weight(args, row), Bias(args, row));
        at += count;
      }
    });
    return Status::Ok();
  }
};

class InstanceNormChannelsFirst final : public ChannelsFirst {
 public:
  explicit InstanceNormChannelsFirst(const Node& node)
      : ChannelsFirst(node), epsilon_(static_cast<double>(node.Float("epsilon"))) {}

  Status Run(const ExecArgs& args) override {
    if (pixels_ == 0) return Status::Ok();
    args.threads.For(rows_, std::max<size_t>(1, kGrain / pixels_), [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) Row(args, row);
    });
    return Status::Ok();
  }

 private:
  void Row(const ExecArgs& args, size_t row) const {
    const float* x = static_cast<const float*>(args.in[0]) + row * pixels_;
    const double count = static_cast<double>(pixels_);
    double sum = 0, squares = 0;
    ForChunks([&](size_t at, size_t n) { sum += static_cast<double>(Simd().sum(x + at, n)); });
    const double mean = sum / count;
    const float shift = static_cast<float>(mean);
    ForChunks([&](size_t at, size_t n) {
      squares += static_cast<double>(Simd().sum_squares(x + at, n, shift));
    });
    // They are around the rounded mean.
    const double off = mean - static_cast<double>(shift);
    const double variance = std::max(0.0, squares / count - off * off);
    const double factor = 1.0 / std::sqrt(variance + epsilon_);
    const float scale = static_cast<float>(factor * static_cast<double>(Weight(args, row)));
    Write(args, row * pixels_, pixels_, shift, scale, Bias(args, row));
  }

  template <typename F>
  void ForChunks(const F& f) const {
    for (size_t at = 0; at < pixels_; at += kChunk) f(at, std::min(kChunk, pixels_ - at));
  }

  const double epsilon_;
};

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  for (const Tensor* t : node.inputs) {
    if (t != nullptr && t->dtype != QNN_DATATYPE_FLOAT_32) return Invalid("inputs not in FLOAT_32");
  }
  const Shape channels = {node.inputs[0]->shape[1]};
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 1, "weight", channels));
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 2, "bias", channels));
  (*outputs)[0] = node.inputs[0]->shape;
  return Status::Ok();
}

template <typename K>
Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  return KernelPtr(new K(node));
}

OpDef Def(const char* type, MakeKernelFn make) {
  OpDef def;
  def.type = type;
  def.inputs = {{"in", types::kF32, PortSpec::kOne, -1, 3, 8},
                {"weight", types::kF32, PortSpec::kOne, 0, 1, 1},
                {"bias", types::kF32, PortSpec::kOptional, 0, 1, 1}};
  def.outputs = {{"out", types::kF32, PortSpec::kOne, 0, 3, 8}};
  def.infer = Infer;
  def.portable = make;
  def.flags = OpDef::kInternal | OpDef::kInPlace | OpDef::kPostOps;
  return def;
}

}  // namespace

OpList ChannelsFirstNormOps() {
  OpList ops;
  ops.push_back(Def(kBatchnormChannelsFirst, Make<BatchnormChannelsFirst>));
  ops.push_back(Def(kInstanceNormChannelsFirst, Make<InstanceNormChannelsFirst>));
  ops.back().params = {{"epsilon", ParamSpec::kFloat, Default(1e-12)}};
  return ops;
}

}  // namespace qnnrt
