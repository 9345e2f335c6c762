// MatMul and FullyConnected in 8 bits.
#include "ops/onednn/conv_parts.h"
#include "ops/onednn/fixed/byte_rows.h"
#include "ops/onednn/fixed/encodings.h"
#include "ops/onednn/shapes.h"
#include "ops/onednn/staged.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {
namespace {

// Multiply-adds below which converting to floats and back is done before oneDNN has started.
constexpr double kLeastWork = 20000;
// Sums of more products might not fit 32 bits.
constexpr int64_t kMostProducts = 65536;
// The same where both numbers of a product may be 255 from their zeros.
constexpr int64_t kMostWithZero = INT32_MAX / (255 * 255);

bool HasDenseRows(const MatMulShape& o) {
  return o.dst.size() == 2 && o.src_strides == Dims{o.src[1], 1};
}

// A product of rows as a 1x1 convolution of a column of pixels.
ConvGeometry AsConvolution(const MatMulShape& o) {
  ConvGeometry g;
  g.batch = 1;
  g.cin = o.src[1];
  g.cout = o.dst[1];
  g.in[1] = g.out[1] = o.src[0];
  return g;
}

// Constant weights that are signed, with a rest or without (encodings.h).
std::optional<SignedWeights> FoldedWeights(const Node& node, const MatMulShape& o,
                                           const ChannelOrder& order) {
  const Tensor& weights = *node.inputs[1];
  const uint64_t matrix = static_cast<uint64_t>(o.src.back() * o.dst.back());
  if (!weights.is_static() || weights.elements() != matrix) return std::nullopt;
  std::optional<SignedWeights> as_signed = AsSigned(weights, order);
  // With one scale, oneDNN's zero point of the weights is faster than a second pass.
  const bool second_pass = weights.quantization.axis >= 0 && HasDenseRows(o);
  if (as_signed && as_signed->has_rest() && !second_pass) return std::nullopt;
  return as_signed;
}

Result<KernelPtr> Make(const Node& node, const KernelOptions& options,
                       const std::optional<MatMulShape>& shape, bool columns_outside,
                       MakePart again, MakePart pixels, bool is_pixels) {
  const Tensor& in = *node.inputs[0];
  const Tensor& weights = *node.inputs[1];
  const Tensor* bias = Bias(node);
  const Tensor& out = *node.outputs[0];
  const dnnl_data_type_t type = WholeEncoding8(in), out_type = WholeEncoding8(out);
  if (!shape || type == dnnl_data_type_undef || out_type == dnnl_data_type_undef ||
      (bias != nullptr && !bias->is_static()) || shape->src.back() > kMostProducts ||
      (!is_pixels && shape->work() < kLeastWork) ||
      !StepsFitFloats(node, weights.quantization.scales, static_cast<double>(shape->src.back()))) {
    return KernelPtr();
  }
  const MatMulShape& o = *shape;
  ChannelOrder order;
  order.channels = o.dst.back();
  order.axis = static_cast<int32_t>(weights.shape.size()) - (columns_outside ? 2 : 1);
  order.inner = columns_outside ? static_cast<uint64_t>(o.src.back()) : 1;
  const std::optional<SignedWeights> folded = FoldedWeights(node, o, order);
  const std::optional<ByteLine> rows = ByteLineOf(o, columns_outside);
  if (folded && rows && TakesByteLine(node, *rows, *folded)) {
    return MakeByteRows(node, options, *rows, order, *folded);
  }
  if (Load() == nullptr || !HasIntegerProducts()) return KernelPtr();
  const int threads = ThreadsForIntegers(node, options, o.work());
  const bool as_conv = folded && (is_pixels || IsFasterAsConv(node, o, false));
  if (o.src_strides.back() == 1 && !is_pixels) {
    QNNRT_ASSIGN_OR_RETURN(KernelPtr parts,
                           MakeRowParts(node, options, threads, as_conv, as_conv ? pixels : again));
    if (parts) return parts;
  }
  const size_t rank = o.dst.size();
  IntegerProblem integers;
  if (folded) {
    const bool rest = folded->has_rest();
    const dnnl_data_type_t to = rest ? dnnl_f32 : out_type;
    const auto fold = [&](const Dims& bias_dims, int scales_mask) -> Status {
      QNNRT_RETURN_IF_ERROR(
          FoldEncodings(node, options, order, *folded, bias_dims, scales_mask, &integers));
      if (!rest) LimitOutput(node, &integers);
      return Status::Ok();
    };
    KernelPtr kernel;
    if (as_conv && threads == 1) {
      const ConvShape c = AsConvShape(o);
      ProductLayouts l(c, PixelsInLine(o.src[0], c.cin, type), PixelsInLine(o.src[0], c.cout, to),
                       dnnl_s8);
      l.bias = MemoryDesc::Dense({c.cout}, dnnl_f32);
      QNNRT_RETURN_IF_ERROR(fold({c.cout}, 1));
      QNNRT_ASSIGN_OR_RETURN(kernel, MakeProduct(node, options, threads, c, l, &integers));
    } else {
      ProductLayouts l(o, MemoryDesc::Strided(o.src, o.src_strides, type),
                       MemoryDesc::Dense(o.dst, to), dnnl_s8);
      l.bias = MemoryDesc::Dense(o.bias(), dnnl_f32);
      QNNRT_RETURN_IF_ERROR(fold(o.bias(), 1 << (rank - 1)));
      QNNRT_ASSIGN_OR_RETURN(kernel, MakeProduct(node, options, threads, o, l, &integers));
    }
    if (!kernel || !rest) return kernel;
    return MakeWithRest(std::move(kernel), node, AsConvolution(o), *folded, 0);
  }
  const Dims bias_dims = o.bias();
  ProductLayouts l(o, MemoryDesc::Strided(o.src, o.src_strides, type),
                   MemoryDesc::Dense(o.dst, out_type), dnnl_s8);
  l.bias = MemoryDesc::Dense(bias_dims, dnnl_f32);
  LimitOutput(node, &integers);

  const dnnl_data_type_t weights_type = WholeEncoding8(weights);
  if (weights_type == dnnl_data_type_undef || !HoldsZero(in) || !HoldsZero(weights)) {
    return KernelPtr();
  }
  const int32_t shift = weights_type == dnnl_u8 ? 128 : 0;
  const bool weights_have_zero = weights.quantization.offsets[0] + shift != 0;
  if (weights_have_zero && o.src.back() > kMostWithZero) return KernelPtr();
  QNNRT_RETURN_IF_ERROR(
      KeepEncodings(node, options, weights.quantization.offsets[0] + shift, bias_dims, &integers));
  if (weights.is_static()) integers.weights = ShiftedBy(weights, -shift);
  integers.as_stored = shift == 0;
  QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, MakeProduct(node, options, threads, o, l, &integers));
  if (!kernel || shift == 0 || weights.is_static()) return kernel;
  return MakeSigned(std::move(kernel), node);
}

template <bool pixels>
Result<KernelPtr> MakeDense(const Node& node, const KernelOptions& options) {
  return Make(node, options, ReadFullyConnectedShape(node), true, MakeDense<false>, MakeDense<true>,
              pixels);
}

template <bool pixels>
Result<KernelPtr> MakeMatrix(const Node& node, const KernelOptions& options) {
  return Make(node, options, ReadMatMulShape(node), node.Bool("transpose_in1"), MakeMatrix<false>,
              MakeMatrix<true>, pixels);
}

}  // namespace

Result<KernelPtr> MakeFixedFullyConnected(const Node& node, const KernelOptions& options) {
  return MakeDense<false>(node, options);
}

Result<KernelPtr> MakeFixedMatMul(const Node& node, const KernelOptions& options) {
  return MakeMatrix<false>(node, options);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
