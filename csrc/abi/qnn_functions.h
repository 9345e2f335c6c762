// The API as functions, made by tools/abi.py; do not edit. For programs that call
// QnnMem_register(...) rather than table->memRegister(...).
//
// All sources of one program or library share one choice: qnnrt_use_interface(provider) with one
// that QnnInterface_getProviders listed, and qnnrt_use_system_interface likewise. A function
// returns QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED before that, QNN_COMMON_ERROR_NOT_SUPPORTED
// where the provider's table has no such entry.
#pragma once

#include <stddef.h>

#include "qnn_errors.h"
#include "qnn_interface.h"
#include "qnn_system.h"
#include "qnn_versions.h"

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((weak, visibility("hidden")))
const QnnInterface_ImplementationV2_32_t* qnnrt_chosen_interface;
__attribute__((weak, visibility("hidden")))
const QnnSystemInterface_ImplementationV1_7_t* qnnrt_chosen_system_interface;

// NULL: none any more. Refused with QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES: a provider of another
// major version, or one whose table may be shorter than this header's.
static inline Qnn_ErrorHandle_t qnnrt_use_interface(const QnnInterface_t* provider) {
  if (provider != NULL) {
    const Qnn_Version_t* core = &provider->apiVersion.coreApiVersion;
    if (core->major != QNN_API_VERSION_MAJOR || core->minor < QNN_API_VERSION_MINOR)
      return QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES;
  }
  qnnrt_chosen_interface = provider == NULL ? NULL : &provider->v2_32;
  return QNN_SUCCESS;
}

static inline Qnn_ErrorHandle_t qnnrt_use_system_interface(const QnnSystemInterface_t* provider) {
  if (provider != NULL) {
    const Qnn_Version_t* version = &provider->systemApiVersion;
    if (version->major != QNN_SYSTEM_API_VERSION_MAJOR ||
        version->minor < QNN_SYSTEM_API_VERSION_MINOR)
      return QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES;
  }
  qnnrt_chosen_system_interface = provider == NULL ? NULL : &provider->v1_7;
  return QNN_SUCCESS;
}

// clang-format off

static inline Qnn_ErrorHandle_t QnnProperty_hasCapability(QnnProperty_Key_t key) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->propertyHasCapability == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->propertyHasCapability(key);
}

static inline Qnn_ErrorHandle_t QnnBackend_create(Qnn_LogHandle_t log,
    const QnnBackend_Config_t** config, Qnn_BackendHandle_t* backend) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->backendCreate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->backendCreate(log, config, backend);
}

static inline Qnn_ErrorHandle_t QnnBackend_setConfig(Qnn_BackendHandle_t backend,
    const QnnBackend_Config_t** config) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->backendSetConfig == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->backendSetConfig(backend, config);
}

static inline Qnn_ErrorHandle_t QnnBackend_getApiVersion(Qnn_ApiVersion_t* version) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->backendGetApiVersion == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->backendGetApiVersion(version);
}

static inline Qnn_ErrorHandle_t QnnBackend_getBuildId(const char** id) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->backendGetBuildId == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->backendGetBuildId(id);
}

static inline Qnn_ErrorHandle_t QnnBackend_registerOpPackage(Qnn_BackendHandle_t backend,
    const char* packagePath, const char* interfaceProvider, const char* target) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->backendRegisterOpPackage == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->backendRegisterOpPackage(backend, packagePath, interfaceProvider, target);
}

static inline Qnn_ErrorHandle_t QnnBackend_getSupportedOperations(Qnn_BackendHandle_t backend,
    uint32_t* count, const QnnBackend_OperationName_t** operations) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->backendGetSupportedOperations == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->backendGetSupportedOperations(backend, count, operations);
}

static inline Qnn_ErrorHandle_t QnnBackend_validateOpConfig(Qnn_BackendHandle_t backend,
    Qnn_OpConfig_t opConfig) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->backendValidateOpConfig == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->backendValidateOpConfig(backend, opConfig);
}

static inline Qnn_ErrorHandle_t QnnBackend_free(Qnn_BackendHandle_t backend) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->backendFree == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->backendFree(backend);
}

static inline Qnn_ErrorHandle_t QnnContext_create(Qnn_BackendHandle_t backend,
    Qnn_DeviceHandle_t device, const QnnContext_Config_t** config, Qnn_ContextHandle_t* context) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextCreate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextCreate(backend, device, config, context);
}

