#include "api/executor.h"

#include <utility>

#include "abi/qnn_objects.h"
#include "support/clock.h"
#include "support/guard.h"

namespace qnnrt {
namespace {

Status Failed(uint64_t code, const char* text) {
  return Status(static_cast<ErrorCode>(code), text);
}

int32_t AddEvent(void* profile, uint32_t type, uint32_t unit, uint64_t value, uint64_t timestamp,
                 const char* identifier, int32_t parent) {
  return Contained(
      [&] {
        return static_cast<ProfileScope*>(profile)->Add(type, unit, value, timestamp, identifier,
                                                        parent);
      },
      [](const Status&) { return ProfileScope::kFull; });
}

uint32_t Stopped(const void* interrupt) {
  return Contained([&] { return static_cast<const Interrupt*>(interrupt)->Check().ok() ? 0u : 1u; },
                   [](const Status&) { return 0u; });
}

// The graph's own option, which may be changed at any time.
Qnnrt_Tensors_t WithStrict(Graph* graph, const Qnnrt_Tensors_t& tensors) {
  auto lock = graph->Lock();
  Qnnrt_Tensors_t given = tensors;
  given.strict = graph->options().strict ? 1 : 0;
  return given;
}

struct Released {  // on every return, and on an exception
  const Executor* executor;
  void* binding;
  ~Released() { executor->Release(binding); }
};

}  // namespace

Status Executor::Bind(const Qnnrt_Tensors_t& tensors, void** binding) const {
  Qnnrt_ExecutorText_t why = {};
  const uint64_t code = calls_.bind(calls_.self, &tensors, binding, &why);
  return code == QNN_SUCCESS ? Status::Ok() : Failed(code, why.text);
}

Status Executor::Run(void* binding, const RunOptions& options) const {
  Qnnrt_ExecutorText_t why = {};
  Qnnrt_ExecutorRun_t run = {};
  run.profile = options.profile;
  run.detailed = options.profile != nullptr && options.profile->detailed() ? 1 : 0;
  run.add_event = AddEvent;
  run.interrupt = options.interrupt;
  run.stopped = Stopped;
  const uint64_t code = calls_.run(calls_.self, binding, &run, &why);
  if (code == QNN_SUCCESS) return Status::Ok();
  if (options.interrupt != nullptr) QNNRT_RETURN_IF_ERROR(options.interrupt->Check());
  return Failed(code, why.text);
}

Status ExecutableGraph::Give(const Qnnrt_Executor_t& calls) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!external_) {
    return Status(QNN_COMMON_ERROR_NOT_SUPPORTED,
                  "the runtime executes the graphs of this backend itself");
  }
  if (finalized()) return Status(QNN_GRAPH_ERROR_GRAPH_FINALIZED, "the graph is finalized already");
  executor_ = std::make_unique<const Executor>(calls);
  return Status::Ok();
}

Status ExecutableGraph::Finalize(const Graph& graph, ProfileScope* profile) {
  std::lock_guard<std::mutex> lock(mutex_);
  QNNRT_RETURN_IF_ERROR(CheckOpen(graph, "executors"));
  if (executor_ == nullptr) {
    return Error(QNN_GRAPH_ERROR_FINALIZE_FAILED,
                 "nothing was given that could execute graph '%s': this backend computes through "
                 "the binding alone",
                 graph.name().c_str());
  }
  ready_.store(executor_.get(), std::memory_order_release);
  if (profile == nullptr) return Status::Ok();
  const uint64_t start = executor_->started();
  profile->Add(QNN_PROFILE_EVENTTYPE_FINALIZE, QNN_PROFILE_EVENTUNIT_MICROSEC,
               (MonotonicNanoseconds() - start) / 1000, start / 1000, "finalize");
  return Status::Ok();
}

Status ExecutableGraph::CheckOpen(const Graph& graph, const char* what) const {
  if (!finalized()) return Status::Ok();
  return Error(QNN_GRAPH_ERROR_GRAPH_FINALIZED, "graph '%s' is finalized: it takes no more %s",
               graph.name().c_str(), what);
}

Status ExecutableGraph::Bind(Graph* graph, const Qnnrt_Tensors_t& t, AnyBinding* binding) const {
  const Executor* executor = ready_.load(std::memory_order_acquire);
  if (executor == nullptr)
    return graph->Bind(t.inputs, t.num_inputs, t.outputs, t.num_outputs, &binding->own);
  QNNRT_RETURN_IF_ERROR(executor->Bind(WithStrict(graph, t), &binding->external));
  binding->executor = executor;
  return Status::Ok();
}

Status ExecutableGraph::Run(Graph* graph, const AnyBinding& binding,
                            const RunOptions& options) const {
  if (binding.external == nullptr) return graph->Run(binding.own, options);
  return binding.executor->Run(binding.external, options);
}

Status ExecutableGraph::Execute(Graph* graph, const Qnnrt_Tensors_t& t,
                                const RunOptions& options) const {
  const Executor* executor = ready_.load(std::memory_order_acquire);
  if (executor == nullptr)
    return graph->Execute(t.inputs, t.num_inputs, t.outputs, t.num_outputs, options);
  void* binding = nullptr;
  QNNRT_RETURN_IF_ERROR(executor->Bind(WithStrict(graph, t), &binding));
  Released released{executor, binding};
  return executor->Run(binding, options);
}

void ExecutableGraph::Release(AnyBinding* binding) {
  Graph::Release(&binding->own);
  if (void* external = std::exchange(binding->external, nullptr))
    binding->executor->Release(external);
}

}  // namespace qnnrt
