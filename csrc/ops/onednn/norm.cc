// Lrn. The portable LayerNorm is as fast as oneDNN's, Softmax faster than its.
#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {
namespace {

// oneDNN's kernel works on 16 channels at a time; with fewer the portable one is faster.
constexpr uint32_t kLeastLrnChannels = 16;
constexpr int64_t kMostLrnSize = 4096;  // oneDNN has it in 32 bits

}  // namespace

Result<KernelPtr> MakeLrn(const Node& node, const KernelOptions& options) {
  const Tensor& in = *node.inputs[0];
  const Tensor& out = *node.outputs[0];
  const dnnl_data_type_t type = CommonType({&in, &out});
  if (type == dnnl_data_type_undef || in.shape.size() != 4 || node.Int("region") != 0 ||
      in.shape[3] < kLeastLrnChannels) {
    return KernelPtr();
  }
  const int64_t size = 2 * node.Int("radius") + 1;
  if (size > kMostLrnSize || Load() == nullptr) return KernelPtr();
  // oneDNN divides alpha by the size of the window, QNN does not.
  const float alpha = node.Float("alpha") * static_cast<float>(size);
  const float beta = node.Float("beta"), bias = node.Float("bias");
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
