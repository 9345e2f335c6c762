// Nodes that no app output depends on are not worth running; but one that keeps state may end an
// execution early, whoever reads it.
#include <unordered_set>

#include "graph/passes/node_graph.h"
#include "ops/op.h"

namespace qnnrt {

Status RemoveDeadNodes(NodeGraph* graph, int* changes) {
  std::unordered_set<const Tensor*> wanted;
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = graph->nodes.size(); i-- > 0;) {
    const Node& node = graph->nodes[i];
    bool used = KeepsState(node);
    for (const Tensor* t : node.outputs)
      used |= t != nullptr && (t->is_output() || wanted.count(t));
    if (!used) {
      dead[i] = true;
      ++*changes;
      continue;
    }
    for (const Tensor* t : node.inputs) {
      if (t != nullptr) wanted.insert(t);
    }
  }
  graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
