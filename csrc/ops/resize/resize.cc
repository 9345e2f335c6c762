// Resize, ResizeBilinear, ResizeNearestNeighbor over the spatial dimensions of [N, spatial.., C].
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/fixed/codec.h"
#include "ops/fixed/kernels.h"
#include "ops/rules.h"
#include "ops/simd.h"

namespace qnnrt {
namespace {

enum class Transform { kHalfPixel, kPytorchHalfPixel, kAlignCorners, kAsymmetric, kHalfPixelRaw };
enum class Interpolation { kNearest, kLinear, kCubic };
enum class Nearest { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil, kRoundAway };

struct ResizeRule {
  Transform transform = Transform::kHalfPixel;
  Interpolation interpolation = Interpolation::kNearest;
  Nearest nearest = Nearest::kRoundPreferFloor;
  bool exclude_outside = false;
  double cubic = -0.75;
};

// What one output coordinate reads: up to four input coordinates and their weights.
struct Taps {
  size_t count = 0;
  size_t at[4];
  float weight[4];
};

double SourceCoordinate(const ResizeRule& rule, size_t out, size_t in_size, size_t out_size) {
  const double x = static_cast<double>(out);
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  switch (rule.transform) {
    case Transform::kPytorchHalfPixel:
      return out_size > 1 ? (x + 0.5) * scale - 0.5 : 0.0;
    case Transform::kHalfPixel:
      return (x + 0.5) * scale - 0.5;
    // Multiplied first from here on: whole coordinates come out whole.
    case Transform::kHalfPixelRaw:  // the output pixel's centre, to be rounded down
      return (x + 0.5) * static_cast<double>(in_size) / static_cast<double>(out_size);
    case Transform::kAlignCorners:
      return out_size > 1 ? x * static_cast<double>(in_size - 1) / static_cast<double>(out_size - 1)
                          : 0.0;
    case Transform::kAsymmetric:
      return x * static_cast<double>(in_size) / static_cast<double>(out_size);
  }
  return x;
}

double RoundCoordinate(Nearest nearest, double x) {
  switch (nearest) {
    case Nearest::kRoundPreferFloor:
      return std::ceil(x - 0.5);
    case Nearest::kRoundPreferCeil:
      return std::floor(x + 0.5);
    case Nearest::kFloor:
      return std::floor(x);
    case Nearest::kCeil:
      return std::ceil(x);
    case Nearest::kRoundAway:
      return std::round(x);
  }
  return x;
}

// Keys' kernel at the four neighbours of a point `t` behind the second one.
void CubicWeights(double a, double t, double weights[4]) {
  const double u = 1.0 - t;
  weights[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
  weights[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  weights[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
  weights[3] = ((a * (u + 1) - 5 * a) * (u + 1) + 8 * a) * (u + 1) - 4 * a;
}

Taps TapsFor(const ResizeRule& rule, size_t out, size_t in_size, size_t out_size) {
  Taps taps;
  const double last = static_cast<double>(in_size - 1);
  double x = SourceCoordinate(rule, out, in_size, out_size);
  if (rule.interpolation == Interpolation::kNearest) {
    taps.count = 1;
    taps.at[0] = static_cast<size_t>(std::clamp(RoundCoordinate(rule.nearest, x), 0.0, last));
    taps.weight[0] = 1.0f;
    return taps;
  }
  if (rule.interpolation == Interpolation::kLinear) {
    x = std::clamp(x, 0.0, last);
    const double low = std::floor(x);
    taps.at[0] = static_cast<size_t>(low);
    taps.at[1] = std::min(taps.at[0] + 1, in_size - 1);
    taps.weight[1] = static_cast<float>(x - low);
    taps.weight[0] = static_cast<float>(1.0 - (x - low));
    taps.count = taps.weight[1] == 0.0f ? 1 : 2;
    return taps;
  }
  const double low = std::floor(x);
  double weights[4], total = 0;
  CubicWeights(rule.cubic, x - low, weights);
  for (int i = 0; i < 4; ++i) {
    const double at = low + i - 1;
    if (rule.exclude_outside && (at < 0 || at > last)) weights[i] = 0;
    total += weights[i];
  }
  taps.count = 4;
  for (int i = 0; i < 4; ++i) {
    taps.at[i] = static_cast<size_t>(std::clamp(low + i - 1, 0.0, last));
    taps.weight[i] = static_cast<float>(rule.exclude_outside ? weights[i] / total : weights[i]);
  }
  return taps;
}

// One to three spatial dimensions, as three.
struct ResizeGeometry {
  size_t batch = 1, channels = 1;
  size_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  std::vector<Taps> taps[3];
};

ResizeGeometry MakeGeometry(const Node& node, const ResizeRule& rule) {
  const Shape& in = node.inputs[0]->shape;
  const Shape& out = node.outputs[0]->shape;
  const size_t spatial = in.size() - 2;
  ResizeGeometry g;
  g.batch = in.front();
  g.channels = in.back();
  for (size_t i = 0; i < spatial; ++i) {
    g.in[3 - spatial + i] = in[1 + i];
    g.out[3 - spatial + i] = out[1 + i];
  }
  for (size_t d = 0; d < 3; ++d) {
    for (size_t i = 0; i < g.out[d]; ++i) g.taps[d].push_back(TapsFor(rule, i, g.in[d], g.out[d]));
  }
  return g;
}

// Output lines (all columns of one row) are the unit of work; `line` counts batch, depth, height.
struct Line {
  size_t batch, d, h;
};
Line LineAt(const ResizeGeometry& g, size_t line) {
  return {line / g.out[1] / g.out[0], line / g.out[1] % g.out[0], line % g.out[1]};
}
size_t Lines(const ResizeGeometry& g) { return g.batch * g.out[0] * g.out[1]; }

// Pixels move as bytes, whatever their type.
class NearestKernel final : public Kernel {
 public:
  NearestKernel(const Node& node, const ResizeRule& rule)
      : g_(MakeGeometry(node, rule)), pixel_(g_.channels * ElementSize(node.inputs[0]->dtype)) {}

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    const size_t line_bytes = g_.out[2] * pixel_;
    const size_t grain = std::max<size_t>(1, 64 * 1024 / std::max<size_t>(1, line_bytes));
    args.threads.For(Lines(g_), grain, [&](size_t begin, size_t end) {
      for (size_t line = begin; line < end; ++line) {
        const Line at = LineAt(g_, line);
        const size_t d = g_.taps[0][at.d].at[0], h = g_.taps[1][at.h].at[0];
        const char* from = in + ((at.batch * g_.in[0] + d) * g_.in[1] + h) * g_.in[2] * pixel_;
        char* to = out + line * line_bytes;
        for (const Taps& taps : g_.taps[2]) {
          std::memcpy(to, from + taps.at[0] * pixel_, pixel_);
          to += pixel_;
        }
      }
    });
    return Status::Ok();
  }
  const char* Name() const override { return "portable"; }

 private:
  const ResizeGeometry g_;
  const size_t pixel_;
};

// Input lines are blended into one in scratch, then its pixels along the line. Lines of fixed-point
// numbers are read and written through lines of floats, in scratch too.
class BlendKernel final : public Kernel {
 public:
  BlendKernel(const Node& node, const ResizeRule& rule, int threads)
      : g_(MakeGeometry(node, rule)),
        fixed_(IsFixed(node.inputs[0]->dtype)),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        in_line_(Padded(g_.in[2] * g_.channels)),
        slots_(std::min<size_t>(static_cast<size_t>(std::max(1, threads)) * 4,
                                std::max<size_t>(1, Lines(g_)))),
        slot_floats_(fixed_ ? 2 * in_line_ + Padded(g_.out[2] * g_.channels) : in_line_) {}

  Status Run(const ExecArgs& args) override {
    const size_t lines = Lines(g_);
    const size_t line_work = (g_.in[2] + g_.out[2]) * g_.channels * lines / slots_;
    const size_t grain = std::max<size_t>(1, 16 * 1024 / std::max<size_t>(1, line_work));
    args.threads.For(slots_, grain, [&](size_t begin, size_t end) {
      for (size_t slot = begin; slot < end; ++slot) {
        float* blended = static_cast<float*>(args.scratch) + slot * slot_floats_;
        for (size_t line = slot; line < lines; line += slots_) One(args, line, blended);
      }
    });
    return Status::Ok();
  }
  size_t ScratchBytes() const override { return slots_ * slot_floats_ * sizeof(float); }
  const char* Name() const override { return "portable"; }

 private:
  static size_t Padded(size_t floats) { return (floats + 15) / 16 * 16; }

  // A line of the input as floats.
  const float* Source(const ExecArgs& args, size_t line, float* wide) const {
    const size_t row = g_.in[2] * g_.channels;
    if (!fixed_) return static_cast<const float*>(args.in[0]) + line * row;
    in_.Read(args.in[0], line * row, row, wide);
    return wide;
  }

  void One(const ExecArgs& args, size_t line, float* blended) const {
    const size_t row = g_.out[2] * g_.channels;
    if (!fixed_) return Blend(args, line, blended, static_cast<float*>(args.out[0]) + line * row);
    float* out = blended + 2 * in_line_;
    Blend(args, line, blended, out);
    out_.Write(out, args.out[0], line * row, row);
  }

  void Blend(const ExecArgs& args, size_t line, float* blended, float* out) const {
    const SimdKernels& simd = Simd();
    const Line at = LineAt(g_, line);
    const size_t row = g_.in[2] * g_.channels;
    const size_t image = at.batch * g_.in[0];
    float* wide = blended + in_line_;
    const Taps &depth = g_.taps[0][at.d], &height = g_.taps[1][at.h];
    const float* source = blended;
    if (depth.count == 1 && height.count == 1) {
      source = Source(args, (image + depth.at[0]) * g_.in[1] + height.at[0], wide);
    } else {
      bool first = true;
      for (size_t i = 0; i < depth.count; ++i) {
        for (size_t j = 0; j < height.count; ++j) {
          const float* from = Source(args, (image + depth.at[i]) * g_.in[1] + height.at[j], wide);
          const float weight = depth.weight[i] * height.weight[j];
          if (first) {
            simd.scale(blended, from, weight, row);
          } else {
            simd.add_scaled(blended, from, weight, row);
          }
          first = false;
        }
      }
    }
    for (const Taps& taps : g_.taps[2]) {
      simd.scale(out, source + taps.at[0] * g_.channels, taps.weight[0], g_.channels);
      for (size_t i = 1; i < taps.count; ++i) {
        simd.add_scaled(out, source + taps.at[i] * g_.channels, taps.weight[i], g_.channels);
      }
      out += g_.channels;
    }
  }

  const ResizeGeometry g_;
  const bool fixed_;
  const Codec in_, out_;
  const size_t in_line_, slots_, slot_floats_;
};

Result<ResizeRule> ReadRule(const Node& node) {
  ResizeRule rule;
  if (node.type == "Resize") {
    const int64_t transform = node.Int("transformation_mode");
    const int64_t interpolation = node.Int("interpolation_mode");
    const int64_t nearest = node.Int("nearest_mode");
    QNNRT_RETURN_IF_ERROR(CheckRange("transformation_mode", transform, 0, 3));
    QNNRT_RETURN_IF_ERROR(CheckRange("interpolation_mode", interpolation, 0, 2));
    QNNRT_RETURN_IF_ERROR(CheckRange("nearest_mode", nearest, 0, 3));
    rule.transform = static_cast<Transform>(transform);
    rule.interpolation = static_cast<Interpolation>(interpolation);
    rule.nearest = static_cast<Nearest>(nearest);
    rule.exclude_outside = node.Bool("exclude_outside");
    rule.cubic = static_cast<double>(node.Float("cubic_coeff", -0.75f));
    return rule;
  }
  const bool align = node.Bool("align_corners"), half = node.Bool("half_pixel_centers");
  if (align && half) {
    return Invalid("align_corners and half_pixel_centers exclude each other");
  }
  if (node.Bool("antialias")) return Invalid("antialias is not supported: set it to false");
  rule.transform = align  ? Transform::kAlignCorners
                   : half ? Transform::kHalfPixel
                          : Transform::kAsymmetric;
  rule.interpolation = Interpolation::kLinear;
  if (node.type == "ResizeNearestNeighbor") {
    rule.interpolation = Interpolation::kNearest;
    rule.nearest = align ? Nearest::kRoundAway : Nearest::kFloor;
    if (half) rule.transform = Transform::kHalfPixelRaw;
  }
  return rule;
}

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const ResizeRule rule, ReadRule(node));
  const Tensor& in = *node.inputs[0];
  const Tensor& out = *node.outputs[0];
  constexpr TypeSet kReal = types::kFloat | types::kFixed;
  if (rule.interpolation != Interpolation::kNearest && (TypeBit(in.dtype) & kReal) == 0) {
    return Invalid("input 0 '%s' has type %s; interpolation needs one of: %s", in.name.c_str(),
                   DataTypeName(in.dtype), TypeSetNames(kReal).c_str())
        .WithCode(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE);
  }
  // The output's size is the client's choice; batch and channels are not.
  bool fits = out.shape.size() == in.shape.size() && out.shape.front() == in.shape.front() &&
              out.shape.back() == in.shape.back();
  for (size_t i = 1; fits && i + 1 < in.shape.size(); ++i) {
    fits = in.shape[i] != 0 && out.shape[i] != 0;
  }
  if (!fits) {
    return Invalid(
        "output '%s' has shape %s; batch and channels must be those of input %s "
        "and no size 0",
        out.name.c_str(), ShapeText(out.shape).c_str(), ShapeText(in.shape).c_str());
  }
  (*outputs)[0] = out.shape;
  return Status::Ok();
}

Result<KernelPtr> MakeResize(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const ResizeRule rule, ReadRule(node));
  if (rule.interpolation == Interpolation::kNearest) {
    return KernelPtr(new NearestKernel(node, rule));
  }
  if (node.inputs[0]->dtype == QNN_DATATYPE_FLOAT_16) {
    return MakeViaFloat(*FindOp(node.type), node, options);
  }
  return KernelPtr(new BlendKernel(node, rule, options.threads));
}

}  // namespace

