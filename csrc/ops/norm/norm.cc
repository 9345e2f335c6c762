// Batchnorm, LayerNorm, RmsNorm, L2Norm: definitions of all norms, kernels of those along axes.
// InstanceNorm and GroupNorm are in norm_spatial.cc, Lrn in lrn.cc, those of channels first in
// channels_first.cc.
#include "ops/norm/norm.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/fixed/kernels.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/simd.h"
#include "ops/stored_floats.h"

namespace qnnrt {
namespace {

size_t GrainFor(size_t elements_each, size_t worth = 16 * 1024) {
  return std::max<size_t>(1, worth / std::max<size_t>(1, elements_each));
}

// ---- Batchnorm: y = x * weight + bias along the last axis ----

class Batchnorm final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
    for (size_t i : {1, 2}) {
      if (node.HasInput(i) && StoredFloats(*node.inputs[i]).narrow())
        return MakeViaFloat(*FindOp(node.type), node, options);
    }
    std::unique_ptr<Batchnorm> kernel(new Batchnorm(node));
    if (!kernel->has_bias_) {
      kernel->zeros_ = AlignedBytes::Make(kernel->channels_ * sizeof(float));
      if (!kernel->zeros_) return OutOfMemory();
      std::fill_n(static_cast<float*>(kernel->zeros_->data()), kernel->channels_, 0.0f);
    }
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const float* weight = static_cast<const float*>(args.in[1]);
    const float* bias = static_cast<const float*>(has_bias_ ? args.in[2] : zeros_->data());
    args.threads.For(rows_, GrainFor(channels_), [&](size_t begin, size_t end) {
      if (clamps_) {
        return Simd().brain.clamped_affine(
            static_cast<uint16_t*>(args.out[0]) + begin * channels_,
            static_cast<const uint16_t*>(args.in[0]) + begin * pitch_, weight, bias, clamps_->low,
            clamps_->high, pitch_, end - begin, channels_);
      }
      for (size_t row = begin; row < end; ++row) {
        for (size_t c = 0; c < channels_; c += block_) {
          const size_t at = row * channels_ + c, count = std::min(block_, channels_ - c);
          alignas(64) float buffer[kFloatBlock];
          float* out = out_.Place(args.out[0], at, buffer);
          const float* in = in_.Read(args.in[0], row * pitch_ + c, count, buffer);
          Simd().affine(out, in, weight + c, bias + c, count);
          post_ops_.Apply(args, out, at, count);
          out_.Store(out, args.out[0], at, count);
        }
      }
    });
    return Status::Ok();
  }

 private:
  explicit Batchnorm(const Node& node)
      : post_ops_(node),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        channels_(node.inputs[0]->shape.back()),
        block_(in_.narrow() || out_.narrow() ? kFloatBlock : channels_),
        pitch_(node.PitchOf(false, 0, channels_)),
        has_bias_(node.HasInput(2)) {
    rows_ = channels_ == 0 ? 0 : node.inputs[0]->elements() / channels_;
    if (IsBrain(node)) clamps_ = post_ops_.Clamps();
  }

  const PostOps post_ops_;
  const StoredFloats in_, out_;
  const size_t channels_, block_, pitch_;
  const bool has_bias_;
  size_t rows_ = 0;
  std::optional<Limits> clamps_;  // of BFLOAT_16, where that is all that follows
  std::shared_ptr<AlignedBytes> zeros_;
};

// Where nothing converts it as a whole.
bool BatchnormTakesPitch(const Node& node, bool output, size_t port, uint64_t row) {
  const auto wide = [&](size_t i) {
    return !node.HasInput(i) || node.inputs[i]->dtype == QNN_DATATYPE_FLOAT_32;
  };
  return !output && port == 0 && row == node.inputs[0]->shape.back() &&
         IsFloat(node.inputs[0]->dtype) && wide(1) && wide(2) && IsFloat(node.outputs[0]->dtype);
}

Status InferBatchnorm(const Node& node, std::vector<Shape>* outputs) {
  const Shape channels = {node.inputs[0]->shape.back()};
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 1, "weight", channels));
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 2, "bias", channels));
  (*outputs)[0] = node.inputs[0]->shape;
  return Status::Ok();
}

// ---- LayerNorm, RmsNorm, L2Norm: statistics over a set of axes ----

enum class AxisNorm { kLayer, kRms, kL2 };