static inline Qnn_ErrorHandle_t QnnContext_setConfig(Qnn_ContextHandle_t context,
    const QnnContext_Config_t** config) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextSetConfig == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextSetConfig(context, config);
}

static inline Qnn_ErrorHandle_t QnnContext_getBinarySize(Qnn_ContextHandle_t context,
    Qnn_ContextBinarySize_t* size) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextGetBinarySize == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextGetBinarySize(context, size);
}

static inline Qnn_ErrorHandle_t QnnContext_getBinary(Qnn_ContextHandle_t context, void* buffer,
    Qnn_ContextBinarySize_t bufferSize, Qnn_ContextBinarySize_t* writtenSize) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextGetBinary == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextGetBinary(context, buffer, bufferSize, writtenSize);
}

static inline Qnn_ErrorHandle_t QnnContext_createFromBinary(Qnn_BackendHandle_t backend,
    Qnn_DeviceHandle_t device, const QnnContext_Config_t** config, const void* binary,
    Qnn_ContextBinarySize_t binarySize, Qnn_ContextHandle_t* context, Qnn_ProfileHandle_t profile) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextCreateFromBinary == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextCreateFromBinary(backend, device, config, binary, binarySize, context,
      profile);
}

static inline Qnn_ErrorHandle_t QnnContext_free(Qnn_ContextHandle_t context,
    Qnn_ProfileHandle_t profile) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextFree == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextFree(context, profile);
}

static inline Qnn_ErrorHandle_t QnnGraph_create(Qnn_ContextHandle_t context, const char* name,
    const QnnGraph_Config_t** config, Qnn_GraphHandle_t* graph) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphCreate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphCreate(context, name, config, graph);
}

static inline Qnn_ErrorHandle_t QnnGraph_createSubgraph(Qnn_GraphHandle_t graph, const char* name,
    Qnn_GraphHandle_t* subgraph) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphCreateSubgraph == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphCreateSubgraph(graph, name, subgraph);
}

static inline Qnn_ErrorHandle_t QnnGraph_setConfig(Qnn_GraphHandle_t graph,
    const QnnGraph_Config_t** config) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphSetConfig == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphSetConfig(graph, config);
}

static inline Qnn_ErrorHandle_t QnnGraph_addNode(Qnn_GraphHandle_t graph, Qnn_OpConfig_t opConfig) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphAddNode == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphAddNode(graph, opConfig);
}

static inline Qnn_ErrorHandle_t QnnGraph_finalize(Qnn_GraphHandle_t graph,
    Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphFinalize == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphFinalize(graph, profile, signal);
}

static inline Qnn_ErrorHandle_t QnnGraph_retrieve(Qnn_ContextHandle_t context, const char* name,
    Qnn_GraphHandle_t* graph) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphRetrieve == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphRetrieve(context, name, graph);
}

static inline Qnn_ErrorHandle_t QnnGraph_execute(Qnn_GraphHandle_t graph,
    const Qnn_Tensor_t* inputs, uint32_t numInputs, Qnn_Tensor_t* outputs, uint32_t numOutputs,
    Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphExecute == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphExecute(graph, inputs, numInputs, outputs, numOutputs, profile, signal);
}

static inline Qnn_ErrorHandle_t QnnGraph_executeAsync(Qnn_GraphHandle_t graph,
    const Qnn_Tensor_t* inputs, uint32_t numInputs, Qnn_Tensor_t* outputs, uint32_t numOutputs,
    Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal, Qnn_NotifyFn_t notify,
    void* notifyParam) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphExecuteAsync == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphExecuteAsync(graph, inputs, numInputs, outputs, numOutputs, profile, signal,
      notify, notifyParam);
}

static inline Qnn_ErrorHandle_t QnnTensor_createContextTensor(Qnn_ContextHandle_t context,
    Qnn_Tensor_t* tensor) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->tensorCreateContextTensor == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->tensorCreateContextTensor(context, tensor);
}

static inline Qnn_ErrorHandle_t QnnTensor_createGraphTensor(Qnn_GraphHandle_t graph,
    Qnn_Tensor_t* tensor) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->tensorCreateGraphTensor == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->tensorCreateGraphTensor(graph, tensor);
}

static inline Qnn_ErrorHandle_t QnnLog_create(QnnLog_Callback_t callback, QnnLog_Level_t maxLevel,
    Qnn_LogHandle_t* log) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->logCreate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->logCreate(callback, maxLevel, log);
}

