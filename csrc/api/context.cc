#include <thread>

#include "api/functions.h"
#include "memory/memory.h"
#include "support/clock.h"

namespace qnnrt::api {

Status StaleContext() {
  return Status(QNN_CONTEXT_ERROR_INVALID_HANDLE, "this is no live context handle");
}

Status NoBackend(Qnn_BackendHandle_t handle) {
  if (handle == nullptr)
    return Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT, "the backend handle must not be null");
  return Status(QNN_CONTEXT_ERROR_INVALID_HANDLE, "the backend handle is not live");
}

namespace {

Qnn_ErrorHandle_t Create(Qnn_BackendHandle_t backend_handle, Qnn_DeviceHandle_t device,
                         const QnnContext_Config_t** config, Qnn_ContextHandle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr)
      return Report(Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT,
                           "the context handle to fill in must not be null"));
    *handle = nullptr;
    Runtime& runtime = Runtime::Get();
    auto backend = runtime.backends.Find(backend_handle);
    if (!backend) return Report(NoBackend(backend_handle));
    auto context = std::make_shared<Context>();
    context->backend = backend->backend;
    context->id = runtime.next_context.fetch_add(1);
    Result<DeviceUse> use = UseDevice(*context->backend->traits, device);
    if (!use.ok()) return Report(use.status(), context->backend->log.get());
    context->device = std::move(*use);
    Status status = ReadContextConfig(*context->backend, config, kAtCreate, &context->options);
    if (!status.ok()) return Report(status, context->backend->log.get());
    auto object = std::make_unique<ContextObject>();
    object->context = std::move(context);
    *handle = runtime.contexts.Add(std::move(object));
    if (*handle == nullptr)
      return Report(Status(QNN_CONTEXT_ERROR_MEM_ALLOC, "too many live contexts"));
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t SetConfig(Qnn_ContextHandle_t handle, const QnnContext_Config_t** config) {
  return Guarded([&] {
    auto object = Runtime::Get().contexts.Find(handle);
    if (!object) return Report(StaleContext());
    Context& context = *object->context;
    auto set = [&]() -> Status {
      QNNRT_RETURN_IF_ERROR(CheckNotServed(context));
      std::lock_guard<std::mutex> lock(context.mutex);
      return ReadContextConfig(*context.backend, config, kAtSet, &context.options);
    };
    return Report(set(), context.backend->log.get());
  });
}

// Removes the graph from the table and waits for its running executions. In a forked child those of
// the parent never complete: their graph is leaked.
void FreeGraph(Qnn_GraphHandle_t handle, bool forked, Log* log) {
  std::unique_ptr<GraphObject> graph;
  Runtime::Get().graphs.TakeDrained(handle, &graph, [forked] {
    if (!forked) std::this_thread::sleep_for(std::chrono::microseconds(50));
    return !forked;
  });
  if (graph == nullptr || log == nullptr || !log->Wants(QNN_LOG_LEVEL_INFO)) return;
  if (graph->executable.external()) return;  // its executions are counted elsewhere
  GraphStats stats = graph->graph.stats();
  log->Write(QNN_LOG_LEVEL_INFO, "graph '%s' is freed after %llu executions in %llu us",
             graph->graph.name().c_str(), static_cast<unsigned long long>(stats.executes),
             static_cast<unsigned long long>(stats.execute_ns / 1000));
  if (!graph->context->backend->traits->stages_raw) return;
  const StagingStats& staging = stats.staging;
  log->Write(
      QNN_LOG_LEVEL_INFO,
      "graph '%s' copied %llu bytes of RAW tensors through %llu bytes of staging memory",
      graph->graph.name().c_str(),
      static_cast<unsigned long long>(staging.copied_in + staging.copied_out),
      static_cast<unsigned long long>(staging.reserved_at_finalize + staging.reserved_at_execute));
}

Qnn_ErrorHandle_t Free(Qnn_ContextHandle_t handle, Qnn_ProfileHandle_t profile_handle) {
  return Guarded([&] {
    Result<ProfileCall> profile = ProfileCall::Begin(profile_handle, QNN_CONTEXT_ERROR_SET_PROFILE);
    if (!profile.ok()) return Report(profile.status());
    uint64_t start = MonotonicNanoseconds();
    using Table = decltype(Runtime::contexts);
    std::unique_ptr<ContextObject> object;
    if (auto found = Runtime::Get().contexts.Find(handle)) {
      if (Status outside = CheckNotServed(*found->context); !outside.ok()) return Report(outside);
      if (found->context->queue->OnWorker()) {
        return Report(Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                             "a notify callback cannot free its own context, which waits for it"));
      }
    }
    switch (Runtime::Get().contexts.Take(handle, &object)) {
      case Table::Taken::kYes:
        break;
      case Table::Taken::kBusy:
        return Report(Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                             "the context is in use by a call on another thread"));
      default:
        return Report(StaleContext());
    }
    Context& context = *object->context;
    const bool forked = context.queue->forked();
    if (!forked) context.queue->Close();
    std::map<std::string, Qnn_GraphHandle_t> graphs;
    {
      std::lock_guard<std::mutex> lock(context.mutex);  // FreeOneGraph may be under way
      graphs.swap(context.graphs);
    }
    for (const auto& graph : graphs) FreeGraph(graph.second, forked, context.backend->log.get());
    // Now, not when the last pin on the context is dropped: the device may be freed from here on.
    context.device = DeviceUse();
    uint32_t left = Memory::Get().registry().FreeContext(context.id);
    if (left > 0 && context.backend->log != nullptr) {
      context.backend->log->Write(QNN_LOG_LEVEL_WARN,
                                  "the context was freed with %u memory handle%s still registered; "
                                  "none is valid any more: deregister before contextFree",
                                  left, left == 1 ? "" : "s");
    }
    if (profile->scope() != nullptr) {
      profile->scope()->Add(QNN_PROFILE_EVENTTYPE_DEINIT, QNN_PROFILE_EVENTUNIT_MICROSEC,
                            (MonotonicNanoseconds() - start) / 1000, start / 1000, "deinit");
    }
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

}  // namespace

Status FreeOneGraph(Qnn_GraphHandle_t handle) {
  std::shared_ptr<Context> context;
  {
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return StaleGraph(handle);
    context = graph->context;
    std::lock_guard<std::mutex> lock(context->mutex);
    // What its weights lie in, and a list of pools, may be of all graphs of the binary.
    if (context->binary != nullptr) {
      return Error(QNN_COMMON_ERROR_NOT_SUPPORTED,
                   "graph '%s' came from a context binary: it goes with its context",
                   graph->graph.name().c_str());
    }
    const auto entry = context->graphs.find(graph->graph.name());
    if (entry == context->graphs.end() || entry->second != handle)
      return StaleGraph(handle);  // another thread frees it
    context->graphs.erase(entry);
  }
  FreeGraph(handle, context->queue->forked(), context->backend->log.get());
  return Status::Ok();
}

void FillContext(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table) {
  table->contextCreate = Create;
  table->contextSetConfig = SetConfig;
  table->contextFree = Free;
  FillBinary(traits, table);
}

}  // namespace qnnrt::api
