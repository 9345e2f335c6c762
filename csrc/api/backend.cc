#include <cstring>

#include "abi/qnn_op_names.h"
#include "api/convert.h"
#include "api/functions.h"
#include "ops/fixed/bias_scale.h"
#include "support/threads.h"
#include "support/version.h"

namespace qnnrt::api {
namespace {

bool Contains(const uint32_t* ascending, uint32_t key) {
  for (; *ascending != 0; ++ascending) {
    if (*ascending == key) return true;
  }
  return false;
}

Status ApplyConfig(const QnnBackend_Config_t** config, uint8_t call, Backend* backend) {
  BackendOptions options;
  options.graph = backend->graph_options();
  QNNRT_RETURN_IF_ERROR(ReadBackendConfig(*backend->traits, config, call, &options));
  backend->set_graph_options(options.graph);
  if (options.domain_bytes != 0) DomainOf(*backend->traits)->SetBudget(options.domain_bytes);
  if (call != kAtCreate) return Status::Ok();
  backend->lpai = options.lpai;
  backend->record = std::move(options.record);
  return Status::Ok();
}

Status StaleBackend() {
  return Status(QNN_BACKEND_ERROR_INVALID_HANDLE, "this is no live backend handle");
}

Qnn_ErrorHandle_t SetConfig(Qnn_BackendHandle_t handle, const QnnBackend_Config_t** config) {
  return Guarded([&] {
    auto backend = Runtime::Get().backends.Find(handle);
    if (!backend) return Report(StaleBackend());
    return Report(ApplyConfig(config, kAtSet, backend->backend.get()), backend->backend->log.get());
  });
}

Qnn_ErrorHandle_t GetBuildId(const char** id) {
  if (id == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
  *id = kBuildId;
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t GetSupportedOperations(Qnn_BackendHandle_t handle, uint32_t* count,
                                         const QnnBackend_OperationName_t** operations) {
  return Guarded([&] {
    if (count == nullptr || operations == nullptr)
      return Report(
          Status(QNN_BACKEND_ERROR_INVALID_ARGUMENT, "count and operations must not be null"));
    auto backend = Runtime::Get().backends.Find(handle);
    if (!backend) return Report(StaleBackend());
    const auto& all = backend->backend->packages.List(backend->backend->operations);
    *count = static_cast<uint32_t>(all.size());
    *operations = all.data();
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Status CheckTakesPackages(const Backend& backend) {
  if (backend.traits->op_packages) return Status::Ok();
  return Error(
      QNN_BACKEND_ERROR_NOT_SUPPORTED,
      "%s takes no op packages: their ops run on the processor, on the cpu and htp backends",
      backend.traits->provider);
}

using OpPackagePtr = std::shared_ptr<OpPackage>;

// `open` is called where the backend takes packages, with its log.
Qnn_ErrorHandle_t AddPackage(Qnn_BackendHandle_t handle,
                             FunctionRef<Result<OpPackagePtr>(Log*)> open) {
  return Guarded([&] {
    auto object = Runtime::Get().backends.Find(handle);
    if (!object) return Report(StaleBackend());
    Backend& backend = *object->backend;
    const auto add = [&]() -> Status {
      QNNRT_RETURN_IF_ERROR(CheckTakesPackages(backend));
      QNNRT_ASSIGN_OR_RETURN(OpPackagePtr package, open(backend.log.get()));
      return backend.packages.Add(std::move(package));
    };
    return Report(add(), backend.log.get());
  });
}

Qnn_ErrorHandle_t RegisterOpPackage(Qnn_BackendHandle_t handle, const char* path,
                                    const char* provider, const char* target) {
  return AddPackage(handle, [&](Log* log) -> Result<OpPackagePtr> {
    if (path == nullptr || *path == '\0' || provider == nullptr || *provider == '\0') {
      return Status(QNN_BACKEND_ERROR_INVALID_ARGUMENT,
                    "an op package needs the path of its library and the name of its provider");
    }
    if (target != nullptr && *target != '\0' &&
        std::strcmp(target, QNNRT_OP_PACKAGE_TARGET_CPU) != 0) {
      return Error(QNN_BACKEND_ERROR_INVALID_ARGUMENT,
                   "op package %s: target '%s' is not supported; ops run on '%s'", path, target,
                   QNNRT_OP_PACKAGE_TARGET_CPU);
    }
    return OpPackage::Open(path, provider, log);
  });
}

Status ValidateConfig(const Backend& backend, const Qnn_OpConfig_t& config) {
  QNNRT_ASSIGN_OR_RETURN(NodeAlone alone, NodeAloneFromQnn(config, backend.packages));
  Node& node = alone.node;
  const std::optional<Tensor> bias = BiasOfProducts(node);
  if (bias) node.inputs[2] = &*bias;
  QNNRT_RETURN_IF_ERROR(ValidateClientNode(&node));
  const auto admit = backend.traits->admit;
  if (admit != nullptr) QNNRT_RETURN_IF_ERROR(admit(node));
  return CheckOutputs(node);
}

Qnn_ErrorHandle_t ValidateOpConfig(Qnn_BackendHandle_t handle, Qnn_OpConfig_t config) {
  return Guarded([&] {
    auto backend = Runtime::Get().backends.Find(handle);
    if (!backend) return Report(StaleBackend());
    Status status = ValidateConfig(*backend->backend, config);
    Log* log = backend->backend->log.get();
    // Clients ask for every node of a model, and go on without those that are refused: no error.
    if (!status.ok() && log != nullptr)
      log->Write(QNN_LOG_LEVEL_WARN, "not supported: %s", status.message().c_str());
    return Report(status);
  });
}

Qnn_ErrorHandle_t FreeBackend(Qnn_BackendHandle_t handle) {
  return Guarded([&] {
    using Table = decltype(Runtime::backends);
    std::unique_ptr<BackendObject> object;
    switch (Runtime::Get().backends.Take(handle, &object)) {
      case Table::Taken::kYes:
        return Qnn_ErrorHandle_t{QNN_SUCCESS};
      case Table::Taken::kBusy:
        return Report(Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                             "the backend is in use by a call on another thread"));
      default:
        return Report(StaleBackend());
    }
  });
}

}  // namespace

Qnn_ErrorHandle_t HasCapability(const BackendTraits& traits, QnnProperty_Key_t key) {
  if (!Contains(kKnownProperties, key)) return QNN_PROPERTY_ERROR_UNKNOWN_KEY;
  return Contains(traits.capabilities, key) ? QNN_PROPERTY_SUPPORTED : QNN_PROPERTY_NOT_SUPPORTED;
}

Qnn_ErrorHandle_t BackendCreate(const BackendTraits& traits, Qnn_LogHandle_t log_handle,
                                const QnnBackend_Config_t** config, Qnn_BackendHandle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr)
      return Report(Status(QNN_BACKEND_ERROR_INVALID_ARGUMENT,
                           "the backend handle to fill in must not be null"));
    *handle = nullptr;
    auto backend = std::make_shared<Backend>();
    backend->traits = &traits;
    if (log_handle != nullptr) {
      auto log = Runtime::Get().logs.Find(log_handle);
      if (!log)
        return Report(Status(QNN_BACKEND_ERROR_INVALID_ARGUMENT, "the log handle is not live"));
      backend->log = log->log;
    }
    Status status = ApplyConfig(config, kAtCreate, backend.get());
    if (!status.ok()) return Report(status, backend->log.get());
    for (const OpDef* op : AllOps()) {
      if (traits.takes_op == nullptr || traits.takes_op(*op))
        backend->operations.push_back({QNN_OP_PACKAGE_NAME_QTI_AISW, op->type, "CPU"});
    }
    auto object = std::make_unique<BackendObject>();
    object->backend = std::move(backend);
    *handle = Runtime::Get().backends.Add(std::move(object));
    if (*handle == nullptr)
      return Report(Status(QNN_BACKEND_ERROR_MEM_ALLOC, "too many live backends"));
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

uint64_t RegisterOps(Qnn_BackendHandle_t handle, const QnnOpPackage_Interface_t* interface) {
  return AddPackage(handle, [&](Log* log) -> Result<OpPackagePtr> {
    if (interface == nullptr)
      return Status(QNN_BACKEND_ERROR_INVALID_ARGUMENT, "the interface must not be null");
    return OpPackage::Of(*interface, log);
  });
}

Qnn_ErrorHandle_t GetApiVersion(const BackendTraits& traits, Qnn_ApiVersion_t* version) {
  if (version == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
  *version = {kCoreApiVersion, traits.api_version};
  return QNN_SUCCESS;
}

void FillBackend(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table) {
  table->backendSetConfig = SetConfig;
  table->backendGetBuildId = GetBuildId;
  table->backendRegisterOpPackage = RegisterOpPackage;
  table->backendGetSupportedOperations = GetSupportedOperations;
  table->backendValidateOpConfig = ValidateOpConfig;
  table->backendFree = FreeBackend;
  Refuse<QNN_BACKEND_ERROR_NOT_SUPPORTED>(&table->backendGetProperty);
  if (traits.configs == ConfigSet::kLpai) table->backendGetProperty = GetLpaiBackendProperty;
}

}  // namespace qnnrt::api

extern "C" QNN_API uint64_t qnnrt_backend_register_ops(Qnn_BackendHandle_t backend,
                                                       const QnnOpPackage_Interface_t* interface) {
  return qnnrt::api::RegisterOps(backend, interface);
}
