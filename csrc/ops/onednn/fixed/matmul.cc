// MatMul and FullyConnected in 8 bits.
#include "ops/onednn/conv_parts.h"
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

bool HoldsZero(const Tensor& tensor) {
  const int64_t zero = -int64_t{tensor.quantization.offsets[0]};
  const FixedRange range = RangeOf(tensor.dtype, 0);
  return zero >= range.low && zero <= range.high;
}

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

Result<KernelPtr> Make(const Node& node, const KernelOptions& options,
                       const std::optional<MatMulShape>& shape, bool columns_outside,
                       MakePart again) {
  const Tensor& in = *node.inputs[0];
  const Tensor& weights = *node.inputs[1];
  const Tensor* bias = Bias(node);
  const Tensor& out = *node.outputs[0];
  const dnnl_data_type_t type = WholeEncoding8(in), out_type = WholeEncoding8(out);
  if (!shape || type == dnnl_data_type_undef || out_type == dnnl_data_type_undef ||
      (bias != nullptr && !bias->is_static()) || !HasIntegerProducts() ||
      shape->src.back() > kMostProducts || shape->work() < kLeastWork ||
      !StepsFitFloats(node, weights.quantization.scales, static_cast<double>(shape->src.back()))) {
    return KernelPtr();
  }
  const MatMulShape& o = *shape;
  const int threads = ThreadsForIntegers(node, options, o.work());
  if (o.src_strides.back() == 1) {
    QNNRT_ASSIGN_OR_RETURN(KernelPtr parts, MakeRowParts(node, options, threads, again));
    if (parts) return parts;
  }
  const size_t rank = o.dst.size();
  const Dims bias_dims = o.bias();
  ProductLayouts l(o, MemoryDesc::Strided(o.src, o.src_strides, type),
                   MemoryDesc::Dense(o.dst, out_type), dnnl_s8);
  l.bias = MemoryDesc::Dense(bias_dims, dnnl_f32);
  IntegerProblem integers;
  const auto make = [&] { return MakeProduct(node, options, threads, o, l, &integers); };

  const uint64_t matrix = static_cast<uint64_t>(o.src.back() * o.dst.back());
  if (weights.is_static() && weights.elements() == matrix) {
    ChannelOrder order;
    order.channels = o.dst.back();
    order.axis = static_cast<int32_t>(weights.shape.size()) - (columns_outside ? 2 : 1);
    order.inner = columns_outside ? static_cast<uint64_t>(o.src.back()) : 1;
    const std::optional<SignedWeights> as_signed = AsSigned(weights, order);
    const bool rest = as_signed && as_signed->has_rest();
    // With one scale, oneDNN's zero point of the weights is faster than a second pass.
    const bool second_pass = rest && weights.quantization.axis >= 0 && HasDenseRows(o);
    if (as_signed && (!rest || second_pass)) {
      QNNRT_RETURN_IF_ERROR(
          FoldEncodings(node, options, order, *as_signed, bias_dims, 1 << (rank - 1), &integers));
      if (!rest) {
        LimitOutput(node, &integers);
        return make();
      }
      l.dst = MemoryDesc::Dense(o.dst, dnnl_f32);
      QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, make());
      if (!kernel) return kernel;
      return MakeWithRest(std::move(kernel), node, AsConvolution(o), *as_signed, 0);
    }
  }
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
  QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, make());
  if (!kernel || shift == 0 || weights.is_static()) return kernel;
  return MakeSigned(std::move(kernel), node);
}

}  // namespace

Result<KernelPtr> MakeFixedFullyConnected(const Node& node, const KernelOptions& options) {
  return Make(node, options, ReadFullyConnectedShape(node), true, MakeFixedFullyConnected);
}

Result<KernelPtr> MakeFixedMatMul(const Node& node, const KernelOptions& options) {
  return Make(node, options, ReadMatMulShape(node), node.Bool("transpose_in1"), MakeFixedMatMul);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
