// Nodes that no app output depends on are not worth running; but one that keeps state may end an
// execution early, whoever reads it.
#include "graph/passes/node_graph.h"
#include "ops/op.h"
#include "support/pointer_map.h"

namespace qnnrt {

Status RemoveDeadNodes(NodeGraph* graph, int* changes) {
  PointerMap<bool> wanted;
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = graph->nodes.size(); i-- > 0;) {
    const Node& node = graph->nodes[i];
    bool used = KeepsState(node);
    for (const Tensor* t : node.outputs)
      used |= t != nullptr && (t->is_output() || wanted.Find(t) != nullptr);
    if (!used) {
      dead[i] = true;
      ++*changes;
      continue;
    }
    for (const Tensor* t : node.inputs) {
      if (t != nullptr) wanted.Insert(t);
    }
  }
  graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