Result<KernelPtr> MakeFixedResize(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const ResizeRule rule, ReadRule(node));
  if (rule.interpolation == Interpolation::kNearest) return KernelPtr();
  return KernelPtr(new BlendKernel(node, rule, options.threads));
}

namespace {

OpDef Def(const char* type, TypeSet accepted, int min_rank, int max_rank) {
  OpDef def;
  def.type = type;
  def.inputs = {{"in", accepted, PortSpec::kOne, -1, min_rank, max_rank}};
  def.outputs = {{"out", accepted, PortSpec::kOne, 0, min_rank, max_rank}};
  def.infer = Infer;
  def.portable = MakeResize;
  return def;
}

}  // namespace

OpList ResizeOps() {
  const ParamSpec align = {"align_corners", ParamSpec::kBool, false, "default false"};
  const ParamSpec half = {"half_pixel_centers", ParamSpec::kBool, false, "default false"};
  OpList ops;
  ops.push_back(Def("ResizeBilinear", types::kFloat, 4, 4));
  ops.back().params = {align, half, {"antialias", ParamSpec::kBool, false, "only false"}};
  ops.push_back(Def("ResizeNearestNeighbor", types::kAny, 4, 4));
  ops.back().params = {align, half};
  ops.back().flags = OpDef::kNativeHalf | OpDef::kMoves;
  ops.push_back(Def("Resize", types::kAny, 3, 5));
  ops.back().flags = OpDef::kNativeHalf | OpDef::kMoves;
  ops.back().params = {
      {"exclude_outside", ParamSpec::kBool, false, "cubic: leave outside pixels out"},
      {"transformation_mode", ParamSpec::kInt, false,
       "0 half pixel (default), 1 pytorch half pixel, 2 align corners, 3 asymmetric"},
      {"interpolation_mode", ParamSpec::kInt, false, "0 nearest (default), 1 linear, 2 cubic"},
      {"nearest_mode", ParamSpec::kInt, false,
       "0 round, ties down (default), 1 round, ties up, 2 floor, 3 ceil"},
      {"cubic_coeff", ParamSpec::kFloat, false, "default -0.75"}};
  return ops;
}

}  // namespace qnnrt