static inline Qnn_ErrorHandle_t QnnLog_setLogLevel(Qnn_LogHandle_t log, QnnLog_Level_t maxLevel) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->logSetLogLevel == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->logSetLogLevel(log, maxLevel);
}

static inline Qnn_ErrorHandle_t QnnLog_free(Qnn_LogHandle_t log) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->logFree == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->logFree(log);
}

static inline Qnn_ErrorHandle_t QnnProfile_create(Qnn_BackendHandle_t backend,
    QnnProfile_Level_t level, Qnn_ProfileHandle_t* profile) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->profileCreate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->profileCreate(backend, level, profile);
}

static inline Qnn_ErrorHandle_t QnnProfile_setConfig(Qnn_ProfileHandle_t profile,
    const QnnProfile_Config_t** config) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->profileSetConfig == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->profileSetConfig(profile, config);
}

static inline Qnn_ErrorHandle_t QnnProfile_getEvents(Qnn_ProfileHandle_t profile,
    const QnnProfile_EventId_t** events, uint32_t* count) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->profileGetEvents == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->profileGetEvents(profile, events, count);
}

static inline Qnn_ErrorHandle_t QnnProfile_getSubEvents(QnnProfile_EventId_t event,
    const QnnProfile_EventId_t** subEvents, uint32_t* count) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->profileGetSubEvents == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->profileGetSubEvents(event, subEvents, count);
}

static inline Qnn_ErrorHandle_t QnnProfile_getEventData(QnnProfile_EventId_t event,
    QnnProfile_EventData_t* data) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->profileGetEventData == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->profileGetEventData(event, data);
}

static inline Qnn_ErrorHandle_t QnnProfile_getExtendedEventData(QnnProfile_EventId_t event,
    QnnProfile_ExtendedEventData_t* data) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->profileGetExtendedEventData == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->profileGetExtendedEventData(event, data);
}

static inline Qnn_ErrorHandle_t QnnProfile_free(Qnn_ProfileHandle_t profile) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->profileFree == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->profileFree(profile);
}

static inline Qnn_ErrorHandle_t QnnMem_register(Qnn_ContextHandle_t context,
    const Qnn_MemDescriptor_t* descriptors, uint32_t count, Qnn_MemHandle_t* handles) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->memRegister == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->memRegister(context, descriptors, count, handles);
}

static inline Qnn_ErrorHandle_t QnnMem_deRegister(const Qnn_MemHandle_t* handles, uint32_t count) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->memDeRegister == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->memDeRegister(handles, count);
}

static inline Qnn_ErrorHandle_t QnnDevice_getPlatformInfo(Qnn_LogHandle_t log,
    const QnnDevice_PlatformInfo_t** info) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->deviceGetPlatformInfo == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->deviceGetPlatformInfo(log, info);
}

static inline Qnn_ErrorHandle_t QnnDevice_freePlatformInfo(Qnn_LogHandle_t log,
    const QnnDevice_PlatformInfo_t* info) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->deviceFreePlatformInfo == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->deviceFreePlatformInfo(log, info);
}

static inline Qnn_ErrorHandle_t QnnDevice_getInfrastructure(const QnnDevice_Infrastructure_t* infrastructure)
    {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->deviceGetInfrastructure == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->deviceGetInfrastructure(infrastructure);
}

static inline Qnn_ErrorHandle_t QnnDevice_create(Qnn_LogHandle_t log,
    const QnnDevice_Config_t** config, Qnn_DeviceHandle_t* device) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->deviceCreate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->deviceCreate(log, config, device);
}

static inline Qnn_ErrorHandle_t QnnDevice_setConfig(Qnn_DeviceHandle_t device,
    const QnnDevice_Config_t** config) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->deviceSetConfig == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->deviceSetConfig(device, config);
}

static inline Qnn_ErrorHandle_t QnnDevice_getInfo(Qnn_DeviceHandle_t device,
    const QnnDevice_PlatformInfo_t** info) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->deviceGetInfo == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->deviceGetInfo(device, info);
}

static inline Qnn_ErrorHandle_t QnnDevice_free(Qnn_DeviceHandle_t device) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->deviceFree == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->deviceFree(device);
}

static inline Qnn_ErrorHandle_t QnnSignal_create(Qnn_BackendHandle_t backend,
    const QnnSignal_Config_t** config, Qnn_SignalHandle_t* signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->signalCreate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->signalCreate(backend, config, signal);
}

