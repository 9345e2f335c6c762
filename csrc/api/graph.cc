#include <atomic>

#include "abi/qnnrt_ext.h"
#include "api/convert.h"
#include "api/functions.h"
#include "ops/onednn_state.h"
#include "ops/post_ops.h"
#include "support/clock.h"

namespace qnnrt::api {

namespace {

Status Served() {
  return Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                "a function of an op package may not call the graph or context that it serves: the "
                "call would wait for the function");
}

}  // namespace

Status CheckNotServed(const Context& context) {
  return ServedContext() == context.id ? Served() : Status::Ok();
}

Status StaleGraph(Qnn_GraphHandle_t handle, ErrorCode code) {
  if (Runtime::Get().graphs.IsServed(handle)) return Served();
  if (code == QNN_GRAPH_ERROR_INVALID_HANDLE && Runtime::Get().graphs.WasLive(handle)) {
    return Status(QNN_GRAPH_ERROR_INVALID_CONTEXT,
                  "the context of this graph has been freed, and the graph with it");
  }
  return Status(code, "this is no live graph handle");
}

namespace {

Status CheckSignals(const GraphObject& graph, Qnn_SignalHandle_t signal) {
  if (signal == nullptr || graph.context->backend->traits->signals) return Status::Ok();
  return Status(QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "this backend has no signals");
}

Qnn_ErrorHandle_t Create(Qnn_ContextHandle_t context_handle, const char* name,
                         const QnnGraph_Config_t** config, Qnn_GraphHandle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr)
      return Report(
          Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "the graph handle to fill in must not be null"));
    *handle = nullptr;
    if (name == nullptr || *name == '\0')
      return Report(Status(QNN_GRAPH_ERROR_INVALID_NAME, "a graph needs a name"));
    auto object = Runtime::Get().contexts.Find(context_handle);
    if (!object)
      return Report(Status(QNN_GRAPH_ERROR_INVALID_CONTEXT, "the context handle is not live"));
    Context& context = *object->context;
    auto create = [&]() -> Status {  // logged when its lock is gone: loggers are client's code
      QNNRT_RETURN_IF_ERROR(CheckNotServed(context));
      GraphOptions options = context.backend->graph_options();
      GraphSettings settings;
      QNNRT_RETURN_IF_ERROR(
          ReadGraphConfig(*context.backend, config, kAtCreate, &options, &settings));
      std::lock_guard<std::mutex> lock(context.mutex);
      // The name's entry first: once the graph is in the table nothing may fail any more.
      const auto [entry, is_new] = context.graphs.emplace(name, nullptr);
      if (!is_new)
        return Error(QNN_GRAPH_ERROR_INVALID_NAME, "the context has a graph '%s' already", name);
      struct Undo {  // on every return but the last, and on an exception
        Context* context;
        decltype(Context::graphs)::iterator entry;
        ~Undo() {
          if (context != nullptr) context->graphs.erase(entry);
        }
      } undo{&context, entry};
      auto graph = std::make_unique<GraphObject>(object->context, name, options);
      QNNRT_RETURN_IF_ERROR(graph->profile.Apply(settings));
      graph->settings = std::move(settings);
      entry->second = Runtime::Get().graphs.Add(std::move(graph));
      if (entry->second == nullptr)
        return Status(QNN_GRAPH_ERROR_MEM_ALLOC, "too many live graphs");
      undo.context = nullptr;
      *handle = entry->second;
      return Status::Ok();
    };
    return Report(create(), context.backend->log.get());
  });
}

