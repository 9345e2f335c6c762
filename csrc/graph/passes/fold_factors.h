// The pass behind SplitProducts that folds factors of whole tensors into weights further up.
#pragma once

#include "graph/passes/node_graph.h"

namespace qnnrt {

Status FoldFactors(NodeGraph* graph, const Threads& threads, int* changes);

}  // namespace qnnrt
