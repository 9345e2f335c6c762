// Executions that a step terminates early (6038): which of the later steps still run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "abi/qnn_errors.h"
#include "ir/node.h"
#include "support/status.h"

namespace qnnrt {

// A step whose node has no result yet (Buffer) terminates the execution. Every other stateful node
// must still see each execution, or the states would run apart: those that do not depend on that
// step are run, with the nodes that they need.
class EarlyTermination {
 public:
  // In the order in which they run; step_nodes: the node of each step, as not every one has a step.
  EarlyTermination(const std::vector<Node>& nodes, const std::vector<size_t>& step_nodes);

  // The steps after `step`, which terminated the execution; run(step) runs one of them. Gives 6038,
  // or another error of a step. Allocates nothing.
  template <typename Run>
  Status Finish(size_t step, const Run& run) {
    std::fill(waits_.begin(), waits_.end(), false);
    waits_[step_nodes_[step]] = true;
    size_t node = step_nodes_[step];
    while (++step < step_nodes_.size()) {
      while (node < step_nodes_[step]) Follow(++node);
      if (waits_[node] || !wanted_[node]) continue;
      Status status = run(step);
      if (status.code() == QNN_GRAPH_ERROR_EARLY_TERMINATION) {
        waits_[node] = true;
      } else if (!status.ok()) {
        return status;
      }
    }
    return Status(QNN_GRAPH_ERROR_EARLY_TERMINATION);
  }

 private:
  void Follow(size_t node) {
    for (size_t source : sources_[node]) {
      if (waits_[source]) waits_[node] = true;
    }
  }

  std::vector<size_t> step_nodes_;
  std::vector<std::vector<size_t>> sources_;  // the nodes whose outputs a node reads
  std::vector<bool> wanted_;                  // stateful, or needed by a stateful node
  std::vector<bool> waits_;                   // has no result in this execution
};

}  // namespace qnnrt
