#include "graph/passes/scaled_product.h"

#include <algorithm>

#include "abi/qnn_errors.h"
#include "ops/rules.h"

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

// out = w times the scale of each one's channel: `stride` of them lie beside each other, then come
// those of the next channel.
void ScaleChannels(const float* w, float* out, size_t count, const std::vector<float>& scale,
                   size_t stride, const Threads& threads) {
  constexpr size_t kGrain = size_t{1} << 16;  // floats
  const size_t channels = scale.size(), row = stride == 1 ? channels : stride;
  threads.For(count / row, std::max<size_t>(1, kGrain / row), [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      const float* from = w + r * row;
      float* to = out + r * row;
      if (stride == 1) {
        for (size_t i = 0; i < row; ++i) to[i] = from[i] * scale[i];
      } else {
        const float factor = scale[r % channels];
        for (size_t i = 0; i < row; ++i) to[i] = from[i] * factor;
      }
    }
  });
}

}  // namespace

const Tensor* ScaledWeights(NodeGraph* graph, const Tensor& w, const std::vector<float>& scale,
                            uint64_t stride, const Threads& threads) {
  if (std::all_of(scale.begin(), scale.end(), [](float s) { return s == 1.0f; })) return &w;
  if (w.dtype == QNN_DATATYPE_FLOAT_32) {
    auto data = AlignedBytes::Make(w.bytes());
    if (data == nullptr) return nullptr;
    ScaleChannels(w.data_as<float>(), static_cast<float*>(data->data()), w.elements(), scale,
                  stride, threads);
    return graph->NewStatic(w.name, w.dtype, w.shape, std::move(data));
  }
  std::vector<float> weights = StaticFloats(w);
  ScaleChannels(weights.data(), weights.data(), weights.size(), scale, stride, threads);
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

}  // namespace qnnrt
