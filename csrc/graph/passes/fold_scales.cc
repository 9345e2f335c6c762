// y = x * scale + shift with one static pair a channel, in whichever op it is written
// (OpDef::linear), goes into the weights and bias of the convolution or matrix product before it
// (OpDef::weights_axis), or merges with a Batchnorm before it.
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

}  // namespace qnnrt
