// Conv2d, FullyConnected and MatMul of 16-bit activations on 8-bit matrix units. A number is taken
// apart into its two bytes, x = 256 * high + low; the planes of high and of low bytes run as two
// images of one 8-bit primitive, whose exact 32-bit sums are put together again in double precision
// and rounded once. Done in tiles of output rows, so that what lies between stays in the cache.
// docs/decisions/0011-sixteen-bit.md has the measurements against the float kernels.
#include "ops/onednn/split16.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/conv.h"
#include "ops/fixed.h"
#include "ops/onednn/fixed.h"
#include "ops/onednn/shapes.h"
#include "ops/onednn/split16_loops.h"
#include "ops/rules.h"
#include "ops/weights.h"

namespace qnnrt::onednn {
namespace {

// Products in one sum from which on two 8-bit passes and the work around them are faster than one
// pass in float; and for how many the sum of bytes times weights fits 32 bits in any case.
constexpr int64_t kLeastDepth = 64, kMostDepth = 65000;
constexpr double kLeastWork = 1e6;  // multiply-adds
// 32-bit sums of a tile: they stay in the cache of one core. Fewer pixels would have the weights
// read too often.
constexpr int64_t kTileBytes = 512 * 1024, kTilePixels = 64;
constexpr size_t kAlignment = 64;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The problem as images of rows of pixels. A matrix product has one image with pixels for rows.
struct Shape16 {
  int64_t images = 1, in_rows, out_rows, in_width = 1, out_width = 1, cin, cout, group = 1;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t top = 0, left = 0, padded_width = 1;  // with both sides
  bool product = false;
  bool padded = false;
  ChannelOrder order;                // of the weights
  Dims weight_dims, weight_strides;  // in oneDNN's order

  int64_t tile = 1;  // output rows
  int64_t TileIn() const { return (tile - 1) * stride_h + (kernel_h - 1) * dilation_h + 1; }
  int64_t depth() const { return kernel_h * kernel_w * (cin / group); }
  int64_t in_row() const { return in_width * cin; }  // elements
  int64_t padded_row() const { return padded_width * cin; }
  int64_t out_row() const { return out_width * cout; }
};

class Split16 final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options, Shape16 shape);

  Status Run(const ExecArgs& args) override {
    const uint16_t* in = static_cast<const uint16_t*>(args.in[0]);
    uint16_t* out = static_cast<uint16_t*>(args.out[0]);
    char* scratch = static_cast<char*>(args.scratch);
    uint8_t* planes = reinterpret_cast<uint8_t*>(scratch);
    int32_t* sums = reinterpret_cast<int32_t*>(scratch + sums_offset_);
    const void* inner_in[] = {planes, nullptr};
    void* inner_out[] = {sums};
    const ExecArgs inner{inner_in, inner_out, scratch + inner_offset_, args.threads};
    for (int64_t image = 0; image < s_.images; ++image) {
      for (int64_t row = 0; row < s_.out_rows; row += s_.tile) {
        // The last tile is as high as the others and computes some rows again.
        const int64_t first = std::min(row, s_.out_rows - s_.tile);
        SplitTile(in + image * s_.in_rows * s_.in_row(), first, planes, args.threads);
        QNNRT_RETURN_IF_ERROR(inner_->Run(inner));
        uint16_t* to = out + (image * s_.out_rows + first) * s_.out_row();
        if (rests_.empty()) {
          JoinTile(sums, to, args.threads);
        } else {
          int64_t* inputs = reinterpret_cast<int64_t*>(scratch + inputs_offset_);
          SumInputs(planes, inputs, args.threads);
          JoinTile(sums, inputs, to, args.threads);
        }
      }
    }
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return inner_offset_ + inner_->ScratchBytes(); }
  bool ReadsInput(size_t i) const override { return i == 0; }
  const char* Name() const override { return name_.c_str(); }
  size_t WeightBytes() const override { return inner_->WeightBytes() + constants_->size(); }

 private:
  Split16(const Shape16& shape) : s_(shape) {}
  void SplitTile(const uint16_t* in, int64_t first, uint8_t* planes, const Threads& threads) const;
  void JoinTile(const int32_t* sums, uint16_t* out, const Threads& threads) const;
  // With rests: `inputs` are what SumInputs wrote, of every pixel of the padded tile and group.
  void SumInputs(const uint8_t* planes, int64_t* inputs, const Threads& threads) const;
  int64_t SumWindow(const int64_t* inputs, size_t pixel, size_t group) const;
  void JoinTile(const int32_t* sums, const int64_t* inputs, uint16_t* out,
                const Threads& threads) const;
  Status Constants(const Node& node, const KernelOptions& options, const SignedWeights& as_signed);

