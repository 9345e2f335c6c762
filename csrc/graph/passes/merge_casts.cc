// Casts from fixed-point numbers to INT_64, or back, by way of an INT_32 that nobody else sees: one
// Cast. Clients write them for a device without 64-bit integers, and mean the real numbers, which
// is what the vendor's library makes of the two.
#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"

namespace qnnrt {
namespace {

bool IsCast(const Node& node) {
  return node.type == QNN_OP_CAST && node.package_op == nullptr && node.HasInput(0) &&
         node.HasOutput(0);
}

// Fixed point of fewer bits than the integers on the way.
bool IsShort(Qnn_DataType_t type) { return IsFixed(type) && ElementSize(type) < 4; }

}  // namespace

Status MergeCasts(NodeGraph* graph, int* changes) {
  std::vector<bool> dead(graph->nodes.size(), false);
  for (Node& node : graph->nodes) {
    if (!IsCast(node) || node.inputs[0]->dtype != QNN_DATATYPE_INT_32 ||
        !graph->IsPrivate(node.inputs[0]))
      continue;
    const int before = graph->Producer(node.inputs[0]);
    if (before < 0 || !IsCast(graph->nodes[static_cast<size_t>(before)])) continue;
    const Tensor* from = graph->nodes[static_cast<size_t>(before)].inputs[0];
    const Tensor& to = *node.outputs[0];
    const bool out = IsShort(from->dtype) && to.dtype == QNN_DATATYPE_INT_64;
    const bool in = from->dtype == QNN_DATATYPE_INT_64 && IsShort(to.dtype);
    if (!out && !in) continue;
    node.inputs[0] = from;
    dead[static_cast<size_t>(before)] = true;
    ++*changes;
  }
  if (*changes > 0) graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
