// A factor of all elements goes into the weights of the product that it finds further up, behind
// reshapes, transposes and other products.
#include "graph/passes/fold_factors.h"

#include <cmath>
#include <optional>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "graph/passes/scaled_product.h"
#include "ops/rules.h"

namespace qnnrt {
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
  const Tensor* w = product->inputs[1];
  product->inputs[1] = ScaledWeights(graph, *w, map.scale, stride, threads);
  if (product->inputs[1] != nullptr && product->inputs[1] != w) graph->Replaced(w);
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
