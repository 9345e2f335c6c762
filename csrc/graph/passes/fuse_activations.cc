// An activation, or the add of a residual, is applied by the node that produces its operand, while
// the values are still in cache: one pass over memory instead of two or three.
#include <algorithm>
#include <optional>

#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/elementwise/activation.h"
#include "ops/op.h"
#include "ops/post_ops.h"

namespace qnnrt {
namespace {

std::optional<PostOp> AsFusable(const Node& node) {
  const OpDef* def = FindOp(node.type);
  if (!node.post_ops.empty() || def == nullptr || def->activation == nullptr) return std::nullopt;
  std::optional<PostOp> op = def->activation(node);
  return op && DefOf(op->activation).fuses ? op : std::nullopt;
}

// The node that writes `tensor`, if it can take `op` as one of `more` post ops and nobody else
// reads the tensor.
Node* Fusable(NodeGraph* graph, const Tensor* tensor, const Tensor* result, const PostOp& op,
              size_t more = 1) {
  if (tensor == nullptr || !graph->IsPrivate(tensor)) return nullptr;
  if (tensor->shape != result->shape || tensor->dtype != result->dtype) return nullptr;
  Node* producer = &graph->nodes[graph->Producer(tensor)];
  // Fixed-point results must stay what they are, bit by bit: there is no rounding in between.
  if (!IsFloat(tensor->dtype) &&
      !(SameEncoding(*tensor, *result) && TakesFixedPostOp(*producer, op))) {
    return nullptr;
  }
  const OpDef* def = FindOp(producer->type);
  bool takes = def != nullptr && (def->flags & OpDef::kPostOps) != 0;
  if (!takes || producer->outputs.size() != 1 || producer->post_ops.size() + more > kMostPostOps)
    return nullptr;
  return producer;
}

bool OnlyActivations(const Node& node) {
  return std::all_of(node.post_ops.begin(), node.post_ops.end(),
                     [](const PostOp& op) { return op.kind == PostOp::Kind::kActivation; });
}

// An activation of tensors that lie beside each other, or of one in another shape, goes to the
// nodes that make them, where all take it.
bool FuseBeforeMove(NodeGraph* graph, Node* node, const PostOp& op) {
  const Tensor* x = node->inputs[0];
  if (op.kind != PostOp::Kind::kActivation || !IsFloat(x->dtype) || !graph->IsPrivate(x) ||
      x->shape != node->outputs[0]->shape || x->dtype != node->outputs[0]->dtype) {
    return false;
  }
  Node& move = graph->nodes[graph->Producer(x)];
  const bool joins = move.type == QNN_OP_CONCAT && move.post_ops.empty();
  if (move.package_op != nullptr || (!joins && !IsReshape(move))) return false;
  std::vector<const Tensor*> moved = move.inputs;
  if (!joins) moved.resize(1);
  std::vector<Node*> parts;
  for (const Tensor* t : moved) {
    parts.push_back(Fusable(graph, t, t, op));
    if (parts.back() == nullptr || t->dtype != x->dtype) return false;
  }
  for (Node* part : parts) part->post_ops.push_back(op);
  move.outputs[0] = node->outputs[0];
  graph->Absorbed(x, static_cast<size_t>(&move - graph->nodes.data()));
  return true;
}

// Heavy producers hide the read of the residual best, so they are asked before other ones.
bool IsHeavy(const Node& node) { return FindOp(node.type)->sums_products(); }

}  // namespace

Status FuseActivations(NodeGraph* graph, int* changes) {
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    Node& node = graph->nodes[i];
    Node* producer = nullptr;
    PostOp op;
    const Tensor* residual = nullptr;
    if (std::optional<PostOp> activation = AsFusable(node)) {
      op = *activation;
      producer = Fusable(graph, node.inputs[0], node.outputs[0], op);
      if (producer == nullptr && FuseBeforeMove(graph, &node, op)) {
        node = Node{};
        dead[i] = true;
        ++*changes;
        continue;
      }
    } else if (node.type == QNN_OP_ELEMENT_WISE_ADD && OnlyActivations(node) &&
               node.inputs[0] != node.inputs[1] && node.inputs[0]->shape == node.inputs[1]->shape) {
      op.kind = PostOp::Kind::kAdd;
      const size_t more = 1 + node.post_ops.size();
      Node* candidates[2] = {Fusable(graph, node.inputs[0], node.outputs[0], op, more),
                             Fusable(graph, node.inputs[1], node.outputs[0], op, more)};
      int which = candidates[1] != nullptr && (candidates[0] == nullptr || !IsHeavy(*candidates[0]))
                      ? 1
                      : 0;
      producer = candidates[which];
      residual = node.inputs[1 - which];
    }
    if (producer == nullptr) continue;
    // An add of its own may write over a state; a post op would read it when that has happened.
    if (residual != nullptr && residual->is_state()) continue;
    if (residual != nullptr) {
      // Behind the op's own ports, so that it is never taken for an omitted bias.
      size_t ports = FindOp(producer->type)->inputs.size();
      if (producer->inputs.size() < ports) producer->inputs.resize(ports, nullptr);
      op.input = static_cast<uint32_t>(producer->inputs.size());
      producer->inputs.push_back(residual);
    }
    producer->post_ops.push_back(op);
    // What an addition had behind it already comes along.
    producer->post_ops.insert(producer->post_ops.end(), node.post_ops.begin(), node.post_ops.end());
    const Tensor* between = producer->outputs[0];
    producer->outputs[0] = node.outputs[0];
    // It moves to its reader's position: by then the residual has been computed too.
    size_t from = static_cast<size_t>(producer - graph->nodes.data());
    graph->nodes[i] = std::move(*producer);
    graph->nodes[from] = Node{};
    dead[from] = true;
    ++*changes;
    graph->Absorbed(between, i);
  }
  graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