struct AxisGeometry {
  AxisNorm kind = AxisNorm::kLayer;
  float epsilon = 0;
  size_t outer = 1, inner = 1;
  // The axes are the last ones in order: every row is `inner` neighbours. Else element (o, i) is at
  // outer_at[o] + inner_at[i].
  bool contiguous = true;
  size_t columns = 1;  // rows that begin beside each other: the sizes behind the last of the axes
  std::vector<size_t> outer_at, inner_at;
  Shape axes_shape;
};

// Offsets of all index tuples over `axes`, in row-major order of the axes as listed.
std::vector<size_t> Offsets(const Shape& shape, const std::vector<size_t>& axes) {
  std::vector<size_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  std::vector<size_t> offsets = {0};
  for (size_t axis : axes) {
    std::vector<size_t> next;
    next.reserve(offsets.size() * shape[axis]);
    for (size_t offset : offsets) {
      for (size_t i = 0; i < shape[axis]; ++i) next.push_back(offset + i * strides[axis]);
    }
    offsets.swap(next);
  }
  return offsets;
}

Result<AxisGeometry> ReadAxes(const Node& node, bool with_offsets) {
  const Shape& shape = node.inputs[0]->shape;
  const size_t rank = shape.size();
  AxisGeometry g;
  std::vector<int64_t> axes = node.Ints("axes");
  g.epsilon = node.Float("epsilon");
  if (node.type == "L2Norm") {
    g.kind = AxisNorm::kL2;
    if (axes.empty()) axes = {node.Int("axis")};
  } else {
    g.kind = node.type == "RmsNorm" ? AxisNorm::kRms : AxisNorm::kLayer;
  }
  if (axes.empty()) return Invalid("param 'axes' must name at least one axis");
  std::vector<size_t> inner_axes, outer_axes;
  std::vector<bool> taken(rank, false);
  for (int64_t axis : axes) {
    QNNRT_ASSIGN_OR_RETURN(const size_t at, CheckAxis("axes", axis, rank));
    if (taken[at]) return Invalid("param 'axes' names axis %zu twice", at);
    taken[at] = true;
    inner_axes.push_back(at);
    g.axes_shape.push_back(shape[at]);
    g.inner *= g.axes_shape.back();
  }
  for (size_t i = 0; i < rank; ++i) {
    if (!taken[i]) {
      outer_axes.push_back(i);
      g.outer *= shape[i];
    }
  }
  for (size_t i = 0; i < inner_axes.size(); ++i) {
    if (inner_axes[i] != rank - inner_axes.size() + i) g.contiguous = false;
  }
  for (size_t i = rank; i-- > 0 && !taken[i];) g.columns *= shape[i];
  if (!g.contiguous && with_offsets) {
    g.outer_at = Offsets(shape, outer_axes);
    g.inner_at = Offsets(shape, inner_axes);
  }
  return g;
}

// How a row is scaled, from its statistics.
struct RowScale {
  float shift, factor;
};

RowScale ScaleOf(const AxisGeometry& g, float sum, float sum_squares) {
  const float count = static_cast<float>(g.inner);
  if (g.kind == AxisNorm::kL2) {
    return {0.0f, 1.0f / std::max(std::sqrt(sum_squares), g.epsilon)};
  }
  const float shift = g.kind == AxisNorm::kLayer ? sum / count : 0.0f;
  return {shift, 1.0f / std::sqrt(sum_squares / count + g.epsilon)};
}

// Floats of a row in 16 bits that the kernel converts on its stack.
constexpr size_t kMostNarrowRow = 4096;

class NormAlongAxes final : public Kernel {
 public:
  NormAlongAxes(const Node& node, AxisGeometry g)
      : g_(std::move(g)),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        brain_(IsBrain(node)),
        has_weight_(node.HasInput(1)),
        has_bias_(node.HasInput(2)) {}

