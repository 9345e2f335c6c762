#include "graph/passes/scaled_product.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "abi/qnn_errors.h"
#include "ops/rules.h"
#include "ops/strided_copy.h"

namespace qnnrt {

uint64_t ChannelStride(const Node& node, uint32_t channels) {
  if (!node.HasInput(1) || !IsStaticFloat(node.inputs[1]) || !node.post_ops.empty()) return 0;
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || !def->sums_products()) return 0;
  const Shape& w = node.inputs[1]->shape;
  const size_t axis = OutputAxis(*def, node);
  return w[axis] == channels ? Product(w, axis + 1, w.size()) : 0;
}

bool HasPlainBias(const Node& node) {
  return !node.HasInput(2) ||
         (IsStaticFloat(node.inputs[2]) && node.inputs[2]->dtype == node.inputs[1]->dtype);
}

namespace {

// Times the scale of each one's channel: `stride` of them lie beside each other, then come those of
// the next channel.
void ScaleChannels(float* w, size_t count, const std::vector<float>& scale, size_t stride,
                   const Threads& threads) {
  constexpr size_t kGrain = size_t{1} << 16;  // floats
  const size_t channels = scale.size(), row = stride == 1 ? channels : stride;
  threads.For(count / row, std::max<size_t>(1, kGrain / row), [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      float* const to = w + r * row;
      if (stride == 1) {
        for (size_t i = 0; i < row; ++i) to[i] *= scale[i];
      } else {
        const float factor = scale[r % channels];
        for (size_t i = 0; i < row; ++i) to[i] *= factor;
      }
    }
  });
}

// Floats that are scaled when a kernel packs them: there is one copy of them then, and what is
// packed already for another graph needs none.
class ScaledData final : public ByteSource {
 public:
  ScaledData(std::shared_ptr<const AlignedBytes> data, std::vector<float> scale, size_t stride,
             std::optional<uint64_t> scope, const Threads& threads)
      : data_(std::move(data)),
        scale_(std::move(scale)),
        stride_(stride),
        scope_(scope),
        threads_(threads) {}

  Digest Hash(const Threads& threads) const override {
    const Digest& data = data_->digest(threads);
    std::vector<uint64_t> text(data.begin(), data.end());
    text.push_back(stride_);
    text.push_back(scale_.size());
    const size_t words = text.size();
    text.resize(words + (scale_.size() + 1) / 2);
    std::memcpy(text.data() + words, scale_.data(), scale_.size() * sizeof(float));
    Digest digest = DigestOf(text.data(), text.size() * sizeof(uint64_t));
    digest[2] ^= text.size() << 1 | 1;  // no such text is taken for a constant's bytes
    return digest;
  }

  void Write(void* to) const override {
    if (!data_->WriteUnread(to)) ParallelCopy(threads_, to, data_->data(), data_->size());
    ScaleChannels(static_cast<float*>(to), data_->size() / sizeof(float), scale_, stride_,
                  threads_);
  }

  std::optional<uint64_t> scope() const override { return scope_; }

 private:
  const std::shared_ptr<const AlignedBytes> data_;
  const std::vector<float> scale_;
  const size_t stride_;
  const std::optional<uint64_t> scope_;
  const Threads threads_;
};

}  // namespace

const Tensor* ScaledWeights(NodeGraph* graph, const Tensor& w, const std::vector<float>& scale,
                            uint64_t stride, const Threads& threads) {
  if (std::all_of(scale.begin(), scale.end(), [](float s) { return s == 1.0f; })) return &w;
  if (w.dtype == QNN_DATATYPE_FLOAT_32) {
    auto data = AlignedBytes::Later(
        w.bytes(), std::make_unique<ScaledData>(w.data, scale, stride, graph->scope, threads));
    if (data == nullptr) return nullptr;
    return graph->NewStatic(w.name, w.dtype, w.shape, std::move(data));
  }
  std::vector<float> weights = StaticFloats(w);
  ScaleChannels(weights.data(), weights.size(), scale, stride, threads);
  return graph->NewStatic(w.name, w.dtype, w.shape, weights);
}

Status ScaleWeights(NodeGraph* graph, Node* node, const Affine& map, uint64_t stride,
                    const Threads& threads) {
  uint32_t channels = static_cast<uint32_t>(map.scale.size());
  const Tensor& w = *node->inputs[1];
  std::vector<float> bias(channels, 0.0f);
  if (node->HasInput(2)) bias = StaticFloats(*node->inputs[2]);
  for (uint32_t c = 0; c < channels; ++c) bias[c] = bias[c] * map.scale[c] + map.shift[c];
  const Tensor* new_weights = ScaledWeights(graph, w, map.scale, stride, threads);
  Tensor* new_bias = graph->NewStatic(w.name + ".bias", w.dtype, {channels}, bias);
  if (new_weights == nullptr || new_bias == nullptr) {
    return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for the weights of '%s'",
                 node->name.c_str());
  }
  if (new_weights != &w) graph->Replaced(&w);
  if (node->HasInput(2)) graph->Replaced(node->inputs[2]);
  node->inputs.resize(3);
  node->inputs[1] = new_weights;
  node->inputs[2] = new_bias;
  return Status::Ok();
}

namespace {

// A static operand that is one number, or one number for each of the last axis.
std::optional<std::vector<float>> PerChannel(const Tensor* tensor, uint32_t channels) {
  if (!IsStaticFloat(tensor)) return std::nullopt;
  uint64_t count = tensor->elements();
  if (count != 1 && count != channels) return std::nullopt;
  if (count == channels && channels != 1 &&
      (tensor->shape.empty() || tensor->shape.back() != channels)) {
    return std::nullopt;
  }
  std::vector<float> values = StaticFloats(*tensor);
  if (values.size() == 1) values.assign(channels, values[0]);
  return values;
}

}  // namespace

std::optional<Affine> AsAffine(const Node& node, size_t* input) {
  if (node.outputs.empty() || node.outputs[0] == nullptr || node.outputs[0]->shape.empty() ||
      !node.post_ops.empty()) {
    return std::nullopt;
  }
  uint32_t channels = node.outputs[0]->shape.back();
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || def->linear == OpDef::kNotLinear) return std::nullopt;
  Affine map;
  *input = 0;
  if (def->linear == OpDef::kMultiplyAdd) {
    auto scale = PerChannel(node.inputs[1], channels);
    if (!scale) return std::nullopt;
    map.scale = *scale;
    map.shift.assign(channels, 0.0f);
    if (node.HasInput(2)) {
      auto shift = PerChannel(node.inputs[2], channels);
      if (!shift) return std::nullopt;
      map.shift = *shift;
    }
    return map;
  }
  const bool subtract = def->linear == OpDef::kSubtract;
  size_t constant = IsStaticFloat(node.inputs[1]) ? 1 : 0;
  if (subtract && constant == 0) return std::nullopt;
  *input = 1 - constant;
  if (node.inputs[*input]->shape != node.outputs[0]->shape) return std::nullopt;
  auto values = PerChannel(node.inputs[constant], channels);
  if (!values) return std::nullopt;
  map.scale.assign(channels, 1.0f);
  map.shift.assign(channels, 0.0f);
  if (def->linear == OpDef::kMultiply) {
    map.scale = *values;
  } else {
    for (uint32_t c = 0; c < channels; ++c) map.shift[c] = subtract ? -(*values)[c] : (*values)[c];
  }
  return map;
}

}  // namespace qnnrt
