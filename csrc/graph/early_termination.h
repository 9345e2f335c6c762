// What is still run of an execution that a step ended early.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "abi/qnn_errors.h"
#include "ir/node.h"
#include "support/status.h"

namespace qnnrt {

// Every node that keeps state sees every execution, or its frames would no longer belong to those
// of the others: so those that do not depend on the step that waits are run, with what they need.
class EarlyEnd {
 public:
  // In the order in which they run; step_nodes: the node of each step, as not every one has a step.
  EarlyEnd(const std::vector<Node>& nodes, const std::vector<size_t>& step_nodes);

  // The rest after `step` ended the execution; run(step) runs one more. The code of an early end,
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
  std::vector<bool> wanted_;                  // keeps state, or a later node needs it for that
  std::vector<bool> waits_;                   // for the one that ended the execution
};

}  // namespace qnnrt