static inline Qnn_ErrorHandle_t QnnSignal_setConfig(Qnn_SignalHandle_t signal,
    const QnnSignal_Config_t** config) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->signalSetConfig == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->signalSetConfig(signal, config);
}

static inline Qnn_ErrorHandle_t QnnSignal_trigger(Qnn_SignalHandle_t signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->signalTrigger == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->signalTrigger(signal);
}

static inline Qnn_ErrorHandle_t QnnSignal_free(Qnn_SignalHandle_t signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->signalFree == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->signalFree(signal);
}

static inline Qnn_ErrorHandle_t QnnError_getMessage(Qnn_ErrorHandle_t error, const char** message) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->errorGetMessage == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->errorGetMessage(error, message);
}

static inline Qnn_ErrorHandle_t QnnError_getVerboseMessage(Qnn_ErrorHandle_t error,
    const char** message) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->errorGetVerboseMessage == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->errorGetVerboseMessage(error, message);
}

static inline Qnn_ErrorHandle_t QnnError_freeVerboseMessage(const char* message) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->errorFreeVerboseMessage == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->errorFreeVerboseMessage(message);
}

static inline Qnn_ErrorHandle_t QnnGraph_prepareExecutionEnvironment(Qnn_GraphHandle_t graph,
    QnnGraph_ExecuteEnvironment_t** environments, uint32_t count) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphPrepareExecutionEnvironment == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphPrepareExecutionEnvironment(graph, environments, count);
}

static inline Qnn_ErrorHandle_t QnnGraph_releaseExecutionEnvironment(Qnn_GraphHandle_t graph,
    const QnnGraph_ExecuteEnvironment_t** environments, uint32_t count) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphReleaseExecutionEnvironment == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphReleaseExecutionEnvironment(graph, environments, count);
}

static inline Qnn_ErrorHandle_t QnnGraph_getProperty(Qnn_GraphHandle_t graph,
    QnnGraph_Property_t** properties) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->graphGetProperty == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->graphGetProperty(graph, properties);
}

static inline Qnn_ErrorHandle_t QnnContext_validateBinary(Qnn_BackendHandle_t backend,
    Qnn_DeviceHandle_t device, const QnnContext_Config_t** config, const void* binary,
    Qnn_ContextBinarySize_t binarySize) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextValidateBinary == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextValidateBinary(backend, device, config, binary, binarySize);
}

static inline Qnn_ErrorHandle_t QnnContext_createFromBinaryWithSignal(Qnn_BackendHandle_t backend,
    Qnn_DeviceHandle_t device, const QnnContext_Config_t** config, const void* binary,
    Qnn_ContextBinarySize_t binarySize, Qnn_ContextHandle_t* context, Qnn_ProfileHandle_t profile,
    Qnn_SignalHandle_t signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextCreateFromBinaryWithSignal == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextCreateFromBinaryWithSignal(backend, device, config, binary, binarySize,
      context, profile, signal);
}

static inline Qnn_ErrorHandle_t QnnContext_createFromBinaryListAsync(Qnn_BackendHandle_t backend,
    Qnn_DeviceHandle_t device, const QnnContext_Params_t** params,
    const QnnContext_Config_t** listConfig, Qnn_SignalHandle_t signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextCreateFromBinaryListAsync == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextCreateFromBinaryListAsync(backend, device, params, listConfig, signal);
}

static inline Qnn_ErrorHandle_t QnnTensor_updateGraphTensors(Qnn_GraphHandle_t graph,
    const Qnn_Tensor_t** tensors, uint64_t count) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->tensorUpdateGraphTensors == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->tensorUpdateGraphTensors(graph, tensors, count);
}

static inline Qnn_ErrorHandle_t QnnTensor_updateContextTensors(Qnn_ContextHandle_t context,
    const Qnn_Tensor_t** tensors, uint64_t count) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->tensorUpdateContextTensors == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->tensorUpdateContextTensors(context, tensors, count);
}

static inline Qnn_ErrorHandle_t QnnContext_getBinarySectionSize(Qnn_ContextHandle_t context,
    Qnn_GraphHandle_t graph, QnnContext_SectionType_t section, Qnn_ContextBinarySize_t* size) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextGetBinarySectionSize == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextGetBinarySectionSize(context, graph, section, size);
}