Qnn_ErrorHandle_t Retrieve(Qnn_ContextHandle_t context_handle, const char* name,
                           Qnn_GraphHandle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr || name == nullptr)
      return Report(Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "name and graph must not be null"));
    *handle = nullptr;
    auto object = Runtime::Get().contexts.Find(context_handle);
    if (!object)
      return Report(Status(QNN_GRAPH_ERROR_INVALID_CONTEXT, "the context handle is not live"));
    if (Status outside = CheckNotServed(*object->context); !outside.ok()) return Report(outside);
    std::lock_guard<std::mutex> lock(object->context->mutex);
    auto found = object->context->graphs.find(name);
    if (found == object->context->graphs.end())
      return Report(
          Error(QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST, "the context has no graph '%s'", name));
    *handle = found->second;
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Status ApplyConfig(GraphObject* graph, const QnnGraph_Config_t** config) {
  std::lock_guard<std::mutex> one_at_a_time(graph->config_mutex);
  auto lock = graph->graph.Lock();  // graphFinalize may run on another thread
  const GraphOptions before = graph->graph.options();
  GraphOptions options = before;
  GraphSettings settings;
  {
    std::lock_guard<std::mutex> settings_lock(graph->settings_mutex);
    settings.priority = graph->settings.priority;
    settings.lpai = graph->settings.lpai;
    settings.record = graph->settings.record;
  }
  QNNRT_RETURN_IF_ERROR(
      ReadGraphConfig(*graph->context->backend, config, kAtSet, &options, &settings));
  QNNRT_RETURN_IF_ERROR(graph->graph.CheckOptions(options));
  const PlanChanges changes = Compare(options, before);
  if (changes.kernels || changes.effort) {
    QNNRT_RETURN_IF_ERROR(graph->executable.CheckOpen(graph->graph, "options of its kernels"));
  }
  if (settings.prepares && graph->graph.prepared()) {
    return Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                  "PREPARE says how to prepare the graph, which is prepared already");
  }
  QNNRT_RETURN_IF_ERROR(graph->profile.Apply(settings));
  graph->graph.set_options(options);
  lock.unlock();
  Status status = SetLpaiPools(&graph->graph, &settings);
  if (!status.ok()) {
    lock.lock();
    graph->graph.set_options(before);
    return status;
  }
  std::lock_guard<std::mutex> settings_lock(graph->settings_mutex);
  graph->settings = std::move(settings);
  return Status::Ok();
}

Qnn_ErrorHandle_t SetConfig(Qnn_GraphHandle_t handle, const QnnGraph_Config_t** config) {
  return Guarded([&] {
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(StaleGraph(handle));
    return Report(ApplyConfig(&*graph, config), graph->context->backend->log.get());
  });
}

Status ResolvePorts(GraphObject* graph, const Qnn_Tensor_t* tensors, uint32_t count,
                    const char* what, const std::string& node, std::vector<const Tensor*>* ports) {
  for (uint32_t i = 0; i < count; ++i) {
    const Qnn_TensorV1_t& t = tensors[i].v1;
    Tensor* found = t.id == 0 ? nullptr : graph->graph.FindTensor(t.id);
    if (found == nullptr && IsOmitted(tensors[i])) {
      ports->push_back(nullptr);
      continue;
    }
    if (found == nullptr) {
      return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                   "node '%s': %s %u ('%s', id %u) is no tensor of graph '%s': create it first",
                   node.c_str(), what, i, t.name == nullptr ? "" : t.name, t.id,
                   graph->graph.name().c_str());
    }
    ports->push_back(found);
  }
  return Status::Ok();
}

Qnn_ErrorHandle_t AddNode(Qnn_GraphHandle_t handle, Qnn_OpConfig_t config) {
  return Guarded([&] {
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(StaleGraph(handle));
    auto add = [&]() -> Status {
      Result<Node> read =
          NodeFromQnn(config, graph->context->backend->packages, graph->context->id);
      if (!read.ok()) return std::move(read).status().WithCode(QNN_GRAPH_ERROR_INVALID_OP_CONFIG);
      QNNRT_RETURN_IF_ERROR(graph->executable.CheckOpen(graph->graph, "nodes"));
      Node node = std::move(read).value();
      QNNRT_RETURN_IF_ERROR(ResolvePorts(&*graph, config.v1.inputTensors, config.v1.numOfInputs,
                                         "input", node.name, &node.inputs));
      QNNRT_RETURN_IF_ERROR(ResolvePorts(&*graph, config.v1.outputTensors, config.v1.numOfOutputs,
                                         "output", node.name, &node.outputs));
      return graph->graph.AddNode(std::move(node));
    };
    return Report(add(), graph->context->backend->log.get());
  });
}

