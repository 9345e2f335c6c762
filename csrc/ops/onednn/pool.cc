// PoolMax2d, PoolAvg2d, PoolMax3d, PoolAvg3d.
#include "ops/pool/pool.h"
#include "ops/onednn/shapes.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>

namespace qnnrt::onednn {
namespace {

// Elements read below which the portable kernel is done before oneDNN has started.
constexpr double kLeastPoolWork = 600;

}  // namespace

Result<KernelPtr> MakePool(const Node& node, const KernelOptions& options) {
  const Tensor& in = *node.inputs[0];
  const Tensor& out = *node.outputs[0];
  const dnnl_data_type_t type = CommonType({&in, &out});
  if (type == dnnl_data_type_undef) return KernelPtr();

  QNNRT_ASSIGN_OR_RETURN(const PoolGeometry geometry, ReadPool(node));
  if (IsImageMean(node, geometry) || TakesMaxPool(node)) return KernelPtr();
  if (type == dnnl_f32 && geometry.channels == 1 && PoolsPlanes(geometry)) return KernelPtr();

  const size_t spatial = in.shape.size() - 2;
  const Dims filter = node.Ints("filter_size");
  const Dims stride = node.Ints("stride");
  const Dims pads = node.Ints("pad_amount");
  if (filter.size() != spatial || stride.size() != spatial || pads.size() != 2 * spatial) {
    return KernelPtr();
  }
  const bool max = node.type.compare(0, 7, "PoolMax") == 0;
  const bool count_pad = !max && node.Bool("count_pad_for_edges");
  Dims before(spatial), after(spatial);
  double window = 1;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t size = in.shape[i + 1];
    const int64_t last_start = (int64_t{out.shape[i + 1]} - 1) * stride[i] - pads[2 * i];
    // Rounded up, the last window ends beyond the padding. That part never counts, but oneDNN would
    // count it as padding. A window with padding only has no value that both would agree on.
    const int64_t end_padding = std::max(pads[2 * i + 1], last_start + filter[i] - size);
    const bool overhang = end_padding > pads[2 * i + 1];
    if (overhang && count_pad) return KernelPtr();
    if (last_start >= size || pads[2 * i] >= filter[i]) return KernelPtr();
    before[i] = pads[2 * i];
    after[i] = end_padding;
    window *= static_cast<double>(filter[i]);
  }
  if (!TakesWindows(in, out, filter, stride, {}, before, after, false)) return KernelPtr();
  const double work = window * static_cast<double>(out.elements());
  if (work < kLeastPoolWork || Load() == nullptr) return KernelPtr();
  const dnnl_alg_kind_t algorithm = max         ? dnnl_pooling_max
                                    : count_pad ? dnnl_pooling_avg_include_padding
                                                : dnnl_pooling_avg_exclude_padding;
  const MemoryDesc src = ChannelLast(in, type);
  const MemoryDesc dst = ChannelLast(out, type);
  const Dims no_dilation(spatial, 0);
  Problem problem{node,
                  ThreadsFor(node, options, work),
                  {{DNNL_ARG_SRC, Arg::kIn, 0, &src}, {DNNL_ARG_DST, Arg::kOut, 0, &dst}},
                  &dst};
  const Api& api = TheApi();
  return MakePrimitiveKernel(
      problem, [&](dnnl_primitive_desc_t* desc, const_dnnl_primitive_attr_t attr) {
        return api.pooling_forward_primitive_desc_create(
            desc, api.engine, dnnl_forward_inference, algorithm, src.get(), dst.get(),
            stride.data(), filter.data(), no_dilation.data(), before.data(), after.data(), attr);
      });
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
