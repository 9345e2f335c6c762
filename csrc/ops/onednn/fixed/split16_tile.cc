#include "ops/onednn/fixed/split16_tile.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include "ops/conv/conv.h"
#include "ops/onednn/shapes.h"

namespace qnnrt::onednn {
namespace {

Result<std::optional<Shape16>> ReadConv16(const Node& node) {
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
  return std::optional<Shape16>(s);
}

std::optional<Shape16> ReadProduct16(const Node& node) {
  const std::optional<MatMulShape> shape =
      node.type == "MatMul" ? ReadMatMulShape(node) : ReadFullyConnectedShape(node);
  if (!shape) return std::nullopt;
  const size_t dims = shape->dst.size();
  const Dims strides(shape->weight_strides.end() - 2, shape->weight_strides.end());
  const Tensor& weights = *node.inputs[1];
  const int32_t rank = static_cast<int32_t>(weights.shape.size());
  const bool inmost = strides[1] == 1;  // the output channel
  Shape16 s;
  s.product = true;
  s.columns = node.Bool("transpose_in0");
  s.in_rows = s.out_rows = shape->dst[dims - 2];
  s.cin = shape->src[dims - 1];
  s.cout = s.order.channels = shape->dst[dims - 1];
  if (weights.elements() != static_cast<uint64_t>(s.cin * s.cout)) return std::nullopt;
  s.images = static_cast<int64_t>(node.outputs[0]->elements()) / (s.out_rows * s.cout);
  s.order.axis = rank - (inmost ? 1 : 2);
  s.order.inner = inmost ? 1 : static_cast<uint64_t>(s.cin);
  s.weight_dims = {s.cin, s.cout};
  s.weight_strides = strides;
  return s;
}

}  // namespace

Result<std::optional<Shape16>> ReadShape16(const Node& node) {
  if (node.type == "Conv2d" || node.type == "DepthWiseConv2d") return ReadConv16(node);
  if (node.type == "FullyConnected" || node.type == "MatMul") return ReadProduct16(node);
  return std::optional<Shape16>();
}

Result<KernelPtr> MakeTileKernel(const Node& node, const KernelOptions& options, const Shape16& s) {
  Tensor in, out;
  in.dtype = s.bytes == dnnl_u8 ? QNN_DATATYPE_UINT_8 : QNN_DATATYPE_INT_8;
  out.dtype = QNN_DATATYPE_INT_32;
  Node inner;
  inner.type = node.type;
  inner.name = node.name;
  MemoryDesc src, dst, weights_any, weights_lie;
  weights_lie = MemoryDesc::Strided(s.weight_dims, s.weight_strides, dnnl_s8);
  weights_any = MemoryDesc::Any(s.weight_dims, dnnl_s8);
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  if (s.product) {
    in.shape = {u32(s.planes * s.tile), u32(s.cin)};
    out.shape = {u32(s.planes * s.tile), u32(s.cout)};
    src = MemoryDesc::Dense({s.planes * s.tile, s.cin}, s.bytes);
    dst = MemoryDesc::Dense({s.planes * s.tile, s.cout}, dnnl_s32);
  } else {
    in.shape = {u32(s.planes), u32(s.TileIn()), u32(s.padded_width), u32(s.cin)};
    out.shape = {u32(s.planes), u32(s.tile), u32(s.out_width), u32(s.cout)};
    src = ChannelLast(in, s.bytes);
    dst = ChannelLast(out, dnnl_s32);
  }
  const Dims window{s.kernel_h, s.kernel_w};
  ConvShape conv{};
  conv.strides = {s.stride_h, s.stride_w};
  conv.gaps = {s.dilation_h - 1, s.dilation_w - 1};
  conv.before = conv.after = {0, 0};
  conv.off_tiles = WrongOnTiles(window, conv.strides);
  if (!s.product &&
      !TakesWindows(in, out, window, conv.strides, conv.gaps, conv.before, conv.after, true))
    return KernelPtr();
  inner.inputs = {&in, node.inputs[1]};
  inner.outputs = {&out};
  const double work = static_cast<double>(out.elements()) * static_cast<double>(s.depth());
  Problem problem{inner, ThreadsForIntegers(inner, options, work), {}, &dst, options.weights};
  problem.args = {{DNNL_ARG_SRC, Arg::kIn, 0, &src},
                  {DNNL_ARG_WEIGHTS, Arg::kIn, 1, &weights_lie},
                  {DNNL_ARG_DST, Arg::kOut, 0, &dst}};
  const Api& api = TheApi();
  return MakePrimitiveKernel(
      problem, [&](dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr) {
        if (s.product) {
          return api.matmul_primitive_desc_create(desc, api.engine, src.get(), weights_any.get(),
                                                  nullptr, dst.get(), attr);
        }
        return conv.Describe(desc, attr, src, weights_any, MemoryDesc(), dst);
      });
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