  const Shape16 s_;
  KernelPtr inner_;
  std::string name_;
  uint16_t flip_ = 0;
  uint8_t zero_high_ = 0, zero_low_ = 0;  // of the number that stands for 0
  int32_t in_offset_ = 0;                 // of the unsigned numbers
  Requantize to_{};
  // For each output channel: what belongs to the sum beside the products of the bytes, and the
  // scale of the sum in steps of the output.
  SharedBytes constants_;
  std::vector<double> rests_;  // by output channel; empty when there are none
  size_t sums_offset_ = 0, inputs_offset_ = 0, inner_offset_ = 0;
  decltype(PickIsa<SplitRun>()) split_ = PickIsa<SplitRun>();
  decltype(PickIsa<JoinRun>()) join_ = PickIsa<JoinRun>();
  decltype(PickIsa<JoinRestRun>()) join_rest_ = PickIsa<JoinRestRun>();
  decltype(PickIsa<SumRun>()) sum_ = PickIsa<SumRun>();
};

void Split16::SplitTile(const uint16_t* in, int64_t first, uint8_t* planes,
                        const Threads& threads) const {
  const int64_t rows = s_.TileIn(), row_bytes = s_.padded_row();
  const size_t grain = static_cast<size_t>(std::max<int64_t>(1, 32768 / row_bytes));
  threads.For(static_cast<size_t>(rows), grain, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      uint8_t* high = planes + static_cast<int64_t>(r) * row_bytes;
      uint8_t* low = high + rows * row_bytes;
      const int64_t y = first * s_.stride_h - s_.top + static_cast<int64_t>(r);
      const bool inside = y >= 0 && y < s_.in_rows;
      if (!inside || s_.left != 0 || s_.padded_width > s_.in_width) {
        std::memset(high, zero_high_, static_cast<size_t>(row_bytes));
        std::memset(low, zero_low_, static_cast<size_t>(row_bytes));
      }
      if (!inside) continue;
      // A stride may leave pixels behind the last window that are not read: they are cut.
      const int64_t width = std::clamp<int64_t>(s_.padded_width - s_.left, 0, s_.in_width);
      split_(in + y * s_.in_row(), high + s_.left * s_.cin, low + s_.left * s_.cin,
             static_cast<size_t>(width * s_.cin), flip_);
    }
  });
}

void Split16::JoinTile(const int32_t* sums, uint16_t* out, const Threads& threads) const {
  const size_t pixels = static_cast<size_t>(s_.tile * s_.out_width);
  const size_t channels = static_cast<size_t>(s_.cout);
  const double* constants = static_cast<const double*>(constants_->data());
  const int32_t* low = sums + pixels * channels;
  threads.For(pixels, std::max<size_t>(1, 16384 / channels), [&](size_t begin, size_t end) {
    for (size_t p = begin * channels; p < end * channels; p += channels) {
      join_(sums + p, low + p, constants, constants + channels, out + p, channels, to_);
    }
  });
}

void Split16::SumInputs(const uint8_t* planes, int64_t* inputs, const Threads& threads) const {
  const size_t channels = static_cast<size_t>(s_.cin / s_.group);
  const size_t sums = static_cast<size_t>(s_.TileIn() * s_.padded_width * s_.group);
  const uint8_t* low = planes + s_.TileIn() * s_.padded_row();
  threads.For(sums, std::max<size_t>(1, 65536 / channels), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      inputs[i] = sum_(planes + i * channels, low + i * channels, channels);
    }
  });
}

int64_t Split16::SumWindow(const int64_t* inputs, size_t pixel, size_t group) const {
  const int64_t y = static_cast<int64_t>(pixel) / s_.out_width * s_.stride_h;
  const int64_t x = static_cast<int64_t>(pixel) % s_.out_width * s_.stride_w;
  int64_t sum = 0;
  for (int64_t ky = 0; ky < s_.kernel_h; ++ky) {
    const int64_t row = (y + ky * s_.dilation_h) * s_.padded_width + x;
    for (int64_t kx = 0; kx < s_.kernel_w; ++kx) {
      sum += inputs[(row + kx * s_.dilation_w) * s_.group + static_cast<int64_t>(group)];
    }
  }
  return sum;
}