// Says that the portable kernels serve a graph for which the fast ones were looked for: each time
// what is wrong with a library that is there, once that there is none.
void LogKernelLibrary(const Graph& graph, Log* log) {
  static std::atomic<bool> told{false};
  std::string tried;
  if (!log->Wants(QNN_LOG_LEVEL_WARN) || OneDnnLoadState(&tried) != -1 || OneDnnSwitchedOff()) {
    return;
  }
  if (const std::string ignored = OneDnnIgnored(); !ignored.empty()) {
    log->Write(QNN_LOG_LEVEL_WARN, "graph '%s': %s: ignored, the portable kernels are used",
               graph.name().c_str(), ignored.c_str());
  } else if (log->Wants(QNN_LOG_LEVEL_INFO) && !told.exchange(true)) {
    log->Write(QNN_LOG_LEVEL_INFO,
               "graph '%s': no oneDNN was found (%s): the portable kernels are used",
               graph.name().c_str(), tried.c_str());
  }
}

// Logs a summary of the finalized graph, for clients that see only the log, as ONNX Runtime's.
void LogPlan(const Graph& graph, Log* log) {
  LogKernelLibrary(graph, log);
  if (!log->Wants(QNN_LOG_LEVEL_INFO)) return;
  const Plan& plan = *graph.plan();
  log->Write(QNN_LOG_LEVEL_INFO, "graph '%s': %zu steps, arena %llu bytes (lower bound %llu)",
             graph.name().c_str(), plan.steps().size(),
             static_cast<unsigned long long>(plan.arena().peak),
             static_cast<unsigned long long>(plan.arena().lower_bound));
  if (!log->Wants(QNN_LOG_LEVEL_VERBOSE)) return;
  for (size_t i = 0; i < plan.steps().size(); ++i) {
    const Node& node = plan.node(i);
    std::string fused;
    for (const PostOp& op : node.post_ops) fused += std::string(" + ") + PostOpName(op);
    log->Write(QNN_LOG_LEVEL_VERBOSE, "graph '%s': step %zu is %s '%s'%s by kernel %s",
               graph.name().c_str(), i, node.type.c_str(), node.name.c_str(), fused.c_str(),
               plan.steps()[i].kernel->Name());
  }
}

Qnn_ErrorHandle_t Finalize(Qnn_GraphHandle_t handle, Qnn_ProfileHandle_t profile_handle,
                           Qnn_SignalHandle_t signal_handle) {
  return Guarded([&] {
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(StaleGraph(handle));
    Log* log = graph->context->backend->log.get();
    auto finalize = [&]() -> Status {
      QNNRT_RETURN_IF_ERROR(CheckSignals(*graph, signal_handle));
      if (signal_handle != nullptr && graph->executable.external()) {
        return Status(QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
                      "signals end executions of this backend, but not graphFinalize");
      }
      QNNRT_ASSIGN_OR_RETURN(SignalUse signal, SignalUse::Begin(signal_handle, kGraphSignalCodes));
      QNNRT_ASSIGN_OR_RETURN(ProfileCall profile,
                             ProfileCall::Begin(profile_handle, QNN_GRAPH_ERROR_SET_PROFILE));
      if (graph->executable.external())
        return graph->executable.Finalize(graph->graph, profile.scope());
      return graph->graph.Finalize(profile.scope(), signal.interrupt());
    };
    Status status = finalize();
    if (status.ok() && log != nullptr && graph->graph.Ready()) LogPlan(graph->graph, log);
    return Report(status, log);
  });
}

Status InsideOp() {
  return Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                "an op of a package may execute no graph: it could wait for itself");
}