  Status Run(const ExecArgs& args) override {
    const float* weight = has_weight_ ? static_cast<const float*>(args.in[1]) : nullptr;
    const float* bias = has_bias_ ? static_cast<const float*>(args.in[2]) : nullptr;
    if (!g_.contiguous) {
      RunColumns(args, weight, bias);
      return Status::Ok();
    }
    args.threads.For(g_.outer, GrainFor(g_.inner), [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        const size_t at = row * g_.inner;
        if (brain_) {
          BrainRow(static_cast<const uint16_t*>(args.in[0]) + at, weight, bias,
                   static_cast<uint16_t*>(args.out[0]) + at);
        } else {
          alignas(64) float buffer[kMostNarrowRow];
          float* out = out_.Place(args.out[0], at, buffer);
          Row(in_.Read(args.in[0], at, g_.inner, buffer), weight, bias, out);
          out_.Store(out, args.out[0], at, g_.inner);
        }
      }
    });
    return Status::Ok();
  }

 private:
  void Row(const float* in, const float* weight, const float* bias, float* out) const {
    float sum = 0;
    if (g_.kind == AxisNorm::kLayer) sum = Simd().sum(in, g_.inner);
    const float mean = sum / static_cast<float>(g_.inner);
    const RowScale scale = ScaleOf(g_, sum, Simd().sum_squares(in, g_.inner, mean));
    Simd().normalize(out, in, scale.shift, scale.factor, weight, bias, g_.inner);
  }

  void BrainRow(const uint16_t* in, const float* weight, const float* bias, uint16_t* out) const {
    float sum = 0;
    if (g_.kind == AxisNorm::kLayer) sum = Simd().brain.sum(in, g_.inner);
    const float mean = sum / static_cast<float>(g_.inner);
    const RowScale scale = ScaleOf(g_, sum, Simd().brain.sum_squares(in, g_.inner, mean));
    Simd().brain.normalize(out, in, scale.shift, scale.factor, weight, bias, g_.inner);
  }

  // As many rows beside each other as fill a cache line: each line is read once for all of them.
  static constexpr size_t kColumns = 16;

  void RunColumns(const ExecArgs& args, const float* weight, const float* bias) const {
    const size_t chunks = (g_.columns + kColumns - 1) / kColumns;
    const size_t width = std::min(g_.columns, kColumns);
    args.threads.For(g_.outer / g_.columns * chunks, GrainFor(g_.inner * width),
                     [&](size_t begin, size_t end) {
                       for (size_t task = begin; task < end; ++task) {
                         const size_t column = task % chunks * kColumns;
                         const size_t count = std::min(kColumns, g_.columns - column);
                         const size_t at = g_.outer_at[task / chunks * g_.columns] + column;
                         const float* in = static_cast<const float*>(args.in[0]) + at;
                         float* out = static_cast<float*>(args.out[0]) + at;
                         if (count == kColumns) {  // the compiler makes vectors of it
                           Columns(in, weight, bias, out, kColumns);
                         } else {
                           Columns(in, weight, bias, out, count);
                         }
                       }
                     });
  }

  [[gnu::always_inline]] void Columns(const float* in, const float* weight, const float* bias,
                                      float* out, size_t count) const {
    double mean[kColumns] = {}, squares[kColumns] = {};
    if (g_.kind == AxisNorm::kLayer) {
      for (size_t at : g_.inner_at) {
        for (size_t c = 0; c < count; ++c) mean[c] += in[at + c];
      }
      for (size_t c = 0; c < count; ++c) mean[c] /= static_cast<double>(g_.inner);
    }
    for (size_t at : g_.inner_at) {
      for (size_t c = 0; c < count; ++c) {
        squares[c] += (in[at + c] - mean[c]) * (in[at + c] - mean[c]);
      }
    }
    float shift[kColumns] = {}, factor[kColumns] = {};
    for (size_t c = 0; c < count; ++c) {
      const double sum = mean[c] * static_cast<double>(g_.inner);
      const RowScale scale = ScaleOf(g_, static_cast<float>(sum), static_cast<float>(squares[c]));
      shift[c] = scale.shift;
      factor[c] = scale.factor;
    }
    for (size_t i = 0; i < g_.inner; ++i) {
      const float w = weight == nullptr ? 1.0f : weight[i];
      const float b = bias == nullptr ? 0.0f : bias[i];
      const size_t at = g_.inner_at[i];
      for (size_t c = 0; c < count; ++c) out[at + c] = (in[at + c] - shift[c]) * factor[c] * w + b;
    }
  }

  const AxisGeometry g_;
  const StoredFloats in_, out_;
  const bool brain_, has_weight_, has_bias_;
};

Status InferAlongAxes(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const AxisGeometry g, ReadAxes(node, false));
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 1, "weight", g.axes_shape));
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 2, "bias", g.axes_shape));
  (*outputs)[0] = node.inputs[0]->shape;
  return Status::Ok();
}

Result<KernelPtr> MakeAlongAxes(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(AxisGeometry g, ReadAxes(node, true));
  const auto narrow = [](const Tensor* t) { return t != nullptr && StoredFloats(*t).narrow(); };
  const bool rows = narrow(node.inputs[0]) || narrow(node.outputs[0]);
  const bool vectors = std::any_of(node.inputs.begin() + 1, node.inputs.end(), narrow);
  const bool fits = g.contiguous && (IsBrain(node) || g.inner <= kMostNarrowRow);
  if (vectors || (rows && !fits)) return MakeViaFloat(*FindOp(node.type), node, options);
  return KernelPtr(new NormAlongAxes(node, std::move(g)));
}

