// Convolutions of 8-bit activations with static 8-bit weights.
#include "ops/isa.h"
#include "ops/onednn/conv_parts.h"
#include "ops/onednn/fixed/byte_channels.h"
#include "ops/onednn/fixed/byte_rows.h"
#include "ops/onednn/fixed/encodings.h"
#include "ops/onednn/shapes.h"
#include "ops/onednn/staged.h"
#include "ops/tiles.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>

namespace qnnrt::onednn {
namespace {

// Multiply-adds below which converting to floats and back is done before oneDNN has started.
constexpr double kLeastConvWork = 4000;
// A copy with so much padding is not worth its memory.
constexpr double kMostPadding = 64;
// Of a row that is copied to have it: what stays in a second cache.
constexpr uint64_t kMostRowBytes = 256 * 1024;
// Sums of more products might not fit 32 bits.
constexpr double kMostConvProducts = 65536;

ChannelOrder OrderOf(const ConvShape& c, const Tensor& weights) {
  ChannelOrder order;
  order.channels = c.cout;
  order.axis = static_cast<int32_t>(weights.shape.size()) - 1;
  if (c.transposed) {
    order.groups = static_cast<uint64_t>(c.groups);
    order.rows = static_cast<uint64_t>(c.cin / c.groups);
  }
  return order;
}

bool HasPadding(const ConvShape& c) {
  const auto any = [](const Dims& pads) {
    return std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  };
  return any(c.before) || any(c.after);
}

// Makes the padding of the convolution a part of its input; false when that is too large.
bool MovePadding(ConvShape* c, Shape* input) {
  double grown = 1;  // how many times as large the input becomes
  for (size_t i = 0; i < c->spatial; ++i) {
    uint32_t& dim = (*input)[i + 1];
    const int64_t size = c->before[i] + dim + c->after[i];
    if (size > INT32_MAX) return false;
    grown *= static_cast<double>(size) / dim;
    dim = static_cast<uint32_t>(size);
    c->before[i] = c->after[i] = 0;
  }
  return grown <= kMostPadding;
}

// Whether padding is made a part of the input although it is the integer 0: of a row of pixels
// oneDNN has a description, and code, for each number of pixels that a tap may see, 600 of 400
// pixels with three taps. A temporal convolutional network of 18 such nodes takes 6.2 MiB instead
// of 9.8, at the same speed (VNNI; with tiles it was not measured).
bool PadsRow(const ConvShape& c, const Tensor& in) {
  const size_t last = c.spatial - 1;
  if (c.groups != 1 || HasTiles() || in.elements() > kMostRowBytes) return false;
  for (size_t i = 0; i < last; ++i) {
    if (in.shape[i + 1] != 1 || c.before[i] != 0 || c.after[i] != 0) return false;
  }
  return c.before[last] + c.after[last] <= int64_t{in.shape[c.spatial]};
}

// Whether the types are those of an 8-bit convolution with constant weights.
bool Suits(const Node& node) {
  const Tensor* bias = Bias(node);
  return WholeEncoding8(*node.inputs[0]) != dnnl_data_type_undef &&
         WholeEncoding8(*node.outputs[0]) != dnnl_data_type_undef && node.inputs[1]->is_static() &&
         (bias == nullptr || bias->is_static());
}

// Without VNNI, the elements of an input from which on a convolution by channel takes less time so
// than through floats, which then lie outside of the second cache: 0.81 to 0.92 of it at 56x56
// pixels of 112 channels, 1.2 at 28x28 of 136.
constexpr uint64_t kLeastByChannel = 256 * 1024;

// Whether oneDNN adds up the integers as they are. Without VNNI it adds two products of bytes in 16
// bits, which may be too few; but of a channel alone it multiplies one by one, in 32 bits.
bool IsExact(const Node& node, const ConvShape& c) {
  if (HasIntegerProducts()) return true;
  const bool by_channel = !c.transposed && c.cin == c.groups && c.cout == c.groups;
  return by_channel && CpuIsa() == Isa::kAvx2 && node.inputs[0]->elements() >= kLeastByChannel;
}

Result<KernelPtr> Make(const Node& node, const KernelOptions& options, bool transposed) {
  const Tensor& in = *node.inputs[0];
  const Tensor& weights = *node.inputs[1];
  const Tensor& out = *node.outputs[0];
  if (!Suits(node)) return KernelPtr();
  std::optional<ConvShape> c = ReadConvShape(node, transposed);
  if (!c || c->work < kLeastConvWork) return KernelPtr();
  const ChannelOrder order = OrderOf(*c, weights);
  const std::optional<SignedWeights> as_signed = AsSigned(weights, order);
  const double products = static_cast<double>(weights.elements()) / static_cast<double>(c->cout);
  if (!as_signed || products > kMostConvProducts ||
      !StepsFitFloats(node, as_signed->scales, products)) {
    return KernelPtr();
  }

  if (TakesByteChannels(node, *c, *as_signed)) {
    return MakeByteChannels(node, options, *c, order, *as_signed);
  }
  const std::optional<ByteLine> line = ByteLineOf(*c, node);
  if (line && TakesByteLine(node, *line, *as_signed)) {
    return MakeByteRows(node, options, *line, order, *as_signed);
  }
  if (Load() == nullptr || !IsExact(node, *c)) return KernelPtr();
  const int threads = ThreadsForIntegers(node, options, c->work);
  QNNRT_ASSIGN_OR_RETURN(KernelPtr parts, MakeParts(node, options, *c, threads, MakeFixedConv));
  if (parts) return parts;

  if (transposed && as_signed->has_rest()) return KernelPtr();
  // Per channel, the sums of inputs cost what the convolution does.
  const bool rest = as_signed->has_rest();
  if (rest && c->cin == c->groups) return KernelPtr();
  // Padding stands for a real zero, which oneDNN writes as the integer 0.
  const int64_t zero = ZeroCode(in);
  const bool pad = !transposed && HasPadding(*c) && (zero != 0 || PadsRow(*c, in));
  if (pad && !HoldsZero(in)) return KernelPtr();
  const Dims before = c->before, after = c->after;
  Tensor padded;
  padded.shape = in.shape;
  if (pad && !MovePadding(&*c, &padded.shape)) return KernelPtr();

  ProductLayouts l(*c, ChannelLast(padded, WholeEncoding8(in)),
                   ChannelLast(out, rest ? dnnl_f32 : WholeEncoding8(out)), dnnl_s8);
  l.bias = MemoryDesc::Dense({c->cout}, dnnl_f32);
  IntegerProblem integers;
  // What a transposed convolution adds up differs from pixel to pixel.
  if (transposed) {
    QNNRT_RETURN_IF_ERROR(KeepZero(DNNL_ARG_SRC, in.quantization.offsets[0], &integers));
  }
  QNNRT_RETURN_IF_ERROR(FoldEncodings(node, options, order, *as_signed, {c->cout},
                                      c->groups == 1 ? 1 : 3, &integers));
  if (!rest) LimitOutput(node, &integers);
  QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, MakeProduct(node, options, threads, *c, l, &integers));
  if (!kernel) return kernel;
  if (pad) {
    kernel = MakePadded(std::move(kernel), node, before, after, static_cast<uint8_t>(zero));
  }
  if (!rest) return kernel;
  QNNRT_ASSIGN_OR_RETURN(const ConvGeometry geometry, ReadConv(node));
  return MakeWithRest(std::move(kernel), node, geometry, *as_signed, zero);
}

}  // namespace

Result<KernelPtr> MakeFixedConv(const Node& node, const KernelOptions& options) {
  return Make(node, options, false);
}

Result<KernelPtr> MakeFixedTransposeConv(const Node& node, const KernelOptions& options) {
  return Make(node, options, true);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