void Split16::JoinTile(const int32_t* sums, const int64_t* inputs, uint16_t* out,
                       const Threads& threads) const {
  const size_t pixels = static_cast<size_t>(s_.tile * s_.out_width);
  const size_t groups = static_cast<size_t>(s_.group);
  const size_t channels = static_cast<size_t>(s_.cout);
  const size_t part = channels / groups;
  const double* constants = static_cast<const double*>(constants_->data());
  const int32_t* low = sums + pixels * channels;
  threads.For(pixels, std::max<size_t>(1, 16384 / channels), [&](size_t begin, size_t end) {
    for (size_t p = begin; p < end; ++p) {
      for (size_t g = 0; g < groups; ++g) {
        const size_t c = g * part, at = p * channels + c;
        join_rest_(sums + at, low + at, constants + c, constants + channels + c, rests_.data() + c,
                   static_cast<double>(SumWindow(inputs, p, g)), out + at, part, to_);
      }
    }
  });
}

bool IsWide(const Tensor& tensor) {
  return (tensor.dtype == QNN_DATATYPE_UFIXED_POINT_16 ||
          tensor.dtype == QNN_DATATYPE_SFIXED_POINT_16) &&
         tensor.quantization.axis < 0 && tensor.quantization.scales.size() == 1;
}

int32_t UnsignedOffset(const Tensor& tensor) {
  const int32_t flip = tensor.dtype == QNN_DATATYPE_SFIXED_POINT_16 ? 32768 : 0;
  return tensor.quantization.offsets[0] - flip;
}

Status Split16::Constants(const Node& node, const KernelOptions& options,
                          const SignedWeights& as_signed) {
  const Tensor& weights = *node.inputs[1];
  const Tensor* bias = Bias(node);
  const size_t channels = static_cast<size_t>(s_.cout);
  const double in_scale = node.inputs[0]->quantization.scales[0];
  const double out_scale = node.outputs[0]->quantization.scales[0];
  const auto fill = [&](void* data) {
    double* constants = static_cast<double*>(data);
    std::vector<int64_t> sums(channels);
    const int8_t* w = weights.data_as<int8_t>();
    s_.order.ForRuns(weights.elements(), [&](uint64_t channel, uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) sums[channel] += w[i];
    });
    for (size_t c = 0; c < channels; ++c) {
      const double scale = in_scale * as_signed.scales[c];
      sums[c] += s_.depth() * as_signed.rests[c];
      constants[c] = static_cast<double>(in_offset_ * sums[c]);
      constants[channels + c] = scale / out_scale;
      if (bias == nullptr) continue;
      const Quantization& q = bias->quantization;
      const double b =
          bias->data_as<int32_t>()[c] + static_cast<double>(q.offsets[q.axis < 0 ? 0 : c]);
      // A bias in steps of the sum, as it should be, is added as the integer that it is.
      const double steps = q.scales[q.axis < 0 ? 0 : c] / scale;
      constants[c] += std::abs(steps - 1) < 1e-4 ? b : b * steps;
    }
    return Status::Ok();
  };
  QNNRT_ASSIGN_OR_RETURN(constants_, PackWeights(options, 2 * channels * sizeof(double),
                                                 "constants and factors of 16-bit sums", fill));
  return Status::Ok();
}

// The weights as signed integers around 0.
Result<std::unique_ptr<Tensor>> Shifted(const Tensor& weights, const ChannelOrder& order,
                                        const SignedWeights& as_signed) {
  auto shifted = std::make_unique<Tensor>(weights);
  shifted->dtype = QNN_DATATYPE_SFIXED_POINT_8;
  // Where the store has what became of them, nobody reads them here.
  const bool absent = weights.data->data() == nullptr;
  const bool plain = weights.dtype == shifted->dtype &&
                     std::all_of(as_signed.shifts.begin(), as_signed.shifts.end(),
                                 [](int32_t shift) { return shift == 0; });
  if (absent || plain) return shifted;
  shifted->data = AlignedBytes::Make(weights.bytes());
  if (!shifted->data) return OutOfMemory();
  WriteShifted(weights, order, as_signed.shifts, static_cast<int8_t*>(shifted->data->data()));
  return shifted;
}