OpDef Def(const char* type, std::vector<PortSpec> inputs, std::vector<ParamSpec> params,
          Status (*infer)(const Node&, std::vector<Shape>*), MakeKernelFn make,
          uint32_t flags = OpDef::kNone) {
  OpDef def;
  def.type = type;
  def.inputs = std::move(inputs);
  def.outputs = {{"out", types::kFloat, PortSpec::kOne, 0, 1, 8}};
  def.params = std::move(params);
  def.infer = infer;
  def.portable = make;
  def.flags = flags;
  def.fixed = MakeFixedRows;
  return def;
}

PortSpec In(int min_rank) { return {"in", types::kFloat, PortSpec::kOne, -1, min_rank, 8}; }
PortSpec Vector(const char* name, bool required, int max_rank = 1) {
  return {name, types::kFloat, required ? PortSpec::kOne : PortSpec::kOptional, 0, 1, max_rank};
}

}  // namespace

OpList NormOps() {
  const ParamSpec axes = {"axes", ParamSpec::kInts, Required(), "[M], the normalized axes"};
  OpList ops;
  ops.push_back(Def("Batchnorm", {In(1), Vector("weight", true), Vector("bias", false)}, {},
                    InferBatchnorm, Batchnorm::Make,
                    OpDef::kInPlace | OpDef::kPostOps | OpDef::kLpai | OpDef::kNativeHalf));
  ops.back().fixed = MakeFixedBatchnorm;
  ops.back().linear = OpDef::kMultiplyAdd;
  ops.back().takes_pitch = BatchnormTakesPitch;
  ops.push_back(Def("LayerNorm", {In(1), Vector("gamma", false, 8), Vector("beta", false, 8)},
                    {{"epsilon", ParamSpec::kFloat, Default(1e-3)}, axes}, InferAlongAxes,
                    MakeAlongAxes, OpDef::kLpai | OpDef::kNativeHalf));
  ops.push_back(Def("RmsNorm", {In(1), Vector("gamma", false, 8), Vector("beta", false, 8)},
                    {{"epsilon", ParamSpec::kFloat, Default(1e-6)}, axes}, InferAlongAxes,
                    MakeAlongAxes, OpDef::kLpai | OpDef::kNativeHalf));
  ops.push_back(Def("L2Norm", {In(1)},
                    {{"axis", ParamSpec::kInt, Default(0), "not used when axes is given"},
                     {"axes", ParamSpec::kInts, NoDefault(), "[M], the normalized axes"},
                     {"epsilon", ParamSpec::kFloat, Default(1e-12), "the least norm"}},
                    InferAlongAxes, MakeAlongAxes, OpDef::kNativeHalf));
  ops.push_back(Def("InstanceNorm", {In(3), Vector("weight", true), Vector("bias", false)},
                    {{"epsilon", ParamSpec::kFloat, Default(1e-12)},
                     {"mode", ParamSpec::kInt, Default(0), "", {"mu_sigma", "rms"}},
                     {"normalize_variance", ParamSpec::kBool, Default(true)},
                     {"region",
                      ParamSpec::kInt,
                      Default(0),
                      "",
                      {"across_spatial", "across_channel", "across_all"}}},
                    InferInstanceNorm, MakeInstanceNorm, OpDef::kPostOps | OpDef::kNativeHalf));
  ops.push_back(Def("GroupNorm", {In(2), Vector("gamma", false), Vector("beta", false)},
                    {{"epsilon", ParamSpec::kFloat, Required(), "added to the variance"},
                     {"group", ParamSpec::kInt, Required(), "divides the channels"}},
                    InferGroupNorm, MakeGroupNorm, OpDef::kPostOps | OpDef::kNativeHalf));
  ops.push_back(
      Def("Lrn", {In(1)},
          {{"alpha", ParamSpec::kFloat, Default(1.0), "times the plain sum"},
           {"beta", ParamSpec::kFloat, Default(0.5)},
           {"bias", ParamSpec::kFloat, Default(1.0)},
           {"radius", ParamSpec::kInt, Required(), "the window is 2 * radius + 1"},
           {"region", ParamSpec::kInt, Default(0), "", {"across_channel", "within_channel"}}},
          InferLrn, MakeLrn, OpDef::kLpai));
  for (OpDef& def : ChannelsFirstNormOps()) ops.push_back(std::move(def));
  return ops;
}

}  // namespace qnnrt
