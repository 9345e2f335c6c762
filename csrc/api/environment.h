// Execution environments: memory that a client binds to a graph before it executes.
//
// BIND_MEM_HANDLES checks the memory handles of a tensor set and pins them, so that they cannot be
// deregistered until the set is released or the graph goes. POPULATE_CLIENT_BUFS fills in where the
// runtime's own shared memory for these tensors is: RAW tensors at those addresses are used in
// place.
#pragma once

#include <mutex>
#include <vector>

#include "abi/qnn_objects.h"
#include "graph/graph.h"

namespace qnnrt {

class Environments {
 public:
  Environments();
  ~Environments();
  Environments(const Environments&) = delete;
  Environments& operator=(const Environments&) = delete;

  // All of them or, after an error, none. An entry that asks for nothing but what an earlier entry
  // of the call has bound is surplus: its tensor set is emptied. So is that of an option that is
  // not known, which is an error (1000). Errors: 6000 arguments, 6004 a tensor that the graph has
  // not, or whose memory is not what the option takes; 1005 in a forked child; and those of
  // Graph::BindHandles and Graph::StagingAddress.
  Status Prepare(Graph* graph, QnnGraph_ExecuteEnvironment_t** environments, uint32_t count);
  // The same sets, or parts of them. All of them or none. Errors: 6000 something that is not bound
  // or populated.
  Status Release(const QnnGraph_ExecuteEnvironment_t** environments, uint32_t count);

 private:
  struct Bound {  // with repetition
    std::vector<SlotHandle> handles;
    std::vector<uint32_t> populated;  // tensor ids
  };
  struct Undo;
  static Status Bind(const Graph& graph, const Qnn_TensorSetV1_t& set, Bound* made, bool* surplus);
  static Status Populate(Graph* graph, const Qnn_TensorSetV1_t& set, Bound* made, bool* surplus);
  Status CheckOwned() const;
  static void Unpin(std::vector<SlotHandle>* handles);

  const uint32_t forks_;
  std::mutex mutex_;
  Bound bound_;
};

}  // namespace qnnrt
