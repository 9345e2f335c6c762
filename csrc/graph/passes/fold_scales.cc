// y = x * scale + shift with one static pair a channel, in whichever op it is written
// (OpDef::linear), goes into the weights and bias of the convolution or matrix product before it
// (OpDef::weights_axis), or of those whose channels are concatenated before it, or merges with a
// Batchnorm before it.
#include <optional>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "graph/passes/scaled_product.h"

namespace qnnrt {
namespace {

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

bool Foldable(const Node& producer, uint32_t channels) {
  if (producer.outputs.size() != 1) return false;
  if (ChannelStride(producer, channels) != 0 && HasPlainBias(producer)) return true;
  size_t unused;
  return producer.type == QNN_OP_BATCHNORM && AsAffine(producer, &unused).has_value();
}

Status FoldInto(NodeGraph* graph, Node* producer, const Affine& map, const Threads& threads) {
  const uint64_t stride = ChannelStride(*producer, static_cast<uint32_t>(map.scale.size()));
  if (stride != 0 && HasPlainBias(*producer))
    return ScaleWeights(graph, producer, map, stride, threads);
  size_t unused;
  return MergeBatchnorm(graph, producer, *AsAffine(*producer, &unused), map);
}

// Which nodes make the channels that a Concat puts beside each other; none: not all can be folded.
std::vector<Node*> FoldableParts(NodeGraph* graph, const Node& concat) {
  const int64_t rank = static_cast<int64_t>(concat.outputs[0]->shape.size());
  std::vector<Node*> parts;
  if (concat.type != QNN_OP_CONCAT || !concat.post_ops.empty() || concat.package_op != nullptr ||
      concat.Int("axis") != rank - 1) {
    return parts;
  }
  for (const Tensor* t : concat.inputs) {
    Node* part = graph->IsPrivate(t) ? &graph->nodes[graph->Producer(t)] : nullptr;
    if (part == nullptr || t->dtype != concat.outputs[0]->dtype ||
        !Foldable(*part, t->shape.back()))
      return {};
    parts.push_back(part);
  }
  return parts;
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
    if (Foldable(producer, static_cast<uint32_t>(map->scale.size()))) {
      QNNRT_RETURN_IF_ERROR(FoldInto(graph, &producer, *map, threads));
    } else {
      const std::vector<Node*> parts = FoldableParts(graph, producer);
      if (parts.empty()) continue;
      ptrdiff_t from = 0;
      for (Node* part : parts) {
        const ptrdiff_t end = from + static_cast<ptrdiff_t>(part->outputs[0]->shape.back());
        const auto cut = [&](const std::vector<float>& of) {
          return std::vector<float>(of.begin() + from, of.begin() + end);
        };
        QNNRT_RETURN_IF_ERROR(FoldInto(graph, part, {cut(map->scale), cut(map->shift)}, threads));
        from = end;
      }
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

}  // namespace qnnrt
