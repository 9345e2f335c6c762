// The function tables, assembled once for each backend, and the symbols that hand them out.
#include <cstring>

#include "api/functions.h"
#include "backends/ir.h"
#include "support/version.h"

namespace qnnrt {
namespace {

template <const BackendTraits& (*kTraits)()>
struct Bound {
  static Qnn_ErrorHandle_t HasCapability(QnnProperty_Key_t key) {
    return api::HasCapability(kTraits(), key);
  }
  static Qnn_ErrorHandle_t Create(Qnn_LogHandle_t log, const QnnBackend_Config_t** config,
                                  Qnn_BackendHandle_t* backend) {
    return api::BackendCreate(kTraits(), log, config, backend);
  }
  static Qnn_ErrorHandle_t CreateDevice(Qnn_LogHandle_t log, const QnnDevice_Config_t** config,
                                        Qnn_DeviceHandle_t* device) {
    return api::DeviceCreate(kTraits(), log, config, device);
  }
  static Qnn_ErrorHandle_t SetGlobalConfig(const QnnGlobalConfig_t** config) {
    return qnnrt::SetGlobalConfig(kTraits(), config);
  }
  static Qnn_ErrorHandle_t GetApiVersion(Qnn_ApiVersion_t* version) {
    return api::GetApiVersion(kTraits(), version);
  }
};

template <>
Qnn_ErrorHandle_t Bound<IrBackend>::Create(Qnn_LogHandle_t, const QnnBackend_Config_t**,
                                           Qnn_BackendHandle_t* backend) {
  if (backend != nullptr) *backend = nullptr;
  return Report(IrBackendUnavailable());
}

template <const BackendTraits& (*kTraits)()>
const QnnInterface_t* Provider() {
  static const Qnnrt_PaddedInterface_t provider = [] {
    Qnnrt_PaddedInterface_t p;
    std::memset(&p, 0, sizeof(p));
    p.interface.backendId = kTraits().id;
    p.interface.providerName = kTraits().provider;
    p.interface.apiVersion = {kCoreApiVersion, kTraits().api_version};
    QnnInterface_ImplementationV2_32_t* table = &p.interface.v2_32;
    table->propertyHasCapability = Bound<kTraits>::HasCapability;
    table->backendCreate = Bound<kTraits>::Create;
    table->deviceCreate = Bound<kTraits>::CreateDevice;
    table->globalConfigSet = Bound<kTraits>::SetGlobalConfig;
    table->backendGetApiVersion = Bound<kTraits>::GetApiVersion;
    api::FillBackend(kTraits(), table);
    api::FillContext(kTraits(), table);
    api::FillGraph(kTraits(), table);
    api::FillTensor(kTraits(), table);
    api::FillLog(table);
    api::FillProfile(table);
    api::FillMem(kTraits(), table);
    api::FillDevice(kTraits(), table);
    api::FillEnvironment(kTraits(), table);
    api::FillSignal(kTraits(), table);
    api::FillError(table);
    return p;
  }();
  return &provider.interface;
}

template <const BackendTraits& (*... kTraits)()>
Qnn_ErrorHandle_t List(const QnnInterface_t*** list, uint32_t* n) {
  return Guarded([&]() -> Qnn_ErrorHandle_t {
    if (list == nullptr || n == nullptr) return QNN_INTERFACE_ERROR_INVALID_PARAMETER;
    static const QnnInterface_t* providers[] = {Provider<kTraits>()...};
    *list = providers;
    *n = sizeof...(kTraits);
    return QNN_SUCCESS;
  });
}

}  // namespace
}  // namespace qnnrt

extern "C" {

// What libQnnCpu.so and the others forward to: each drop-in library offers its own backend alone.
QNN_API Qnn_ErrorHandle_t qnnrt_cpu_get_providers(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt::List<qnnrt::CpuBackend>(list, n);
}
QNN_API Qnn_ErrorHandle_t qnnrt_htp_get_providers(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt::List<qnnrt::HtpBackend>(list, n);
}
QNN_API Qnn_ErrorHandle_t qnnrt_lpai_get_providers(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt::List<qnnrt::LpaiBackend>(list, n);
}

// What does not compute, for the binding and for libQnnGpu.so, which add what does.
QNN_API Qnn_ErrorHandle_t qnnrt_gpu_get_providers(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt::List<qnnrt::GpuBackend>(list, n);
}

// Nor is any graph made with this one: its table is for programs that are linked against the
// library.
QNN_API Qnn_ErrorHandle_t qnnrt_ir_get_providers(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt::List<qnnrt::IrBackend>(list, n);
}

// Every backend of this library that computes by itself.
Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt::List<qnnrt::CpuBackend, qnnrt::HtpBackend, qnnrt::LpaiBackend>(list, n);
}

}  // extern "C"
