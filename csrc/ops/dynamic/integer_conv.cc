// IntegerConv2d: ONNX's ConvInteger in two dimensions, with static weights, and what dynamic
// quantization has behind it, as IntegerMatMul has it. What lies outside of the image is zero0.
#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/dynamic/dynamic.h"
#include "ops/dynamic/loops.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr size_t kConvGrain = 64 * 1024;  // products worth a thread
constexpr size_t kSlotsPerThread = 4;

// Each window becomes a row of 16-bit differences, which is multiplied with the filters of its
// group.
class IntegerConv2d final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
    QNNRT_ASSIGN_OR_RETURN(const ConvGeometry g, ReadConv(node));
    std::unique_ptr<IntegerConv2d> kernel(new IntegerConv2d(node, g, options));
    const auto pack = [&](void* to) {
      kernel->Pack(*node.inputs[1], static_cast<int16_t*>(to));
      return Status::Ok();
    };
    const size_t bytes =
        static_cast<size_t>(g.group) * kernel->filters_ * kernel->depth_ * sizeof(int16_t);
    QNNRT_ASSIGN_OR_RETURN(kernel->packed_,
                           PackWeights(options, 1, bytes, "filters of INT_16 as rows", pack));
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const size_t pixels = static_cast<size_t>(g_.out_pixels());
    const size_t each = (pixels + slots_ - 1) / slots_;
    args.threads.For(slots_, 1, [&](size_t begin, size_t end) {
      for (size_t s = begin; s < end; ++s) {
        int16_t* window = static_cast<int16_t*>(args.scratch) + s * depth_;
        for (size_t p = s * each; p < std::min(pixels, (s + 1) * each); ++p) Pixel(args, p, window);
      }
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return ScratchRoom(slots_ * depth_ * sizeof(int16_t)); }
  bool ReadsInput(size_t i) const override { return i != 1; }
  size_t WeightBytes() const override { return packed_->size(); }

 private:
  IntegerConv2d(const Node& node, const ConvGeometry& g, const KernelOptions& options)
      : g_(g), finish_(node), in_(node, 0) {
    depth_ = static_cast<size_t>(g.taps() * g.cin_per_group());
    filters_ = RoundedColumns(static_cast<size_t>(g.cout_per_group()));
    const size_t work = depth_ * static_cast<size_t>(g.cout * g.out_pixels());
    slots_ = work < kConvGrain || options.threads < 2
                 ? 1
                 : kSlotsPerThread * static_cast<size_t>(options.threads);
  }

  void Pack(const Tensor& weights, int16_t* to) const {
    const Quantization& q = weights.quantization;
    const bool is_signed = weights.dtype == QNN_DATATYPE_SFIXED_POINT_8;
    const uint8_t* codes = weights.data_as<uint8_t>();
    const size_t cout = static_cast<size_t>(g_.cout), per_group = cout / Groups();
    std::fill_n(to, Groups() * filters_ * depth_, int16_t{0});
    for (size_t c = 0; c < cout; ++c) {
      int16_t* row = to + (c / per_group * filters_ + c % per_group) * depth_;
      const int32_t offset = q.offsets[q.axis < 0 ? 0 : c];
      for (size_t i = 0; i < depth_; ++i) {
        const uint8_t code = codes[i * cout + c];
        row[i] = static_cast<int16_t>((is_signed ? static_cast<int8_t>(code) : code) + offset);
      }
    }
  }

  void Pixel(const ExecArgs& args, size_t p, int16_t* window) const {
    const int64_t width = g_.out[2], height = g_.out[1], at = static_cast<int64_t>(p);
    const int64_t x = at % width, y = at / width % height, n = at / width / height;
    const int32_t zero = in_.Zero(args);
    int32_t* sums = static_cast<int32_t*>(args.out[0]) + p * static_cast<size_t>(g_.cout);
    const size_t per_group = static_cast<size_t>(g_.cout_per_group());
    for (size_t group = 0; group < Groups(); ++group) {
      Window(args.in[0], zero, n, y, x, group, window);
      const int16_t* filters =
          static_cast<const int16_t*>(packed_->data()) + group * filters_ * depth_;
      dots_(window, filters, depth_, per_group, sums + group * per_group);
    }
    finish_.Run(args, p * static_cast<size_t>(g_.cout), static_cast<size_t>(g_.cout));
  }

  void Window(const void* in, int32_t zero, int64_t n, int64_t y, int64_t x, size_t group,
              int16_t* to) const {
    const int64_t channels = g_.cin_per_group();
    for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
      const int64_t iy = y * g_.stride[1] + ky * g_.dilation[1] - g_.pad_before[1];
      for (int64_t kx = 0; kx < g_.kernel[2]; ++kx, to += channels) {
        const int64_t ix = x * g_.stride[2] + kx * g_.dilation[2] - g_.pad_before[2];
        if (iy < 0 || iy >= g_.in[1] || ix < 0 || ix >= g_.in[2]) {
          std::fill_n(to, channels, int16_t{0});
          continue;
        }
        const int64_t from =
            ((n * g_.in[1] + iy) * g_.in[2] + ix) * g_.cin + static_cast<int64_t>(group) * channels;
        in_.Widen(static_cast<const uint8_t*>(in) + from, static_cast<size_t>(channels), 1, zero,
                  to);
      }
    }
  }

  size_t Groups() const { return static_cast<size_t>(g_.group); }

  const ConvGeometry g_;
  const FinishSums finish_;
  const ByteInput in_;
  size_t depth_, filters_, slots_;  // products of a sum; filters of a group, with padding
  SharedBytes packed_;
  decltype(PickIsa<DotsRun>()) dots_ = PickIsa<DotsRun>();
};

Status InferIntegerConv(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const ConvGeometry g, ReadConv(node));
  if (node.inputs[0]->elements() == 0) return Invalid("an input without elements");
  if (node.inputs[1]->type != QNN_TENSOR_TYPE_STATIC) return Invalid("computed weights");
  QNNRT_RETURN_IF_ERROR(CheckIntegerPorts(node, static_cast<size_t>(g.cout)));
  (*outputs)[0] = {node.inputs[0]->shape[0], static_cast<uint32_t>(g.out[1]),
                   static_cast<uint32_t>(g.out[2]), static_cast<uint32_t>(g.cout)};
  return Status::Ok();
}

}  // namespace

OpDef IntegerConv2dOp() {
  OpDef def;
  def.type = kIntegerConv2d;
  def.inputs = IntegerPorts(4, 4);
  def.outputs = {{"out", types::kI32 | types::kF32, PortSpec::kOne, -1, 4, 4}};
  def.params = {{"stride", ParamSpec::kInts, Required()},
                {"pad_amount", ParamSpec::kInts, Required()},
                {"dilation", ParamSpec::kInts, DefaultInts({2}, 1)},
                {"group", ParamSpec::kInt, Default(1)}};
  def.infer = InferIntegerConv;
  def.portable = IntegerConv2d::Make;
  def.fixed = IntegerConv2d::Make;
  def.flags = OpDef::kPostOps | OpDef::kInternal;
  return def;
}

}  // namespace qnnrt
