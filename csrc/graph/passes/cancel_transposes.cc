// Transposes that compose to nothing, transposes that only move axes of size one (a reshape), and
// reshapes of reshapes. What is left of a chain is at most one node.
#include <numeric>

#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

bool IsTranspose(const Node& node) { return node.type == QNN_OP_TRANSPOSE && KeepsValues(node); }

void MakeReshape(Node* node) {
  node->type = QNN_OP_RESHAPE;
  node->params.clear();
  node->inputs.resize(1);
}

// Axes longer than one keep their order: no byte moves.
bool MovesNothing(const Shape& shape, const std::vector<int64_t>& perm) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (shape[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

void SetPerm(Node* node, const std::vector<int64_t>& perm) {
  node->params.clear();
  SetInts(node, "perm", QNN_DATATYPE_UINT_32, {static_cast<uint32_t>(perm.size())}, perm);
}

}  // namespace

Status CancelTransposes(NodeGraph* graph, int* changes) {
  for (Node& node : graph->nodes) {
    // Read through the producer: it stays for its other readers, or dies for want of them.
    while (true) {
      if (IsTranspose(node) && MovesNothing(node.inputs[0]->shape, node.Ints("perm"))) {
        MakeReshape(&node);
        ++*changes;
      }
      int at = graph->Producer(node.inputs.empty() ? nullptr : node.inputs[0]);
      if (at < 0) break;
      const Node& before = graph->nodes[at];
      bool before_is_nothing =
          IsReshape(before) && before.inputs[0]->shape == before.outputs[0]->shape;
      if (before_is_nothing) {
        node.inputs[0] = before.inputs[0];
      } else if (IsReshape(node) && IsReshape(before)) {
        MakeReshape(&node);
        node.inputs[0] = before.inputs[0];
      } else if (IsTranspose(node) && IsTranspose(before)) {
        std::vector<int64_t> first = before.Ints("perm"), second = node.Ints("perm"), both;
        for (int64_t axis : second) both.push_back(first[axis]);
        SetPerm(&node, both);
        node.inputs[0] = before.inputs[0];
      } else {
        break;
      }
      ++*changes;
    }
  }
  graph->Index();
  // A reshape that changes nothing disappears where its output is no app tensor.
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const Node& node = graph->nodes[i];
    if (!IsReshape(node) || node.outputs[0]->type != QNN_TENSOR_TYPE_NATIVE) continue;
    if (node.inputs[0]->shape != node.outputs[0]->shape) continue;
    if (graph->Uses(node.outputs[0]) == 0) continue;  // dead already
    const Tensor* from = node.outputs[0];
    const Tensor* to = node.inputs[0];
    graph->ReplaceUses(from, to);
    ++*changes;
  }
  graph->Index();
  int removed = 0;
  return RemoveDeadNodes(graph, &removed);
}

}  // namespace qnnrt