static inline Qnn_ErrorHandle_t QnnContext_getBinarySection(Qnn_ContextHandle_t context,
    Qnn_GraphHandle_t graph, QnnContext_SectionType_t section, const QnnContext_Buffer_t* buffer,
    Qnn_ContextBinarySize_t* writtenSize, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextGetBinarySection == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextGetBinarySection(context, graph, section, buffer, writtenSize, profile,
      signal);
}

static inline Qnn_ErrorHandle_t QnnContext_applyBinarySection(Qnn_ContextHandle_t context,
    Qnn_GraphHandle_t graph, QnnContext_SectionType_t section, const QnnContext_Buffer_t* buffer,
    Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextApplyBinarySection == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextApplyBinarySection(context, graph, section, buffer, profile, signal);
}

static inline Qnn_ErrorHandle_t QnnBackend_getProperty(Qnn_BackendHandle_t backend,
    QnnBackend_Property_t** properties) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->backendGetProperty == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->backendGetProperty(backend, properties);
}

static inline Qnn_ErrorHandle_t QnnContext_getProperty(Qnn_ContextHandle_t context,
    QnnContext_Property_t** properties) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextGetProperty == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextGetProperty(context, properties);
}

static inline Qnn_ErrorHandle_t QnnContext_getIncrementalBinary(Qnn_ContextHandle_t context,
    const void** binary, Qnn_ContextBinarySize_t* startOffset, Qnn_ContextBinarySize_t* writtenSize)
    {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextGetIncrementalBinary == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextGetIncrementalBinary(context, binary, startOffset, writtenSize);
}

static inline Qnn_ErrorHandle_t QnnContext_releaseIncrementalBinary(Qnn_ContextHandle_t context,
    const void* binary, Qnn_ContextBinarySize_t startOffset) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextReleaseIncrementalBinary == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextReleaseIncrementalBinary(context, binary, startOffset);
}

static inline Qnn_ErrorHandle_t QnnContext_finalize(Qnn_ContextHandle_t context,
    Qnn_ProfileHandle_t profile) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextFinalize == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextFinalize(context, profile);
}

static inline Qnn_ErrorHandle_t QnnGlobalConfig_set(const QnnGlobalConfig_t** config) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->globalConfigSet == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->globalConfigSet(config);
}

static inline Qnn_ErrorHandle_t QnnContext_createFromBinaryWithCallback(Qnn_BackendHandle_t backend,
    Qnn_DeviceHandle_t device, const QnnContext_Config_t** config,
    const Qnn_ContextBinaryCallback_t* callback, const void* binary,
    Qnn_ContextBinarySize_t binarySize, Qnn_ContextHandle_t* context, Qnn_ProfileHandle_t profile,
    Qnn_SignalHandle_t signal) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextCreateFromBinaryWithCallback == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextCreateFromBinaryWithCallback(backend, device, config, callback, binary,
      binarySize, context, profile, signal);
}

static inline Qnn_ErrorHandle_t QnnContext_getBinarySectionUpdate(const QnnContext_Buffer_t* argument1,
    const QnnContext_Buffer_t* argument2, const Qnn_Tensor_t** argument3, uint64_t argument4,
    uint8_t argument5, Qnn_LogHandle_t argument6, Qnn_ProfileHandle_t argument7,
    Qnn_SignalHandle_t argument8, QnnContext_Buffer_t* argument9) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextGetBinarySectionUpdate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextGetBinarySectionUpdate(argument1, argument2, argument3, argument4, argument5,
      argument6, argument7, argument8, argument9);
}

static inline Qnn_ErrorHandle_t QnnContext_freeBinarySectionUpdate(QnnContext_Buffer_t buffer,
    Qnn_LogHandle_t log) {
  const QnnInterface_ImplementationV2_32_t* table = qnnrt_chosen_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->contextFreeBinarySectionUpdate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->contextFreeBinarySectionUpdate(buffer, log);
}

static inline Qnn_ErrorHandle_t QnnSystemContext_create(QnnSystemContext_Handle_t* context) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemContextCreate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemContextCreate(context);
}

static inline Qnn_ErrorHandle_t QnnSystemContext_getBinaryInfo(QnnSystemContext_Handle_t context,
    void* binary, uint64_t binarySize, const QnnSystemContext_BinaryInfo_t** info,
    Qnn_ContextBinarySize_t* infoSize) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemContextGetBinaryInfo == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemContextGetBinaryInfo(context, binary, binarySize, info, infoSize);
}

