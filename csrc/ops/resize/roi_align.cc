// RoiAlign over [N, H, W, C]: each region, (x1, y1, x2, y2) in pixels of the original image,
// becomes a grid of bins, each the mean of samples that are interpolated linearly.
#include <algorithm>
#include <cmath>

#include "abi/qnn_op_names.h"
#include "ops/movement/gather.h"
#include "ops/movement/indices.h"

namespace qnnrt {
namespace {

constexpr float kMostSamples = 4096;  // of a bin along a dim, whatever size the data says it has

class RoiAlignKernel final : public Kernel {
 public:
  explicit RoiAlignKernel(const Node& node)
      : reader_(node.inputs[2]->dtype),
        in_(node.inputs[0]->shape),
        out_(node.outputs[0]->shape),
        samples_{node.Int(QNN_OP_ROI_ALIGN_PARAM_NUM_SAMPLES_Y),
                 node.Int(QNN_OP_ROI_ALIGN_PARAM_NUM_SAMPLES_X)},
        aligned_(node.Bool(QNN_OP_ROI_ALIGN_PARAM_ALIGNED)) {
    const std::vector<float> ratio = node.Floats(QNN_OP_ROI_ALIGN_PARAM_IMG_SIZE_RATIO);
    for (size_t d = 0; d < 2; ++d) scale_[d] = 1.0f / ratio[d];
  }

  Status Run(const ExecArgs& args) override {
    FirstBad bad;
    args.threads.For(out_[0], 1, [&](size_t begin, size_t end) {
      for (size_t roi = begin; roi < end; ++roi) {
        const int64_t image = reader_.At(args.in[2], roi, in_[0]);
        if (image < 0) return bad.Note(roi);
        Region(args, roi, static_cast<size_t>(image));
      }
    });
    if (!bad.any()) return {};
    return BadIndex(reader_.At(args.in[2], bad.position()), bad.position(), 0, in_[0]);
  }

 private:
  // Two neighbours along a dim of the image and the share of the second one.
  struct Sample {
    size_t low, high;
    float share;
    bool inside;
  };
  Sample SampleAt(float at, size_t dim) const {
    const float size = static_cast<float>(in_[1 + dim]);
    if (!(at >= -1.0f && at <= size)) return {0, 0, 0.0f, false};
    at = std::min(std::max(at, 0.0f), size - 1.0f);
    const size_t low = static_cast<size_t>(at);
    const size_t high = std::min<size_t>(low + 1, in_[1 + dim] - 1);
    return {low, high, at - static_cast<float>(low), true};
  }

  void Region(const ExecArgs& args, size_t roi, size_t image) const {
    const float* box = static_cast<const float*>(args.in[1]) + roi * 4;
    const size_t channels = in_[3];
    const float* x = static_cast<const float*>(args.in[0]) + image * in_[1] * in_[2] * channels;
    float* out = static_cast<float*>(args.out[0]) + roi * out_[1] * out_[2] * channels;
    float start[2], bin[2];
    int64_t samples[2];
    for (size_t d = 0; d < 2; ++d) {
      const float offset = aligned_ ? 0.5f : 0.0f;
      start[d] = box[1 - d] * scale_[d] - offset;
      float size = box[3 - d] * scale_[d] - offset - start[d];
      if (!aligned_) size = std::max(size, 1.0f);
      bin[d] = size / static_cast<float>(out_[1 + d]);
      const float pixels = bin[d] > 0 ? std::min(std::ceil(bin[d]), kMostSamples) : 0.0f;
      samples[d] = samples_[d] > 0 ? samples_[d] : static_cast<int64_t>(pixels);
    }
    for (size_t at = 0; at < size_t{out_[1]} * out_[2]; ++at, out += channels) {
      std::fill_n(out, channels, 0.0f);
      const size_t index[2] = {at / out_[2], at % out_[2]};
      const auto sample = [&](size_t d, int64_t i) {
        const float step = (static_cast<float>(i) + 0.5f) * bin[d] / static_cast<float>(samples[d]);
        return SampleAt(start[d] + static_cast<float>(index[d]) * bin[d] + step, d);
      };
      const float each = 1.0f / static_cast<float>(std::max<int64_t>(1, samples[0] * samples[1]));
      for (int64_t i = 0; i < samples[0]; ++i) {
        const Sample h = sample(0, i);
        for (int64_t j = 0; j < samples[1]; ++j) {
          const Sample w = sample(1, j);
          if (!h.inside || !w.inside) continue;
          const float* top = x + h.low * in_[2] * channels;
          const float* bottom = x + h.high * in_[2] * channels;
          const float a = (1 - h.share) * (1 - w.share) * each, b = (1 - h.share) * w.share * each;
          const float c = h.share * (1 - w.share) * each, d = h.share * w.share * each;
          for (size_t k = 0; k < channels; ++k) {
            out[k] += a * top[w.low * channels + k] + b * top[w.high * channels + k] +
                      c * bottom[w.low * channels + k] + d * bottom[w.high * channels + k];
          }
        }
      }
    }
  }

