// Conv1d, Conv2d, Conv3d, DepthWiseConv1d, DepthWiseConv2d, TransposeConv2d.
#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <cstring>

namespace qnnrt::onednn {
namespace {

// Multiply-adds below which the portable kernel is done before oneDNN has started.
constexpr double kLeastWork = 4000;

// A spatial param: [spatial] values, or one scalar in the 1-d ops.
Dims Spatial(const Node& node, const char* name, size_t count, int64_t fallback) {
  const Param* param = node.Find(name);
  if (param == nullptr) return Dims(count, fallback);
  if (std::holds_alternative<Tensor>(param->value)) return node.Ints(name);
  return Dims(count, node.Int(name, fallback));
}

struct ConvShape {
  size_t spatial;  // 1, 2 or 3
  int64_t groups, cin, cout;
  bool transposed;  // weights [k.., Cin, Cout/g] instead of [k.., Cin/g, Cout]
};

// QNN's weights as oneDNN's [g, Cout/g, Cin/g, k..].
void WeightLayout(const Tensor& weights, const ConvShape& c, Dims* dims, Dims* strides) {
  const int64_t cout_g = c.cout / c.groups, cin_g = c.cin / c.groups;
  *dims = {c.groups, cout_g, cin_g};
  // Elements at one position of the filter; the group is the outer part of the grouped channel.
  const int64_t plane = c.transposed ? c.cin * cout_g : cin_g * c.cout;
  *strides = c.transposed ? Dims{cin_g * cout_g, 1, cout_g} : Dims{cout_g, 1, c.cout};
  Dims kernel_strides(c.spatial);
  int64_t stride = plane;
  for (size_t i = c.spatial; i-- > 0;) {
    kernel_strides[i] = stride;
    stride *= weights.shape[i];
  }
  for (size_t i = 0; i < c.spatial; ++i) {
    dims->push_back(weights.shape[i]);
    strides->push_back(kernel_strides[i]);
  }
}

Result<KernelPtr> Make(const Node& node, const KernelOptions& options, bool transposed) {
  const Tensor& in = *node.inputs[0];
  const Tensor& weights = *node.inputs[1];
  const Tensor* bias = Bias(node);
  const Tensor& out = *node.outputs[0];
  const dnnl_data_type_t type = CommonType({&in, &weights, bias, &out});
  if (type == dnnl_data_type_undef) return KernelPtr();

  ConvShape c;
  c.spatial = in.shape.size() - 2;
  c.cin = in.shape.back();
  c.cout = out.shape.back();
  c.groups = std::strncmp(node.type.c_str(), "DepthWise", 9) == 0 ? c.cin : node.Int("group", 1);
  c.transposed = transposed;

  const Dims strides = Spatial(node, "stride", c.spatial, 1);
  Dims dilations = Spatial(node, "dilation", c.spatial, 1);
  for (int64_t& d : dilations) d -= 1;  // oneDNN counts the gaps
  const Dims pads = node.Find("pad_amount") ? node.Ints("pad_amount") : Dims(2 * c.spatial, 0);
  if (strides.size() != c.spatial || dilations.size() != c.spatial || pads.size() != 2 * c.spatial)
    return KernelPtr();
  Dims before(c.spatial), after(c.spatial);
  for (size_t i = 0; i < c.spatial; ++i) {
    before[i] = pads[2 * i];
    after[i] = pads[2 * i + 1];
  }

  Dims dims, weight_strides;
  WeightLayout(weights, c, &dims, &weight_strides);
  if (c.groups == 1) {
    dims.erase(dims.begin());
    weight_strides.erase(weight_strides.begin());
  }
  const MemoryDesc src = ChannelLast(in, type);
  const MemoryDesc dst = ChannelLast(out, type);
  const MemoryDesc weights_lie = MemoryDesc::Strided(dims, weight_strides, type);
  const MemoryDesc weights_any = MemoryDesc::Any(dims, type);
  const MemoryDesc bias_md = bias != nullptr ? MemoryDesc::Dense({c.cout}, type) : MemoryDesc();
  const MemoryDesc& weights_md = weights.is_static() ? weights_any : weights_lie;

  double taps = static_cast<double>(weights.elements()) / static_cast<double>(c.cout);
  if (transposed) taps = static_cast<double>(weights.elements()) / static_cast<double>(c.cin);
  const double work = taps * static_cast<double>(transposed ? in.elements() : out.elements());

  if (work < kLeastWork) return KernelPtr();

  Problem problem{node, ThreadsFor(node, options, work), {}, &dst, options.weights};
  problem.args = {{DNNL_ARG_SRC, Arg::kIn, 0, &src},
                  {DNNL_ARG_WEIGHTS, Arg::kIn, 1, &weights_lie},
                  {DNNL_ARG_DST, Arg::kOut, 0, &dst}};
  if (bias != nullptr) problem.args.push_back({DNNL_ARG_BIAS, Arg::kIn, 2, &bias_md});
  const Api& api = TheApi();
  return MakePrimitiveKernel(problem, [&](dnnl_primitive_desc_t* desc,
                                          const_dnnl_primitive_attr_t attr) {
    return transposed ? api.deconvolution_forward_primitive_desc_create(
                            desc, api.engine, dnnl_forward_inference, dnnl_deconvolution_direct,
                            src.get(), weights_md.get(), bias_md.get(), dst.get(), strides.data(),
                            dilations.data(), before.data(), after.data(), attr)
                      : api.convolution_forward_primitive_desc_create(
                            desc, api.engine, dnnl_forward_inference, dnnl_convolution_direct,
                            src.get(), weights_md.get(), bias_md.get(), dst.get(), strides.data(),
                            dilations.data(), before.data(), after.data(), attr);
  });
}

}  // namespace

Result<KernelPtr> MakeConv(const Node& node, const KernelOptions& options) {
  return Make(node, options, false);
}

Result<KernelPtr> MakeTransposeConv(const Node& node, const KernelOptions& options) {
  return Make(node, options, true);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
