// The function table's entries, by component. Those that differ between backends take the backend's
// traits; interface.cc binds them.
#pragma once

#include "abi/qnn_interface.h"
#include "api/profile_call.h"
#include "api/runtime.h"

namespace qnnrt::api {

Qnn_ErrorHandle_t HasCapability(const BackendTraits& traits, QnnProperty_Key_t key);
Qnn_ErrorHandle_t BackendCreate(const BackendTraits& traits, Qnn_LogHandle_t log,
                                const QnnBackend_Config_t** config, Qnn_BackendHandle_t* backend);
Qnn_ErrorHandle_t DeviceCreate(const BackendTraits& traits, Qnn_LogHandle_t log,
                               const QnnDevice_Config_t** config, Qnn_DeviceHandle_t* device);
Qnn_ErrorHandle_t GetApiVersion(const BackendTraits& traits, Qnn_ApiVersion_t* version);

// ---- lpai.cc ----
Qnn_ErrorHandle_t GetLpaiBackendProperty(Qnn_BackendHandle_t backend,
                                         QnnBackend_Property_t** properties);
Qnn_ErrorHandle_t GetLpaiGraphProperty(Qnn_GraphHandle_t graph, QnnGraph_Property_t** properties);
// Gives the graph the memory of the settings, all of it or none, and records it there.
// Errors: those of Graph::SetScratch and SetPersistent.
Status SetLpaiPools(Graph* graph, GraphSettings* settings);

// How long the data of a static tensor stays where it is: for the call, until graphFinalize, or
// until the context is freed.
enum class Lent : uint8_t { kNo, kToGraph, kToContext };
// tensorCreateGraphTensor; `strides` of a static tensor's data, null: as rows.
Qnn_ErrorHandle_t CreateTensor(Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor,
                               const int64_t* strides, Lent lent);

Status StaleContext();
// Of what makes a context: 5000 the handle is null, 5002 it is none of a live backend.
Status NoBackend(Qnn_BackendHandle_t handle);
// Graphs go with their context alone, so a handle that named one once says that the context is
// gone. `code`: for one that is not live.
Status StaleGraph(Qnn_GraphHandle_t handle, ErrorCode code = QNN_GRAPH_ERROR_INVALID_HANDLE);
// 1005 in a function of an op package that serves a node of the context: what it asks for would
// wait for it.
Status CheckNotServed(const Context& context);
Status FreeOneGraph(Qnn_GraphHandle_t handle);  // its context stays

void FillBackend(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table);
void FillContext(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table);
void FillBinary(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table);
void FillGraph(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table);
void FillTensor(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table);
void FillLog(QnnInterface_ImplementationV2_32_t* table);
void FillProfile(QnnInterface_ImplementationV2_32_t* table);
void FillMem(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table);
void FillDevice(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table);
void FillEnvironment(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table);
void FillSignal(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table);
void FillError(QnnInterface_ImplementationV2_32_t* table);

// An entry of any type that refuses: for features that a backend does not have.
template <ErrorCode kCode, typename Function>
struct Refusal;
template <ErrorCode kCode, typename... Args>
struct Refusal<kCode, Qnn_ErrorHandle_t (*)(Args...)> {
  // Drops the message of an earlier call.
  static Qnn_ErrorHandle_t Call(Args...) { return Report(Status(kCode)); }
};
template <ErrorCode kCode, typename... Args>
void Refuse(Qnn_ErrorHandle_t (**slot)(Args...)) {
  *slot = &Refusal<kCode, Qnn_ErrorHandle_t (*)(Args...)>::Call;
}

// Visits a NULL-terminated list of config pointers; a null list is an empty one.
template <typename Config, typename Visit>
Status ForEachConfig(const Config** list, Visit visit) {
  for (; list != nullptr && *list != nullptr; ++list) QNNRT_RETURN_IF_ERROR(visit(**list));
  return Status::Ok();
}

}  // namespace qnnrt::api