  const IndexReader reader_;
  const Shape in_, out_;
  const int64_t samples_[2];
  const bool aligned_;
  float scale_[2];
};

Status RoiAlignShape(const Node& node, std::vector<Shape>* outputs) {
  const Shape &in = node.inputs[0]->shape, &out = node.outputs[0]->shape;
  const uint32_t regions = node.inputs[1]->shape[0];
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 1, "regions", {regions, 4}));
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 2, "indices of images", {regions}));
  QNNRT_RETURN_IF_ERROR(CheckStaticIndices(node, 2, 0, in[0]));
  if (in[1] == 0 || in[2] == 0) return Invalid("the input has no pixels");
  const std::vector<float> ratio = node.Floats(QNN_OP_ROI_ALIGN_PARAM_IMG_SIZE_RATIO);
  if (ratio.size() != 2 || !(ratio[0] > 0) || !(ratio[1] > 0)) {
    return Invalid("param 'img_size_ratio' must hold two positive numbers");
  }
  for (const char* param :
       {QNN_OP_ROI_ALIGN_PARAM_NUM_SAMPLES_Y, QNN_OP_ROI_ALIGN_PARAM_NUM_SAMPLES_X}) {
    QNNRT_RETURN_IF_ERROR(
        CheckRange(param, node.Int(param), -1, static_cast<int64_t>(kMostSamples)));
  }
  (*outputs)[0] = {regions, out[1], out[2], in[3]};  // how many bins is the client's choice
  return {};
}

Result<KernelPtr> MakeRoiAlign(const Node& node, const KernelOptions&) {
  return KernelPtr(std::make_unique<RoiAlignKernel>(node));
}

}  // namespace

OpDef RoiAlignOp() {
  const char* samples = "of a bin; -1: as many as it has pixels";
  OpDef def = {QNN_OP_ROI_ALIGN,
               {{"in[0]", types::kFloat, PortSpec::kOne, -1, 4, 4},
                {"in[1]", types::kFloat, PortSpec::kOne, 0, 2, 2},
                {"in[2]", types::kIndex, PortSpec::kOne, -1, 1, 1}},
               {{"out[0]", types::kFloat, PortSpec::kOne, 0, 4, 4}},
               {{QNN_OP_ROI_ALIGN_PARAM_IMG_SIZE_RATIO, ParamSpec::kFloats, Required(),
                 "[2]: height, width of the original image over the input's"},
                {QNN_OP_ROI_ALIGN_PARAM_NUM_SAMPLES_Y, ParamSpec::kInt, Default(-1), samples},
                {QNN_OP_ROI_ALIGN_PARAM_NUM_SAMPLES_X, ParamSpec::kInt, Default(-1), samples},
                {QNN_OP_ROI_ALIGN_PARAM_ALIGNED, ParamSpec::kBool, Default(false),
                 "pixels lie half a pixel off their index"},
                {QNN_OP_ROI_ALIGN_PARAM_ALLOW_INVALID_ROI, ParamSpec::kBool, Default(false),
                 "no effect: regions of no size give 0, or one pixel where not aligned"}},
               RoiAlignShape,
               MakeRoiAlign};
  def.sensitive_inputs = 2;
  return def;
}

}  // namespace qnnrt
