// y = x * scale + shift with one static pair a channel, in whichever op it is written
// (OpDef::linear), goes into the weights and bias of the convolution or matrix product before it
// (OpDef::weights_axis), or merges with a Batchnorm before it. A factor of all elements goes
// further up, to the product that it finds behind reshapes, transposes and other products.
#include <algorithm>
#include <cmath>
#include <optional>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "graph/passes/fold_factors.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

struct Affine {
  std::vector<float> scale, shift;  // one value a channel
};

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

// The node as an affine map of one input: which input, and the map. Nothing when it is not one.
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

// Where a producer keeps its output channels: the stride between two of them in the weights.
// 0: not foldable.
uint64_t ChannelStride(const Node& node, uint32_t channels) {
  if (!node.HasInput(1) || !IsStaticFloat(node.inputs[1]) || !node.post_ops.empty()) return 0;
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || !def->sums_products()) return 0;
  const Shape& w = node.inputs[1]->shape;
  const size_t axis = OutputAxis(*def, node);
  return w[axis] == channels ? Product(w, axis + 1, w.size()) : 0;
}

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

// The weights of a node times a scale; what they are where it is one everywhere. Null: no memory.
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
  node->inputs.resize(3);
  node->inputs[1] = new_weights;
  node->inputs[2] = new_bias;
  return Status::Ok();
}

Status MergeBatchnorm(NodeGraph* graph, Node* node, const Affine& first, const Affine& second) {
  size_t channels = first.scale.size();
  std::vector<float> scale(channels), shift(channels);
  for (size_t c = 0; c < channels; ++c) {
    scale[c] = first.scale[c] * second.scale[c];
    shift[c] = first.shift[c] * second.scale[c] + second.shift[c];
  }
  Qnn_DataType_t type = node->inputs[1]->dtype;
  Shape shape{static_cast<uint32_t>(channels)};
  Tensor* w = graph->NewStatic(node->name + ".scale", type, shape, scale);
  Tensor* b = graph->NewStatic(node->name + ".shift", type, shape, shift);
  if (w == nullptr || b == nullptr) return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory");
  node->inputs.resize(3);
  node->inputs[1] = w;
  node->inputs[2] = b;
  return Status::Ok();
}

// A bias that is computed, or of another type than the weights, cannot be folded.
bool HasPlainBias(const Node& node) {
  return !node.HasInput(2) ||
         (IsStaticFloat(node.inputs[2]) && node.inputs[2]->dtype == node.inputs[1]->dtype);
}

}  // namespace

Status FoldScales(NodeGraph* graph, const Threads& threads, int* changes) {
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    Node& node = graph->nodes[i];
    size_t input = 0;
    std::optional<Affine> map = AsAffine(node, &input);
    if (!map) continue;
    const Tensor* x = node.inputs[input];
    if (!graph->IsPrivate(x)) continue;
    Node& producer = graph->nodes[graph->Producer(x)];
    if (producer.outputs.size() != 1 || x->shape != node.outputs[0]->shape ||
        x->dtype != node.outputs[0]->dtype) {
      continue;
    }
    uint32_t channels = static_cast<uint32_t>(map->scale.size());
    uint64_t stride = ChannelStride(producer, channels);
    if (stride != 0 && HasPlainBias(producer)) {
      QNNRT_RETURN_IF_ERROR(ScaleWeights(graph, &producer, *map, stride, threads));
    } else if (producer.type == QNN_OP_BATCHNORM) {
      size_t unused;
      std::optional<Affine> before = AsAffine(producer, &unused);
      if (!before) continue;
      QNNRT_RETURN_IF_ERROR(MergeBatchnorm(graph, &producer, *before, *map));
    } else {
      continue;
    }
    // The producer takes over the node's output; the node goes.
    producer.outputs[0] = node.outputs[0];
    node = Node{};
    dead[i] = true;
    ++*changes;
    graph->Absorbed(x, static_cast<size_t>(&producer - graph->nodes.data()));
  }
  graph->Erase(dead);
  return Status::Ok();
}

namespace {

// What a node multiplies or divides all of one computed tensor by; nothing when it does something
// else.
std::optional<float> AsFactor(const Node& node, const Tensor** of) {
  const OpDef* def = FindOp(node.type);
  const bool divides = node.type == QNN_OP_ELEMENT_WISE_DIVIDE;
  if (def == nullptr || (def->linear != OpDef::kMultiply && !divides) || !node.post_ops.empty() ||
      node.outputs.size() != 1 || node.outputs[0] == nullptr) {
    return std::nullopt;
  }
  const size_t constant = divides || IsStaticFloat(node.inputs[1]) ? 1 : 0;
  const Tensor *number = node.inputs[constant], *x = node.inputs[1 - constant];
  if (!IsStaticFloat(number) || number->elements() != 1 || x->is_static() ||
      x->shape != node.outputs[0]->shape || x->dtype != node.outputs[0]->dtype) {
    return std::nullopt;
  }
  *of = x;
  const float value = StaticFloats(*number)[0], factor = divides ? 1.0f / value : value;
  return std::isnormal(factor) ? std::optional<float>(factor) : std::nullopt;
}

// Whether a factor of the result is one of input 0.
bool PassesFactor(const Node& node) {
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || !node.post_ops.empty() || node.outputs.size() != 1) return false;
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  if (in.dtype != out.dtype || !IsFloat(in.dtype)) return false;
  if ((def->flags & OpDef::kAlias) != 0 || node.type == QNN_OP_TRANSPOSE) return true;
  return node.type == QNN_OP_MAT_MUL && !node.inputs[1]->is_static() && !node.HasInput(2);
}

// The product of static weights that can take a factor of the tensor; null: none.
Node* Scalable(NodeGraph* graph, const Tensor* tensor) {
  while (graph->IsPrivate(tensor)) {
    Node* node = &graph->nodes[static_cast<size_t>(graph->Producer(tensor))];
    if (node->outputs.size() == 1 && !tensor->shape.empty() &&
        ChannelStride(*node, tensor->shape.back()) != 0 && HasPlainBias(*node)) {
      return node;
    }
    if (!PassesFactor(*node)) return nullptr;
    tensor = node->inputs[0];
  }
  return nullptr;
}

Status ScaleAll(NodeGraph* graph, Node* product, float factor, const Threads& threads) {
  const size_t channels = product->outputs[0]->shape.back();
  const uint64_t stride = ChannelStride(*product, static_cast<uint32_t>(channels));
  const Affine map{std::vector<float>(channels, factor), std::vector<float>(channels, 0.0f)};
  if (product->HasInput(2)) return ScaleWeights(graph, product, map, stride, threads);
  product->inputs[1] = ScaledWeights(graph, *product->inputs[1], map.scale, stride, threads);
  if (product->inputs[1] != nullptr) return Status::Ok();
  return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for the weights of '%s'",
               product->name.c_str());
}

}  // namespace

Status FoldFactors(NodeGraph* graph, const Threads& threads, int* changes) {
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const Tensor* x = nullptr;
    const std::optional<float> factor = AsFactor(graph->nodes[i], &x);
    if (!factor) continue;
    Node* product = Scalable(graph, x);
    if (product == nullptr) continue;
    QNNRT_RETURN_IF_ERROR(ScaleAll(graph, product, *factor, threads));
    // What wrote the scaled tensor writes the node's output; the node goes.
    const size_t last = static_cast<size_t>(graph->Producer(x));
    graph->nodes[last].outputs[0] = graph->nodes[i].outputs[0];
    graph->nodes[i] = Node{};
    dead[i] = true;
    ++*changes;
    graph->Absorbed(x, last);
  }
  graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
