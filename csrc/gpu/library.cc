// The function table of libQnnGpu.so: the runtime's for the gpu backend, but what computes and what
// memory is. The binding's library (qnnrt/gpu/library.py) replaces the same entries by Python's.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "abi/qnn_interface.h"
#include "api/convert.h"
#include "api/functions.h"
#include "gpu/binary.h"
#include "gpu/graph.h"
#include "graph/lowering.h"
#include "support/clock.h"

extern "C" Qnn_ErrorHandle_t qnnrt_gpu_get_providers(const QnnInterface_t*** list, uint32_t* n);

namespace qnnrt::gpu {
namespace {

const QnnInterface_ImplementationV2_32_t& Runtimes();

// ---- graphs

// Whether a config of qnnrt_gpu_config's text is on. In strings quotes have backslashes.
bool IsOn(const std::string& configs, const char* name) {
  return configs.find("\"" + std::string(name) + "\":true") != std::string::npos;
}

Status Prepare(Qnn_GraphHandle_t handle, GraphObject* graph) {
  const uint64_t started = MonotonicNanoseconds();
  Log* log = graph->context->backend->log.get();
  const std::string name = graph->graph.name();
  const LogLine say = [&](QnnLog_Level_t level, const std::string& text) {
    if (log != nullptr && log->Wants(level))
      log->Write(level, "graph '%s': %s", name.c_str(), text.c_str());
  };
  const std::shared_ptr<Context> context = Contexts::Get().Of(graph->context->id);
  QNNRT_ASSIGN_OR_RETURN(const Device device, context->DeviceNow());
  QNNRT_ASSIGN_OR_RETURN(const OpenCl* cl, OpenCl::Get());
  const char* configs = qnnrt_gpu_config(handle);
  CompileRequest request;
  request.name = name;
  request.configs = configs == nullptr ? "{}" : configs;
  request.device_facts = FactsOf(*cl, device);
  request.device = device.Identity();
  request.memory_bytes = device.memory_bytes;
  if (request.configs.find("\"PERF_HINT\":") != std::string::npos)
    say(QNN_LOG_LEVEL_WARN, "PERF_HINT has no effect in libQnnGpu.so");
  const bool fewer = IsOn(request.configs, "disableNodeOptimizations");
  QNNRT_ASSIGN_OR_RETURN(request.lowered,
                         graph->graph.Lower(fewer ? PassLevel::kConstants : PassLevel::kFunctions));
  const bool nodes = !IsOn(request.configs, "DISABLE_KERNEL_PROFILING");
  Result<Graph*> made = context->Prepare(request, nodes ? QNNRT_OPENCL_PROFILE_NODES : 0, say);
  if (!made.ok()) return std::move(made).status().Within("graph '" + name + "'");
  return graph->executable.Give((*made)->ExecutorFrom(started));
}

Qnn_ErrorHandle_t Finalize(Qnn_GraphHandle_t handle, Qnn_ProfileHandle_t profile,
                           Qnn_SignalHandle_t signal) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    auto graph = Runtime::Get().graphs.Find(handle);
    if (!graph) return Report(api::StaleGraph(handle));
    if (signal == nullptr && !graph->executable.finalized()) {
      Status prepared = Prepare(handle, &*graph);
      if (!prepared.ok()) return Report(prepared, graph->context->backend->log.get());
    }
    const Qnn_ErrorHandle_t code = Runtimes().graphFinalize(handle, profile, signal);
    if (code != QNN_SUCCESS) return code;
    return Report(graph->graph.ReleaseConstants(nullptr, 0));
  });
}

// ---- memory

Qnn_ErrorHandle_t MemRegister(Qnn_ContextHandle_t handle, const Qnn_MemDescriptor_t* descriptors,
                              uint32_t count, Qnn_MemHandle_t* handles) {
  return Guarded([&] {
    ClearHandles(descriptors, count, handles);
    auto object = Runtime::Get().contexts.Find(handle);
    if (!object)
      return Report(Status(QNN_MEM_ERROR_INVALID_HANDLE, "this is no live context handle"));
    Log* log = object->context->backend->log.get();
    if (descriptors == nullptr || handles == nullptr || count == 0) {
      return Report(Status(QNN_MEM_ERROR_INVALID_ARGUMENT,
                           "expected at least one descriptor and room for its handle"),
                    log);
    }
    return Report(Contexts::Get().Of(object->context->id)->Register(descriptors, count, handles),
                  log);
  });
}

Qnn_ErrorHandle_t MemDeRegister(const Qnn_MemHandle_t* handles, uint32_t count) {
  return Guarded([&] {
    if (handles == nullptr || count == 0)
      return Report(Status(QNN_MEM_ERROR_INVALID_ARGUMENT, "expected at least one handle"));
    uint32_t bad = 0;
    const auto contexts = Contexts::Get().All();
    for (uint32_t i = 0; i < count; ++i) {
      bad += std::none_of(contexts.begin(), contexts.end(),
                          [&](const auto& context) { return context->Deregister(handles[i]); });
    }
    if (bad == 0) return Qnn_ErrorHandle_t{QNN_SUCCESS};
    return Report(Error(QNN_MEM_ERROR_INVALID_HANDLE,
                        "%u of the handles are not registered (any more)", bad));
  });
}

// ---- backends and contexts

std::atomic<uint32_t> live_backends{0};

