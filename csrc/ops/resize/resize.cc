// Resize, ResizeBilinear, ResizeNearestNeighbor over the spatial dimensions of [N, spatial.., C].
#include <algorithm>
#include <cstring>

#include "abi/qnn_op_values.h"
#include "ops/fixed/kernels.h"
#include "ops/resize/resize.h"
#include "ops/rules.h"
#include "ops/simd.h"
#include "ops/strided_loops.h"

namespace qnnrt {
Result<ResizeRule> ReadResizeRule(const Node& node) {
  ResizeRule rule;
  if (node.type == "Resize") {
    rule.transform = static_cast<Transform>(node.Int("transformation_mode"));
    rule.interpolation = static_cast<Interpolation>(node.Int("interpolation_mode"));
    rule.nearest = static_cast<Nearest>(node.Int("nearest_mode"));
    rule.exclude_outside = node.Bool("exclude_outside");
    rule.cubic = static_cast<double>(node.Float("cubic_coeff"));
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

namespace {

// Pixels move as bytes, whatever their type.
class NearestKernel final : public Kernel {
 public:
  NearestKernel(const Node& node, const ResizeRule& rule)
      : g_(MakeResizeGeometry(node, rule)),
        pixel_(g_.channels * ElementSize(node.inputs[0]->dtype)) {
    for (const Taps& t : g_.taps[2]) columns_.push_back(static_cast<uint32_t>(t.at[0]));
  }

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    const size_t line_bytes = g_.out[2] * pixel_;
    const size_t grain = std::max<size_t>(1, 64 * 1024 / std::max<size_t>(1, line_bytes));
    args.threads.For(Lines(g_), grain, [&](size_t begin, size_t end) {
      const char* last = nullptr;
      for (size_t line = begin; line < end; ++line) {
        const Line at = LineAt(g_, line);
        const size_t d = g_.taps[0][at.d].at[0], h = g_.taps[1][at.h].at[0];
        const char* from = in + ((at.batch * g_.in[0] + d) * g_.in[1] + h) * g_.in[2] * pixel_;
        char* to = out + line * line_bytes;
        if (from == last) {
          std::memcpy(to, to - line_bytes, line_bytes);
        } else {
          line_(from, to, columns_.data(), g_.out[2], pixel_);
        }
        last = from;
      }
    });
    return Status::Ok();
  }

 private:
  using LineFn = void (*)(const char* from, char* to, const uint32_t* columns, size_t count,
                          size_t pixel);
  // Of pixels of a known size no memcpy is called; kBytes is 0 for every other.
  template <size_t kBytes>
  struct CopyLine {
    static QNNRT_INLINE void Run(const char* from, char* to, const uint32_t* columns, size_t count,
                                 size_t pixel) {
      const size_t bytes = kBytes != 0 ? kBytes : pixel;
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(to + i * bytes, from + columns[i] * bytes, bytes);
      }
    }
  };
  // Of a pixel of one element vectors are gathered.
  template <typename T>
  struct GatherLine {
    static QNNRT_INLINE void Run(const char* from, char* to, const uint32_t* columns, size_t count,
                                 size_t) {
      const auto* x = reinterpret_cast<const typename Anywhere<T>::Type*>(from);
      auto* o = reinterpret_cast<typename Anywhere<T>::Type*>(to);
      QNNRT_SIMD
      for (size_t i = 0; i < count; ++i) o[i] = x[columns[i]];
    }
  };
  static LineFn PickLine(size_t pixel) {
    switch (pixel) {
      case 1:
        return CopyLine<1>::Run;
      case 2:
        return CopyLine<2>::Run;
      case 3:
        return CopyLine<3>::Run;
      case 4:
        return PickIsa<GatherLine<uint32_t>>();
      case 8:
        return PickIsa<GatherLine<uint64_t>>();
      case 12:
        return CopyLine<12>::Run;
      case 16:
        return CopyLine<16>::Run;
      default:
        return CopyLine<0>::Run;
    }
  }

  const ResizeGeometry g_;
  const size_t pixel_;
  std::vector<uint32_t> columns_;
  const LineFn line_ = PickLine(pixel_);
};

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const ResizeRule rule, ReadResizeRule(node));
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
  QNNRT_ASSIGN_OR_RETURN(const ResizeRule rule, ReadResizeRule(node));
  if (rule.interpolation == Interpolation::kNearest) {
    return KernelPtr(new NearestKernel(node, rule));
  }
  if (NarrowFloatOf(node.inputs[0]->dtype) != nullptr) {
    return MakeViaFloat(*FindOp(node.type), node, options);
  }
  return MakeBlend(node, rule, options.threads,
                   {Simd().scale, Simd().add_scaled, PickIsa<BlendPixels<true>>()});
}

OpDef Def(const char* type, TypeSet accepted, int min_rank, int max_rank) {
  OpDef def;
  def.type = type;
  def.inputs = {{"in", accepted, PortSpec::kOne, -1, min_rank, max_rank}};
  def.outputs = {{"out", accepted, PortSpec::kOne, 0, min_rank, max_rank}};
  def.infer = Infer;
  def.portable = MakeResize;
  def.flags = OpDef::kLpai;
  return def;
}

}  // namespace

OpList ResizeOps() {
  const ParamSpec align = {"align_corners", ParamSpec::kBool, Default(false)};
  const ParamSpec half = {"half_pixel_centers", ParamSpec::kBool, Default(false)};
  OpList ops;
  ops.push_back(Def("ResizeBilinear", types::kFloat, 4, 4));
  ops.back().fixed = MakeFixedResize;
  ops.back().params = {align, half, {"antialias", ParamSpec::kBool, Default(false), "only false"}};
  ops.push_back(Def("ResizeNearestNeighbor", types::kAny, 4, 4));
  ops.back().params = {align, half};
  ops.back().flags |= OpDef::kNativeHalf | OpDef::kMoves;
  ops.push_back(Def("Resize", types::kAny, 3, 5));
  ops.back().flags |= OpDef::kNativeHalf | OpDef::kMoves;
  ops.back().fixed = MakeFixedResize;
  ops.back().moves = [](const Node& node) {
    return node.Int("interpolation_mode") == QNN_OP_RESIZE_INTERPOLATION_MODE_NEAREST;
  };
  ops.back().params = {
      {"exclude_outside", ParamSpec::kBool, Default(false), "cubic: leave outside pixels out"},
      {"transformation_mode",
       ParamSpec::kInt,
       Default(0),
       "",
       {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}},
      {"interpolation_mode", ParamSpec::kInt, Default(0), "", {"nearest", "linear", "cubic"}},
      {"nearest_mode",
       ParamSpec::kInt,
       Default(0),
       "",
       {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}},
      {"cubic_coeff", ParamSpec::kFloat, Default(-0.75)}};
  return ops;
}

}  // namespace qnnrt