// The primitive for one tile. `node` has the weights that Shifted made.
Result<KernelPtr> MakeInner(const Node& node, const KernelOptions& options, const Shape16& s) {
  Tensor in, out;
  in.dtype = QNN_DATATYPE_UINT_8;
  out.dtype = QNN_DATATYPE_INT_32;
  Node inner;
  inner.type = node.type;
  inner.name = node.name;
  MemoryDesc src, dst, weights_any, weights_lie;
  weights_lie = MemoryDesc::Strided(s.weight_dims, s.weight_strides, dnnl_s8);
  weights_any = MemoryDesc::Any(s.weight_dims, dnnl_s8);
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  if (s.product) {
    in.shape = {u32(2 * s.tile), u32(s.cin)};
    out.shape = {u32(2 * s.tile), u32(s.cout)};
    src = MemoryDesc::Dense({2 * s.tile, s.cin}, dnnl_u8);
    dst = MemoryDesc::Dense({2 * s.tile, s.cout}, dnnl_s32);
  } else {
    in.shape = {2, u32(s.TileIn()), u32(s.padded_width), u32(s.cin)};
    out.shape = {2, u32(s.tile), u32(s.out_width), u32(s.cout)};
    src = ChannelLast(in, dnnl_u8);
    dst = ChannelLast(out, dnnl_s32);
  }
  inner.inputs = {&in, node.inputs[1]};
  inner.outputs = {&out};
  const double work = static_cast<double>(out.elements()) * static_cast<double>(s.depth());
  Problem problem{inner, ThreadsForIntegers(inner, options, work), {}, &dst, options.weights};
  problem.args = {{DNNL_ARG_SRC, Arg::kIn, 0, &src},
                  {DNNL_ARG_WEIGHTS, Arg::kIn, 1, &weights_lie},
                  {DNNL_ARG_DST, Arg::kOut, 0, &dst}};
  const Dims strides{s.stride_h, s.stride_w}, gaps{s.dilation_h - 1, s.dilation_w - 1}, none{0, 0};
  const Api& api = TheApi();
  return MakePrimitiveKernel(
      problem, [&](dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr) {
        if (s.product) {
          return api.matmul_primitive_desc_create(desc, api.engine, src.get(), weights_any.get(),
                                                  nullptr, dst.get(), attr);
        }
        return api.convolution_forward_primitive_desc_create(
            desc, api.engine, dnnl_forward_inference, dnnl_convolution_direct, src.get(),
            weights_any.get(), nullptr, dst.get(), strides.data(), gaps.data(), none.data(),
            none.data(), attr);
      });
}

Result<KernelPtr> Split16::Make(const Node& node, const KernelOptions& options, Shape16 s) {
  const Tensor& in = *node.inputs[0];
  const Tensor& weights = *node.inputs[1];
  const Tensor& out = *node.outputs[0];
  const Tensor* bias = Bias(node);
  if (!IsWide(in) || !IsWide(out) || !weights.is_static() || !node.post_ops.empty() ||
      (bias != nullptr && (!bias->is_static() || bias->dtype != QNN_DATATYPE_SFIXED_POINT_32)) ||
      !HasIntegerProducts()) {
    return KernelPtr();
  }
  const std::optional<SignedWeights> as_signed = AsSigned(weights, s.order);
  if (!as_signed) return KernelPtr();
  const double work = static_cast<double>(out.elements()) * static_cast<double>(s.depth());
  const int32_t zero = -UnsignedOffset(in);
  if (s.depth() < kLeastDepth || s.depth() > kMostDepth || work < kLeastWork ||
      (s.padded && (zero < 0 || zero > 65535))) {
    return KernelPtr();
  }
  const int64_t bytes = kTileBytes * std::max(options.threads, 1);
  const int64_t pixels = std::max(bytes / (8 * s.cout), kTilePixels);
  const int64_t most = std::max<int64_t>(1, std::min(s.out_rows, pixels / s.out_width));
  const int64_t tiles = (s.out_rows + most - 1) / most;
  s.tile = (s.out_rows + tiles - 1) / tiles;

  std::unique_ptr<Split16> kernel(new Split16(s));
  Node shifted = node;
  QNNRT_ASSIGN_OR_RETURN(const std::unique_ptr<Tensor> signed_weights,
                         Shifted(weights, s.order, *as_signed));
  shifted.inputs[1] = signed_weights.get();
  QNNRT_ASSIGN_OR_RETURN(kernel->inner_, MakeInner(shifted, options, s));
  // What it reads at run time is not what was shifted.
  if (!kernel->inner_ || kernel->inner_->ReadsInput(1)) return KernelPtr();
  kernel->name_ = std::string(kernel->inner_->Name()) + " on bytes";
  kernel->flip_ = in.dtype == QNN_DATATYPE_SFIXED_POINT_16 ? 0x8000 : 0;
  kernel->in_offset_ = UnsignedOffset(in);
  kernel->zero_high_ = static_cast<uint8_t>(zero >> 8);
  kernel->zero_low_ = static_cast<uint8_t>(zero);
  const FixedRange range = RangeOf(out.dtype, out.quantization.bitwidth);
  const int32_t offset = out.quantization.offsets[0];
  kernel->to_ = {static_cast<double>(range.low + offset), static_cast<double>(range.high + offset),
                 offset};
  QNNRT_RETURN_IF_ERROR(kernel->Constants(shifted, options, *as_signed));
  kernel->sums_offset_ = Aligned(static_cast<size_t>(2 * s.TileIn() * s.padded_row()));
  kernel->inputs_offset_ = kernel->sums_offset_ +
                           Aligned(static_cast<size_t>(2 * s.tile * s.out_row()) * sizeof(int32_t));
  kernel->inner_offset_ = kernel->inputs_offset_;
  if (as_signed->has_rest()) {
    kernel->rests_.assign(as_signed->rests.begin(), as_signed->rests.end());
    const int64_t inputs = s.TileIn() * s.padded_width * s.group;
    kernel->inner_offset_ += Aligned(static_cast<size_t>(inputs) * sizeof(int64_t));
  }
  return KernelPtr(std::move(kernel));
}