Qnn_ErrorHandle_t BackendCreate(Qnn_LogHandle_t log, const QnnBackend_Config_t** config,
                                Qnn_BackendHandle_t* backend) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    if (backend != nullptr) *backend = nullptr;
    const auto device = []() -> Status {
      QNNRT_ASSIGN_OR_RETURN(const OpenCl* cl, OpenCl::Get());
      return Choose(*cl).status();
    };
    Status there = device();
    if (there.ok()) {
      const Qnn_ErrorHandle_t code = Runtimes().backendCreate(log, config, backend);
      if (code == QNN_SUCCESS) live_backends.fetch_add(1);
      return code;
    }
    auto object = Runtime::Get().logs.Find(log);
    return Report(there, object ? object->log.get() : nullptr);
  });
}

Qnn_ErrorHandle_t BackendFree(Qnn_BackendHandle_t handle) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    const Qnn_ErrorHandle_t code = Runtimes().backendFree(handle);
    if (code == QNN_SUCCESS && live_backends.fetch_sub(1) == 1) StopStandby();
    return code;
  });
}

// A node that the runtime has found valid.
Status CheckKernels(Qnn_BackendHandle_t handle, const Backend& backend,
                    const Qnn_OpConfig_t& config, const LogLine& say) {
  QNNRT_ASSIGN_OR_RETURN(NodeAlone alone, NodeAloneFromQnn(config, backend.packages));
  for (Tensor& t : alone.tensors) {
    if (t.type == QNN_TENSOR_TYPE_STATIC)
      t.data = AlignedBytes::Absent(t.elements() * ElementSize(t.dtype));
  }
  const char* configs = qnnrt_gpu_config(handle);
  QNNRT_ASSIGN_OR_RETURN(const OpenCl* cl, OpenCl::Get());
  QNNRT_ASSIGN_OR_RETURN(const Device device, Choose(*cl));
  return CheckNode(configs == nullptr ? "{}" : configs, FactsOf(*cl, device),
                   DescribeNode(alone.node), say);
}

Qnn_ErrorHandle_t ValidateOpConfig(Qnn_BackendHandle_t handle, Qnn_OpConfig_t config) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    const Qnn_ErrorHandle_t code = Runtimes().backendValidateOpConfig(handle, config);
    if (code != QNN_SUCCESS) return code;
    auto backend = Runtime::Get().backends.Find(handle);
    Log* log = backend->backend->log.get();
    const LogLine say = [&](QnnLog_Level_t level, const std::string& text) {
      if (log != nullptr && log->Wants(level)) log->Write(level, "%s", text.c_str());
    };
    Status status = CheckKernels(handle, *backend->backend, config, say);
    // Clients ask for every node of a model, and go on without those that are refused: no error.
    if (!status.ok()) say(QNN_LOG_LEVEL_WARN, "not supported: " + status.message());
    return Report(status);
  });
}

Qnn_ErrorHandle_t ContextFree(Qnn_ContextHandle_t handle, Qnn_ProfileHandle_t profile) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    uint64_t id = 0;
    if (auto object = Runtime::Get().contexts.Find(handle)) id = object->context->id;
    const Qnn_ErrorHandle_t code = Runtimes().contextFree(handle, profile);
    // Then nothing executes, and nobody finds the context any more.
    if (code == QNN_SUCCESS) Contexts::Get().Drop(id);
    return code;
  });
}

// What the binding's backend has not.
Qnn_ErrorHandle_t HasCapability(QnnProperty_Key_t key) {
  switch (key) {
    case QNN_PROPERTY_CONTEXT_SUPPORT_CACHING:
    case QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_ENABLE_GRAPHS:
    case QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_PERSISTENT_BINARY:
    case QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_BINARY_COMPATIBILITY_TYPE:
    case QNN_PROPERTY_CONTEXT_SUPPORT_VALIDATE_BINARY:
      return QNN_PROPERTY_SUPPORTED;
    default:
      return Runtimes().propertyHasCapability(key);
  }
}

// ---- the table

const QnnInterface_t& RuntimesProvider() {
  static const QnnInterface_t* const provider = [] {
    const QnnInterface_t** list = nullptr;
    uint32_t count = 0;
    (void)qnnrt_gpu_get_providers(&list, &count);
    return list[0];
  }();
  return *provider;
}

const QnnInterface_ImplementationV2_32_t& Runtimes() { return RuntimesProvider().v2_32; }

const QnnInterface_t* Provider() {
  static const Qnnrt_PaddedInterface_t provider = [] {
    Qnnrt_PaddedInterface_t p;
    std::memset(&p, 0, sizeof p);
    p.interface = RuntimesProvider();
    QnnInterface_ImplementationV2_32_t* table = &p.interface.v2_32;
    table->backendCreate = BackendCreate;
    table->backendFree = BackendFree;
    table->backendValidateOpConfig = ValidateOpConfig;
    table->contextFree = ContextFree;
    table->contextGetBinarySize = SizeOfBinary;
    table->contextGetBinary = SaveBinary;
    table->contextCreateFromBinary = LoadBinary;
    table->contextCreateFromBinaryWithSignal = LoadBinaryWithSignal;
    table->contextValidateBinary = CheckBinary;
    table->propertyHasCapability = HasCapability;
    table->graphFinalize = Finalize;
    table->memRegister = MemRegister;
    table->memDeRegister = MemDeRegister;
    return p;
  }();
  return &provider.interface;
}

}  // namespace
}  // namespace qnnrt::gpu

extern "C" {

// What libQnnGpu.so forwards to.
QNN_API Qnn_ErrorHandle_t qnnrt_opencl_get_providers(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    if (list == nullptr || n == nullptr) return QNN_INTERFACE_ERROR_INVALID_PARAMETER;
    static const QnnInterface_t* providers[] = {qnnrt::gpu::Provider()};
    *list = providers;
    *n = 1;
    return QNN_SUCCESS;
  });
}

}  // extern "C"
