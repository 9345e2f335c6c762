#include <thread>

#include "api/functions.h"
#include "memory/memory.h"
#include "support/clock.h"

namespace qnnrt::api {
namespace {

Status StaleContext() {
  return Status(QNN_CONTEXT_ERROR_INVALID_HANDLE, "this is no live context handle");
}

Status CheckConfig(const QnnContext_Config_t** config) {
  return ForEachConfig(config, [](const QnnContext_Config_t& c) -> Status {
    switch (c.option) {
      case QNN_CONTEXT_CONFIG_OPTION_PRIORITY:         // one CPU queue: nothing to reorder
      case QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING:  // verbose messages are always kept
      case QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT:       // a hint
        return Status::Ok();
      default:
        return Error(QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
                     "context config option %d is not supported by this backend",
                     static_cast<int>(c.option));
    }
  });
}

Qnn_ErrorHandle_t Create(Qnn_BackendHandle_t backend_handle, Qnn_DeviceHandle_t,
                         const QnnContext_Config_t** config, Qnn_ContextHandle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr)
      return Report(Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT,
                           "the context handle to fill in must not be null"));
    *handle = nullptr;
    Runtime& runtime = Runtime::Get();
    auto backend = runtime.backends.Find(backend_handle);
    if (!backend)
      return Report(Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT, "the backend handle is not live"));
    auto context = std::make_shared<Context>();
    context->backend = backend->backend;
    context->id = runtime.next_context.fetch_add(1);
    Status status = CheckConfig(config);
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
    return Report(CheckConfig(config), object->context->backend->log.get());
  });
}

// Waits for what runs on the graph, then takes it out of the table.
void FreeGraph(Qnn_GraphHandle_t handle, Log* log) {
  using Table = decltype(Runtime::graphs);
  std::unique_ptr<GraphObject> graph;
  while (Runtime::Get().graphs.Take(handle, &graph) == Table::Taken::kBusy) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  if (graph == nullptr || log == nullptr || !log->Wants(QNN_LOG_LEVEL_INFO)) return;
  GraphStats stats = graph->graph.stats();
  log->Write(QNN_LOG_LEVEL_INFO, "graph '%s' is freed after %llu executions in %llu us",
             graph->graph.name().c_str(), static_cast<unsigned long long>(stats.executes),
             static_cast<unsigned long long>(stats.execute_ns / 1000));
}

Qnn_ErrorHandle_t Free(Qnn_ContextHandle_t handle, Qnn_ProfileHandle_t profile_handle) {
  return Guarded([&] {
    Result<ProfileCall> profile = ProfileCall::Begin(profile_handle, QNN_CONTEXT_ERROR_SET_PROFILE);
    if (!profile.ok()) return Report(profile.status());
    uint64_t start = MonotonicNanoseconds();
    using Table = decltype(Runtime::contexts);
    std::unique_ptr<ContextObject> object;
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
    for (const auto& graph : context.graphs) FreeGraph(graph.second, context.backend->log.get());
    uint32_t left = Memory::Get().registry().FreeContext(context.id);
    if (left > 0 && context.backend->log != nullptr) {
      context.backend->log->Write(QNN_LOG_LEVEL_WARN,
                                  "the context was freed with %u memory handles still registered; "
                                  "they are invalid now: deregister before contextFree",
                                  left);
    }
    if (profile->scope() != nullptr) {
      profile->scope()->Add(QNN_PROFILE_EVENTTYPE_DEINIT, QNN_PROFILE_EVENTUNIT_MICROSEC,
                            (MonotonicNanoseconds() - start) / 1000, start / 1000, "deinit");
    }
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

}  // namespace

void FillContext(QnnInterface_ImplementationV2_32_t* table) {
  constexpr ErrorCode kNo = QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE;
  table->contextCreate = Create;
  table->contextSetConfig = SetConfig;
  table->contextFree = Free;
  Refuse<kNo>(&table->contextGetBinarySize);
  Refuse<kNo>(&table->contextGetBinary);
  Refuse<kNo>(&table->contextCreateFromBinary);
  Refuse<kNo>(&table->contextValidateBinary);
  Refuse<kNo>(&table->contextCreateFromBinaryWithSignal);
  Refuse<kNo>(&table->contextCreateFromBinaryListAsync);
  Refuse<kNo>(&table->contextGetBinarySectionSize);
  Refuse<kNo>(&table->contextGetBinarySection);
  Refuse<kNo>(&table->contextApplyBinarySection);
  Refuse<kNo>(&table->contextGetProperty);
  Refuse<kNo>(&table->contextGetIncrementalBinary);
  Refuse<kNo>(&table->contextReleaseIncrementalBinary);
  Refuse<kNo>(&table->contextFinalize);
  Refuse<kNo>(&table->contextCreateFromBinaryWithCallback);
  Refuse<kNo>(&table->contextGetBinarySectionUpdate);
  Refuse<kNo>(&table->contextFreeBinarySectionUpdate);
}

}  // namespace qnnrt::api