static inline Qnn_ErrorHandle_t QnnSystemContext_getMetaData(QnnSystemContext_Handle_t context,
    const void* binary, uint64_t binarySize, const QnnSystemContext_BinaryInfo_t** info) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemContextGetMetaData == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemContextGetMetaData(context, binary, binarySize, info);
}

static inline Qnn_ErrorHandle_t QnnSystemContext_free(QnnSystemContext_Handle_t context) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemContextFree == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemContextFree(context);
}

static inline Qnn_ErrorHandle_t QnnSystemTensor_getMemoryFootprint(Qnn_Tensor_t tensor,
    uint64_t* bytes) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemTensorGetMemoryFootprint == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemTensorGetMemoryFootprint(tensor, bytes);
}

static inline Qnn_ErrorHandle_t QnnSystemLog_create(QnnLog_Callback_t callback,
    QnnLog_Level_t maxLevel, Qnn_LogHandle_t* log) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemLogCreate == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemLogCreate(callback, maxLevel, log);
}

static inline Qnn_ErrorHandle_t QnnSystemLog_setLogLevel(Qnn_LogHandle_t log,
    QnnLog_Level_t maxLevel) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemLogSetLogLevel == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemLogSetLogLevel(log, maxLevel);
}

static inline Qnn_ErrorHandle_t QnnSystemLog_free(Qnn_LogHandle_t log) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemLogFree == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemLogFree(log);
}

static inline Qnn_ErrorHandle_t QnnSystemDlc_createFromFile(Qnn_LogHandle_t log, const char* path,
    QnnSystemDlc_Handle_t* dlc) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemDlcCreateFromFile == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemDlcCreateFromFile(log, path, dlc);
}

static inline Qnn_ErrorHandle_t QnnSystemDlc_createFromBinary(Qnn_LogHandle_t log,
    const uint8_t* binary, Qnn_ContextBinarySize_t binarySize, QnnSystemDlc_Handle_t* dlc) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemDlcCreateFromBinary == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemDlcCreateFromBinary(log, binary, binarySize, dlc);
}

static inline Qnn_ErrorHandle_t QnnSystemDlc_composeGraphs(QnnSystemDlc_Handle_t dlc,
    const QnnSystemDlc_GraphConfigInfo_t** graphConfigs, uint32_t numGraphConfigs,
    Qnn_BackendHandle_t backend, Qnn_ContextHandle_t context, QnnInterface_t interface,
    QnnSystemContext_GraphInfoVersion_t infoVersion, QnnSystemContext_GraphInfo_t** graphs,
    uint32_t* numGraphs) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemDlcComposeGraphs == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemDlcComposeGraphs(dlc, graphConfigs, numGraphConfigs, backend, context,
      interface, infoVersion, graphs, numGraphs);
}

static inline Qnn_ErrorHandle_t QnnSystemDlc_getOpMappings(QnnSystemDlc_Handle_t dlc,
    const Qnn_OpMapping_t** mappings, uint32_t* count) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemDlcGetOpMappings == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemDlcGetOpMappings(dlc, mappings, count);
}

static inline Qnn_ErrorHandle_t QnnSystemDlc_free(QnnSystemDlc_Handle_t dlc) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemDlcFree == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemDlcFree(dlc);
}

static inline Qnn_ErrorHandle_t QnnSystemProfile_createSerializationTarget(QnnSystemProfile_SerializationTarget_t target,
    QnnSystemProfile_SerializationTargetConfig_t* configs, uint32_t numConfigs,
    QnnSystemProfile_SerializationTargetHandle_t* handle) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemProfileCreateSerializationTarget == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemProfileCreateSerializationTarget(target, configs, numConfigs, handle);
}

static inline Qnn_ErrorHandle_t QnnSystemProfile_serializeEventData(QnnSystemProfile_SerializationTargetHandle_t handle,
    const QnnSystemProfile_ProfileData_t** data, uint32_t count) {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemProfileSerializeEventData == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemProfileSerializeEventData(handle, data, count);
}

static inline Qnn_ErrorHandle_t QnnSystemProfile_freeSerializationTarget(QnnSystemProfile_SerializationTargetHandle_t handle)
    {
  const QnnSystemInterface_ImplementationV1_7_t* table = qnnrt_chosen_system_interface;
  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
  if (table->systemProfileFreeSerializationTarget == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;
  return table->systemProfileFreeSerializationTarget(handle);
}

// As tutorials spell it.
#define QnnMem_deregister QnnMem_deRegister

// clang-format on

#ifdef __cplusplus
}  // extern "C"
#endif
