// Softmax, LogSoftmax, LayerNorm, Lrn.
#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>

namespace qnnrt::onednn {

Result<KernelPtr> MakeSoftmax(const Node& node, const KernelOptions& options) {
  const Tensor& in = *node.inputs[0];
  const Tensor& out = *node.outputs[0];
  const dnnl_data_type_t type = CommonType({&in, &out});
  if (type == dnnl_data_type_undef || node.Float("beta", 1) != 1) return KernelPtr();
  const int rank = static_cast<int>(in.shape.size());
  const int axis = static_cast<int>(node.Int("axis", rank - 1));
  const auto algorithm = node.type == "Softmax" ? dnnl_softmax_accurate : dnnl_softmax_log;
  const MemoryDesc layout = MemoryDesc::Dense(Dims(in.shape.begin(), in.shape.end()), type);
  Problem problem{node,
                  ThreadsFor(node, options, 0),
                  {{DNNL_ARG_SRC, Arg::kIn, 0, &layout}, {DNNL_ARG_DST, Arg::kOut, 0, &layout}},
                  &layout};
  const Api& api = TheApi();
  return MakePrimitiveKernel(
      problem, [&](dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr) {
        return api.softmax_forward_primitive_desc_create(desc, api.engine, dnnl_forward_inference,
                                                         algorithm, layout.get(), layout.get(),
                                                         axis, attr);
      });
}

Result<KernelPtr> MakeLayerNorm(const Node& node, const KernelOptions& options) {
  const Tensor& in = *node.inputs[0];
  const Tensor& out = *node.outputs[0];
  const Tensor* gamma = node.HasInput(1) ? node.inputs[1] : nullptr;
  const Tensor* beta = node.HasInput(2) ? node.inputs[2] : nullptr;
  const dnnl_data_type_t type = CommonType({&in, &out});
  if (type == dnnl_data_type_undef) return KernelPtr();
  // oneDNN takes these two in float only.
  if (gamma != nullptr && gamma->dtype != QNN_DATATYPE_FLOAT_32) return KernelPtr();
  if (beta != nullptr && beta->dtype != QNN_DATATYPE_FLOAT_32) return KernelPtr();
  // The axes must be the last ones: they are one dimension then.
  Dims axes = node.Ints("axes");
  std::sort(axes.begin(), axes.end());
  const int64_t rank = static_cast<int64_t>(in.shape.size());
  int64_t columns = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return KernelPtr();
    columns *= in.shape[static_cast<size_t>(axes[i])];
  }
  if (axes.empty()) return KernelPtr();
  const MemoryDesc layout =
      MemoryDesc::Dense({static_cast<int64_t>(in.elements()) / columns, columns}, type);
  const MemoryDesc row = MemoryDesc::Dense({columns}, dnnl_f32);
  unsigned flags = dnnl_normalization_flags_none;
  Problem problem{node,
                  ThreadsFor(node, options, 0),
                  {{DNNL_ARG_SRC, Arg::kIn, 0, &layout}, {DNNL_ARG_DST, Arg::kOut, 0, &layout}},
                  &layout};
  if (gamma != nullptr) {
    flags |= dnnl_use_scale;
    problem.args.push_back({DNNL_ARG_SCALE, Arg::kIn, 1, &row});
  }
  if (beta != nullptr) {
    flags |= dnnl_use_shift;
    problem.args.push_back({DNNL_ARG_SHIFT, Arg::kIn, 2, &row});
  }
  const float epsilon = node.Float("epsilon", 1e-3f);
  const Api& api = TheApi();
  return MakePrimitiveKernel(problem,
                             [&](dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr) {
                               return api.layer_normalization_forward_primitive_desc_create(
                                   desc, api.engine, dnnl_forward_inference, layout.get(),
                                   layout.get(), nullptr, epsilon, flags, attr);
                             });
}

Result<KernelPtr> MakeLrn(const Node& node, const KernelOptions& options) {
  const Tensor& in = *node.inputs[0];
  const Tensor& out = *node.outputs[0];
  const dnnl_data_type_t type = CommonType({&in, &out});
  if (type == dnnl_data_type_undef || in.shape.size() != 4 || node.Int("region", 0) != 0) {
    return KernelPtr();
  }
  const int64_t size = 2 * node.Int("radius") + 1;
  // oneDNN divides alpha by the size of the window, QNN does not.
  const float alpha = node.Float("alpha", 1) * static_cast<float>(size);
  const float beta = node.Float("beta", 0.5f), bias = node.Float("bias", 1);
  const MemoryDesc layout = ChannelLast(in, type);
  const double work = static_cast<double>(size) * static_cast<double>(in.elements());
  Problem problem{node,
                  ThreadsFor(node, options, work),
                  {{DNNL_ARG_SRC, Arg::kIn, 0, &layout}, {DNNL_ARG_DST, Arg::kOut, 0, &layout}},
                  &layout};
  const Api& api = TheApi();
  return MakePrimitiveKernel(
      problem, [&](dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr) {
        return api.lrn_forward_primitive_desc_create(desc, api.engine, dnnl_forward_inference,
                                                     dnnl_lrn_across_channels, layout.get(),
                                                     layout.get(), size, alpha, beta, bias, attr);
      });
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