Qnn_ErrorHandle_t Execute(Qnn_GraphHandle_t handle, const Qnn_Tensor_t* inputs, uint32_t num_inputs,
                          Qnn_Tensor_t* outputs, uint32_t num_outputs,
                          Qnn_ProfileHandle_t profile_handle, Qnn_SignalHandle_t signal) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    if (InPackageOp()) return Report(InsideOp());
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(StaleGraph(handle));
    if (profile_handle == nullptr && signal == nullptr) {
      Status status = graph->graph.Execute(inputs, num_inputs, outputs, num_outputs, {});
      return status.ok() ? QNN_SUCCESS : Report(status, graph->context->backend->log.get());
    }
    Log* log = graph->context->backend->log.get();
    Status no_signal = CheckSignals(*graph, signal);
    if (!no_signal.ok()) return Report(no_signal, log);
    Result<ProfileCall> profile = ProfileCall::Begin(profile_handle, QNN_GRAPH_ERROR_SET_PROFILE);
    if (!profile.ok()) return Report(profile.status(), log);
    RunOptions options;
    options.profile = profile->scope();
    return Report(graph->graph.Execute(inputs, num_inputs, outputs, num_outputs, options), log);
  });
}

Status PreparedOnly(const GraphObject& graph) {
  return Error(QNN_GRAPH_ERROR_DISABLED,
               "graph '%s' is in a context for preparing alone (PREPARE_ONLY): make a binary of it "
               "and execute that",
               graph.graph.name().c_str());
}

struct QueueGuard {
  ExecutionQueue* queue;
  ~QueueGuard() { queue->Release(); }
};

// graphExecute of backends with a queue.
Qnn_ErrorHandle_t ExecuteQueued(Qnn_GraphHandle_t handle, const Qnn_Tensor_t* inputs,
                                uint32_t num_inputs, Qnn_Tensor_t* outputs, uint32_t num_outputs,
                                Qnn_ProfileHandle_t profile_handle,
                                Qnn_SignalHandle_t signal_handle) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    if (InPackageOp()) return Report(InsideOp());
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(StaleGraph(handle));
    ExecutionQueue* queue = graph->context->queue.get();
    if (graph->prepare_only) return Report(PreparedOnly(*graph));
    Status no_signal = CheckSignals(*graph, signal_handle);
    if (!no_signal.ok()) return Report(no_signal, graph->context->backend->log.get());
    if (profile_handle == nullptr && signal_handle == nullptr && !graph->profile.bound()) {
      Status status = queue->Acquire(nullptr);
      if (status.ok()) {
        QueueGuard guard{queue};
        status = graph->Execute({inputs, outputs, num_inputs, num_outputs, 0}, {});
      }
      return status.ok() ? QNN_SUCCESS : Report(status, graph->context->backend->log.get());
    }
    auto execute = [&]() -> Status {
      QNNRT_RETURN_IF_ERROR(graph->profile.CheckCall(profile_handle));
      QNNRT_ASSIGN_OR_RETURN(SignalUse signal, SignalUse::Begin(signal_handle, kGraphSignalCodes));
      QNNRT_ASSIGN_OR_RETURN(ProfileCall profile,
                             ProfileCall::Begin(profile_handle, QNN_GRAPH_ERROR_SET_PROFILE));
      const uint64_t called = MonotonicNanoseconds();
      QNNRT_RETURN_IF_ERROR(queue->Acquire(signal_handle == nullptr ? nullptr : &signal));
      QueueGuard guard{queue};
      if (profile_handle == nullptr) {
        QNNRT_ASSIGN_OR_RETURN(profile, graph->profile.Begin());
      }
      const uint64_t waited = (MonotonicNanoseconds() - called) / 1000;
      if (waited != 0 && profile.scope() != nullptr) {
        profile.scope()->Add(QNN_PROFILE_EVENTTYPE_EXECUTE_QUEUE_WAIT,
                             QNN_PROFILE_EVENTUNIT_MICROSEC, waited, called / 1000, "queue wait");
      }
      RunOptions options;
      options.profile = profile.scope();
      options.interrupt = signal.interrupt();
      QNNRT_RETURN_IF_ERROR(graph->Execute({inputs, outputs, num_inputs, num_outputs, 0}, options));
      return signal.Conclude();
    };
    return Report(execute(), graph->context->backend->log.get());
  });
}

