// Graphs with an external executor: the gpu backend's, which run as command lists of the binding's.
// They are declared, checked and queued here like all others; binding tensors and running is the
// executor's task.
#pragma once

#include <atomic>
#include <memory>

#include "abi/qnnrt_ext.h"
#include "graph/graph.h"

namespace qnnrt {

class Executor {
 public:
  explicit Executor(const Qnnrt_Executor_t& calls) : calls_(calls) {}

  // Checks and pins what an execution is given, until Release. Errors: the executor's.
  Status Bind(const Qnnrt_Tensors_t& tensors, void** binding) const;
  // Errors: the executor's; when the interrupt stopped it, the interrupt's.
  Status Run(void* binding, const RunOptions& options) const;
  void Release(void* binding) const { calls_.release(calls_.self, binding); }
  // When its preparation began, in nanoseconds of the monotonic clock.
  uint64_t started() const { return calls_.started; }

 private:
  const Qnnrt_Executor_t calls_;
};

// The binding of one execution, whoever executes it.
struct AnyBinding {
  Binding own;
  const Executor* executor = nullptr;  // of `external`
  void* external = nullptr;
};

// A graph and its executor.
class ExecutableGraph {
 public:
  explicit ExecutableGraph(bool external) : external_(external) {}
  ExecutableGraph(const ExecutableGraph&) = delete;

  // Before it is finalized. Errors: 1000 the runtime executes this graph itself, 6024 twice.
  Status Give(const Qnnrt_Executor_t& calls);
  // What graphFinalize does to a graph of an executor's. Errors: 6022 nobody has given one, 6024.
  Status Finalize(const Graph& graph, ProfileScope* profile);
  bool external() const { return external_; }
  bool finalized() const { return ready_.load(std::memory_order_acquire) != nullptr; }
  // Errors: 6024 with what the graph takes no more of.
  Status CheckOpen(const Graph& graph, const char* what) const;

  // As Graph's.
  Status Bind(Graph* graph, const Qnnrt_Tensors_t& tensors, AnyBinding* binding) const;
  Status Run(Graph* graph, const AnyBinding& binding, const RunOptions& options) const;
  Status Execute(Graph* graph, const Qnnrt_Tensors_t& tensors, const RunOptions& options) const;
  static void Release(AnyBinding* binding);

 private:
  const bool external_;
  std::mutex mutex_;
  std::unique_ptr<const Executor> executor_;
  std::atomic<const Executor*> ready_{nullptr};  // executor_, once the graph is finalized
};

}  // namespace qnnrt