Result<KernelPtr> MakeConv16(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const ConvGeometry g, ReadConv(node));
  Shape16 s;
  s.images = g.batch;
  s.in_rows = g.in[1], s.out_rows = g.out[1];
  s.in_width = g.in[2], s.out_width = g.out[2];
  s.cin = g.cin, s.cout = g.cout, s.group = g.group;
  s.kernel_h = g.kernel[1], s.kernel_w = g.kernel[2];
  s.stride_h = g.stride[1], s.stride_w = g.stride[2];
  s.dilation_h = g.dilation[1], s.dilation_w = g.dilation[2];
  s.top = g.pad_before[1], s.left = g.pad_before[2];
  s.padded_width = (s.out_width - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1;
  s.padded = g.pad_before != ConvGeometry::Dims{} || g.pad_after != ConvGeometry::Dims{};
  s.order.channels = s.cout;
  s.order.axis = 3;
  const int64_t cin = g.cin_per_group(), cout = g.cout_per_group();
  s.weight_dims = {cout, cin, s.kernel_h, s.kernel_w};
  s.weight_strides = {1, g.cout, s.kernel_w * cin * g.cout, cin * g.cout};
  if (g.group > 1) {
    s.weight_dims.insert(s.weight_dims.begin(), g.group);
    s.weight_strides.insert(s.weight_strides.begin(), cout);
  }
  return Split16::Make(node, options, s);
}

Result<KernelPtr> MakeProduct16(const Node& node, const KernelOptions& options) {
  const std::optional<MatMulShape> shape =
      node.type == "MatMul" ? ReadMatMulShape(node) : ReadFullyConnectedShape(node);
  if (!shape || shape->dst.size() != 2 || node.Bool("transpose_in0")) return KernelPtr();
  const int32_t rank = static_cast<int32_t>(node.inputs[1]->shape.size());
  const bool inmost = shape->weight_strides[1] == 1;  // the output channel
  Shape16 s;
  s.product = true;
  s.in_rows = s.out_rows = shape->dst[0];
  s.cin = shape->src[1];
  s.cout = s.order.channels = shape->dst[1];
  s.order.axis = rank - (inmost ? 1 : 2);
  s.order.inner = inmost ? 1 : static_cast<uint64_t>(s.cin);
  s.weight_dims = shape->weights;
  s.weight_strides = shape->weight_strides;
  return Split16::Make(node, options, s);
}

}  // namespace

Result<KernelPtr> MakeSplit16(const Node& node, const KernelOptions& options) {
  if (!IsWide(*node.inputs[0])) return KernelPtr();
  if (node.type == "Conv2d") return MakeConv16(node, options);
  if (node.type == "FullyConnected" || node.type == "MatMul") return MakeProduct16(node, options);
  return KernelPtr();
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