Qnn_ErrorHandle_t ExecuteAsync(Qnn_GraphHandle_t handle, const Qnn_Tensor_t* inputs,
                               uint32_t num_inputs, Qnn_Tensor_t* outputs, uint32_t num_outputs,
                               Qnn_ProfileHandle_t profile_handle, Qnn_SignalHandle_t signal_handle,
                               Qnn_NotifyFn_t notify, void* notify_param) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(StaleGraph(handle));
    const std::shared_ptr<Context> context = graph->context;  // the request takes the graph
    if (graph->prepare_only) return Report(PreparedOnly(*graph));
    auto submit = [&]() -> Status {
      QNNRT_RETURN_IF_ERROR(CheckSignals(*graph, signal_handle));
      QNNRT_RETURN_IF_ERROR(graph->profile.CheckCall(profile_handle));
      QNNRT_ASSIGN_OR_RETURN(SignalUse signal, SignalUse::Begin(signal_handle, kGraphSignalCodes));
      QNNRT_ASSIGN_OR_RETURN(ProfileCall profile,
                             ProfileCall::Begin(profile_handle, QNN_GRAPH_ERROR_SET_PROFILE));
      if (context->queue->depth() == 0) {
        std::lock_guard<std::mutex> lock(context->mutex);
        context->queue->set_depth(context->options.async_queue_depth);
      }
      return context->queue->Submit({std::move(graph), inputs, num_inputs, outputs, num_outputs,
                                     std::move(signal), std::move(profile), notify, notify_param});
    };
    return Report(submit(), context->backend->log.get());
  });
}

}  // namespace

Qnn_ErrorHandle_t CreateTensor(Qnn_GraphHandle_t handle, Qnn_Tensor_t* tensor,
                               const int64_t* strides, Lent lent) {
  return Guarded([&] {
    if (tensor == nullptr)
      return Report(Status(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, "the tensor must not be null"));
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(StaleGraph(handle, QNN_TENSOR_ERROR_INVALID_HANDLE));
    auto create = [&]() -> Status {
      // It stands for an omitted input. ONNX Runtime creates one before it names it in a node;
      // graphAddNode knows it by its type, so there is nothing to keep.
      if (tensor->v1.type == QNN_TENSOR_TYPE_NULL) return Status::Ok();
      QNNRT_RETURN_IF_ERROR(graph->executable.CheckOpen(graph->graph, "tensors"));
      StaticSource source;
      source.strides = strides;
      source.threads = Threads(graph->graph.ThreadsToMake());
      source.scope = graph->graph.Scope();
      source.lent = lent != Lent::kNo;
      if (lent == Lent::kToContext) source.known = graph->context->lent;
      source.keep_packed = true;
      QNNRT_ASSIGN_OR_RETURN(Tensor value, TensorFromQnn(*tensor, true, source));
      return graph->graph.AddTensor(std::move(value), &tensor->v1.id);
    };
    return Report(create(), graph->context->backend->log.get());
  });
}

namespace {

Qnn_ErrorHandle_t CreateGraphTensor(Qnn_GraphHandle_t handle, Qnn_Tensor_t* tensor) {
  return CreateTensor(handle, tensor, nullptr, Lent::kNo);
}

}  // namespace

void FillGraph(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table) {
  constexpr ErrorCode kNo = QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE;
  table->graphCreate = Create;
  table->graphRetrieve = Retrieve;
  table->graphSetConfig = SetConfig;
  table->graphAddNode = AddNode;
  table->graphFinalize = Finalize;
  table->graphExecute = Execute;
  Refuse<kNo>(&table->graphCreateSubgraph);
  Refuse<kNo>(&table->graphExecuteAsync);
  if (traits.async) {
    table->graphExecute = ExecuteQueued;
    table->graphExecuteAsync = ExecuteAsync;
  }
  Refuse<kNo>(&table->graphGetProperty);
  if (traits.client_memory) table->graphGetProperty = GetLpaiGraphProperty;
}

void FillTensor(const BackendTraits&, QnnInterface_ImplementationV2_32_t* table) {
  constexpr ErrorCode kNo = QNN_TENSOR_ERROR_UNSUPPORTED_FEATURE;
  table->tensorCreateGraphTensor = CreateGraphTensor;
  Refuse<kNo>(&table->tensorCreateContextTensor);
  Refuse<kNo>(&table->tensorUpdateGraphTensors);
  Refuse<kNo>(&table->tensorUpdateContextTensors);
}

}  // namespace qnnrt::api
