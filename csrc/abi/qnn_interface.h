// The QNN function table and the one symbol that hands it out.
#pragma once

#include <stdint.h>

#include "qnn_context.h"
#include "qnn_objects.h"
#include "qnn_property.h"
#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef QNN_API
#define QNN_API __attribute__((visibility("default")))
#endif

// Slots kept NULL after the table. A client built against a newer minor version copies its own,
// longer table out of ours, and must read NULL, not what happens to lie behind it.
#define QNNRT_INTERFACE_SPARE_SLOTS 64
#define QNN_INTERFACE_NUM_ENTRIES 71

// ---- Function types ----

typedef Qnn_ErrorHandle_t (*QnnProperty_HasCapabilityFn_t)(QnnProperty_Key_t key);
typedef Qnn_ErrorHandle_t (*QnnBackend_CreateFn_t)(Qnn_LogHandle_t log,
                                                   const QnnBackend_Config_t** config,
                                                   Qnn_BackendHandle_t* backend);
typedef Qnn_ErrorHandle_t (*QnnBackend_SetConfigFn_t)(Qnn_BackendHandle_t backend,
                                                      const QnnBackend_Config_t** config);
typedef Qnn_ErrorHandle_t (*QnnBackend_GetApiVersionFn_t)(Qnn_ApiVersion_t* version);
typedef Qnn_ErrorHandle_t (*QnnBackend_GetBuildIdFn_t)(const char** id);
typedef Qnn_ErrorHandle_t (*QnnBackend_RegisterOpPackageFn_t)(Qnn_BackendHandle_t backend,
                                                              const char* packagePath,
                                                              const char* interfaceProvider,
                                                              const char* target);
typedef Qnn_ErrorHandle_t (*QnnBackend_GetSupportedOperationsFn_t)(
    Qnn_BackendHandle_t backend, uint32_t* count, const QnnBackend_OperationName_t** operations);
typedef Qnn_ErrorHandle_t (*QnnBackend_ValidateOpConfigFn_t)(Qnn_BackendHandle_t backend,
                                                             Qnn_OpConfig_t opConfig);
typedef Qnn_ErrorHandle_t (*QnnBackend_FreeFn_t)(Qnn_BackendHandle_t backend);
typedef Qnn_ErrorHandle_t (*QnnContext_CreateFn_t)(Qnn_BackendHandle_t backend,
                                                   Qnn_DeviceHandle_t device,
                                                   const QnnContext_Config_t** config,
                                                   Qnn_ContextHandle_t* context);
typedef Qnn_ErrorHandle_t (*QnnContext_SetConfigFn_t)(Qnn_ContextHandle_t context,
                                                      const QnnContext_Config_t** config);
typedef Qnn_ErrorHandle_t (*QnnContext_GetBinarySizeFn_t)(Qnn_ContextHandle_t context,
                                                          Qnn_ContextBinarySize_t* size);
typedef Qnn_ErrorHandle_t (*QnnContext_GetBinaryFn_t)(Qnn_ContextHandle_t context, void* buffer,
                                                      Qnn_ContextBinarySize_t bufferSize,
                                                      Qnn_ContextBinarySize_t* writtenSize);
typedef Qnn_ErrorHandle_t (*QnnContext_CreateFromBinaryFn_t)(
    Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Config_t** config,
    const void* binary, Qnn_ContextBinarySize_t binarySize, Qnn_ContextHandle_t* context,
    Qnn_ProfileHandle_t profile);
typedef Qnn_ErrorHandle_t (*QnnContext_FreeFn_t)(Qnn_ContextHandle_t context,
                                                 Qnn_ProfileHandle_t profile);
typedef Qnn_ErrorHandle_t (*QnnGraph_CreateFn_t)(Qnn_ContextHandle_t context, const char* name,
                                                 const QnnGraph_Config_t** config,
                                                 Qnn_GraphHandle_t* graph);
typedef Qnn_ErrorHandle_t (*QnnGraph_CreateSubgraphFn_t)(Qnn_GraphHandle_t graph, const char* name,
                                                         Qnn_GraphHandle_t* subgraph);
typedef Qnn_ErrorHandle_t (*QnnGraph_SetConfigFn_t)(Qnn_GraphHandle_t graph,
                                                    const QnnGraph_Config_t** config);
typedef Qnn_ErrorHandle_t (*QnnGraph_AddNodeFn_t)(Qnn_GraphHandle_t graph, Qnn_OpConfig_t opConfig);
typedef Qnn_ErrorHandle_t (*QnnGraph_FinalizeFn_t)(Qnn_GraphHandle_t graph,
                                                   Qnn_ProfileHandle_t profile,
                                                   Qnn_SignalHandle_t signal);
typedef Qnn_ErrorHandle_t (*QnnGraph_RetrieveFn_t)(Qnn_ContextHandle_t context, const char* name,
                                                   Qnn_GraphHandle_t* graph);
typedef Qnn_ErrorHandle_t (*QnnGraph_ExecuteFn_t)(Qnn_GraphHandle_t graph,
                                                  const Qnn_Tensor_t* inputs, uint32_t numInputs,
                                                  Qnn_Tensor_t* outputs, uint32_t numOutputs,
                                                  Qnn_ProfileHandle_t profile,
                                                  Qnn_SignalHandle_t signal);
typedef Qnn_ErrorHandle_t (*QnnGraph_ExecuteAsyncFn_t)(
    Qnn_GraphHandle_t graph, const Qnn_Tensor_t* inputs, uint32_t numInputs, Qnn_Tensor_t* outputs,
    uint32_t numOutputs, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal,
    Qnn_NotifyFn_t notify, void* notifyParam);
typedef Qnn_ErrorHandle_t (*QnnTensor_CreateContextTensorFn_t)(Qnn_ContextHandle_t context,
                                                               Qnn_Tensor_t* tensor);
typedef Qnn_ErrorHandle_t (*QnnTensor_CreateGraphTensorFn_t)(Qnn_GraphHandle_t graph,
                                                             Qnn_Tensor_t* tensor);
typedef Qnn_ErrorHandle_t (*QnnLog_CreateFn_t)(QnnLog_Callback_t callback, QnnLog_Level_t maxLevel,
                                               Qnn_LogHandle_t* log);
typedef Qnn_ErrorHandle_t (*QnnLog_SetLogLevelFn_t)(Qnn_LogHandle_t log, QnnLog_Level_t maxLevel);
typedef Qnn_ErrorHandle_t (*QnnLog_FreeFn_t)(Qnn_LogHandle_t log);
typedef Qnn_ErrorHandle_t (*QnnProfile_CreateFn_t)(Qnn_BackendHandle_t backend,
                                                   QnnProfile_Level_t level,
                                                   Qnn_ProfileHandle_t* profile);
typedef Qnn_ErrorHandle_t (*QnnProfile_SetConfigFn_t)(Qnn_ProfileHandle_t profile,
                                                      const QnnProfile_Config_t** config);
typedef Qnn_ErrorHandle_t (*QnnProfile_GetEventsFn_t)(Qnn_ProfileHandle_t profile,
                                                      const QnnProfile_EventId_t** events,
                                                      uint32_t* count);
typedef Qnn_ErrorHandle_t (*QnnProfile_GetSubEventsFn_t)(QnnProfile_EventId_t event,
                                                         const QnnProfile_EventId_t** subEvents,
                                                         uint32_t* count);
typedef Qnn_ErrorHandle_t (*QnnProfile_GetEventDataFn_t)(QnnProfile_EventId_t event,
                                                         QnnProfile_EventData_t* data);
typedef Qnn_ErrorHandle_t (*QnnProfile_GetExtendedEventDataFn_t)(
    QnnProfile_EventId_t event, QnnProfile_ExtendedEventData_t* data);
typedef Qnn_ErrorHandle_t (*QnnProfile_FreeFn_t)(Qnn_ProfileHandle_t profile);
typedef Qnn_ErrorHandle_t (*QnnMem_RegisterFn_t)(Qnn_ContextHandle_t context,
                                                 const Qnn_MemDescriptor_t* descriptors,
                                                 uint32_t count, Qnn_MemHandle_t* handles);
typedef Qnn_ErrorHandle_t (*QnnMem_DeRegisterFn_t)(const Qnn_MemHandle_t* handles, uint32_t count);
typedef Qnn_ErrorHandle_t (*QnnDevice_GetPlatformInfoFn_t)(Qnn_LogHandle_t log,
                                                           const QnnDevice_PlatformInfo_t** info);
typedef Qnn_ErrorHandle_t (*QnnDevice_FreePlatformInfoFn_t)(Qnn_LogHandle_t log,
                                                            const QnnDevice_PlatformInfo_t* info);
typedef Qnn_ErrorHandle_t (*QnnDevice_GetInfrastructureFn_t)(
    const QnnDevice_Infrastructure_t* infrastructure);
typedef Qnn_ErrorHandle_t (*QnnDevice_CreateFn_t)(Qnn_LogHandle_t log,
                                                  const QnnDevice_Config_t** config,
                                                  Qnn_DeviceHandle_t* device);
typedef Qnn_ErrorHandle_t (*QnnDevice_SetConfigFn_t)(Qnn_DeviceHandle_t device,
                                                     const QnnDevice_Config_t** config);
typedef Qnn_ErrorHandle_t (*QnnDevice_GetInfoFn_t)(Qnn_DeviceHandle_t device,
                                                   const QnnDevice_PlatformInfo_t** info);
typedef Qnn_ErrorHandle_t (*QnnDevice_FreeFn_t)(Qnn_DeviceHandle_t device);
typedef Qnn_ErrorHandle_t (*QnnSignal_CreateFn_t)(Qnn_BackendHandle_t backend,
                                                  const QnnSignal_Config_t** config,
                                                  Qnn_SignalHandle_t* signal);
typedef Qnn_ErrorHandle_t (*QnnSignal_SetConfigFn_t)(Qnn_SignalHandle_t signal,
                                                     const QnnSignal_Config_t** config);
typedef Qnn_ErrorHandle_t (*QnnSignal_TriggerFn_t)(Qnn_SignalHandle_t signal);
typedef Qnn_ErrorHandle_t (*QnnSignal_FreeFn_t)(Qnn_SignalHandle_t signal);
typedef Qnn_ErrorHandle_t (*QnnError_GetMessageFn_t)(Qnn_ErrorHandle_t error, const char** message);
typedef Qnn_ErrorHandle_t (*QnnError_GetVerboseMessageFn_t)(Qnn_ErrorHandle_t error,
                                                            const char** message);
typedef Qnn_ErrorHandle_t (*QnnError_FreeVerboseMessageFn_t)(const char* message);
typedef Qnn_ErrorHandle_t (*QnnGraph_PrepareExecutionEnvironmentFn_t)(
    Qnn_GraphHandle_t graph, QnnGraph_ExecuteEnvironment_t** environments, uint32_t count);
typedef Qnn_ErrorHandle_t (*QnnGraph_ReleaseExecutionEnvironmentFn_t)(
    Qnn_GraphHandle_t graph, const QnnGraph_ExecuteEnvironment_t** environments, uint32_t count);
typedef Qnn_ErrorHandle_t (*QnnGraph_GetPropertyFn_t)(Qnn_GraphHandle_t graph,
                                                      QnnGraph_Property_t** properties);
typedef Qnn_ErrorHandle_t (*QnnContext_ValidateBinaryFn_t)(Qnn_BackendHandle_t backend,
                                                           Qnn_DeviceHandle_t device,
                                                           const QnnContext_Config_t** config,
                                                           const void* binary,
                                                           Qnn_ContextBinarySize_t binarySize);
typedef Qnn_ErrorHandle_t (*QnnContext_CreateFromBinaryWithSignalFn_t)(
    Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Config_t** config,
    const void* binary, Qnn_ContextBinarySize_t binarySize, Qnn_ContextHandle_t* context,
    Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
typedef Qnn_ErrorHandle_t (*QnnContext_CreateFromBinaryListAsyncFn_t)(
    Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Params_t** params,
    const QnnContext_Config_t** listConfig, Qnn_SignalHandle_t signal);
typedef Qnn_ErrorHandle_t (*QnnTensor_UpdateGraphTensorsFn_t)(Qnn_GraphHandle_t graph,
                                                              const Qnn_Tensor_t** tensors,
                                                              uint64_t count);
typedef Qnn_ErrorHandle_t (*QnnTensor_UpdateContextTensorsFn_t)(Qnn_ContextHandle_t context,
                                                                const Qnn_Tensor_t** tensors,
                                                                uint64_t count);
typedef Qnn_ErrorHandle_t (*QnnContext_GetBinarySectionSizeFn_t)(Qnn_ContextHandle_t context,
                                                                 Qnn_GraphHandle_t graph,
                                                                 QnnContext_SectionType_t section,
                                                                 Qnn_ContextBinarySize_t* size);
typedef Qnn_ErrorHandle_t (*QnnContext_GetBinarySectionFn_t)(
    Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, QnnContext_SectionType_t section,
    const QnnContext_Buffer_t* buffer, Qnn_ContextBinarySize_t* writtenSize,
    Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
typedef Qnn_ErrorHandle_t (*QnnContext_ApplyBinarySectionFn_t)(
    Qnn_ContextHandle_t context, Qnn_GraphHandle_t graph, QnnContext_SectionType_t section,
    const QnnContext_Buffer_t* buffer, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
typedef Qnn_ErrorHandle_t (*QnnBackend_GetPropertyFn_t)(Qnn_BackendHandle_t backend,
                                                        QnnBackend_Property_t** properties);
typedef Qnn_ErrorHandle_t (*QnnContext_GetPropertyFn_t)(Qnn_ContextHandle_t context,
                                                        QnnContext_Property_t** properties);
typedef Qnn_ErrorHandle_t (*QnnContext_GetIncrementalBinaryFn_t)(
    Qnn_ContextHandle_t context, const void** binary, Qnn_ContextBinarySize_t* startOffset,
    Qnn_ContextBinarySize_t* writtenSize);
typedef Qnn_ErrorHandle_t (*QnnContext_ReleaseIncrementalBinaryFn_t)(
    Qnn_ContextHandle_t context, const void* binary, Qnn_ContextBinarySize_t startOffset);
typedef Qnn_ErrorHandle_t (*QnnContext_FinalizeFn_t)(Qnn_ContextHandle_t context,
                                                     Qnn_ProfileHandle_t profile);
typedef Qnn_ErrorHandle_t (*QnnGlobalConfig_SetFn_t)(const QnnGlobalConfig_t** config);
typedef Qnn_ErrorHandle_t (*QnnContext_CreateFromBinaryWithCallbackFn_t)(
    Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device, const QnnContext_Config_t** config,
    const Qnn_ContextBinaryCallback_t* callback, const void* binary,
    Qnn_ContextBinarySize_t binarySize, Qnn_ContextHandle_t* context, Qnn_ProfileHandle_t profile,
    Qnn_SignalHandle_t signal);
typedef Qnn_ErrorHandle_t (*QnnContext_GetBinarySectionUpdateFn_t)(
    const QnnContext_Buffer_t*, const QnnContext_Buffer_t*, const Qnn_Tensor_t**, uint64_t, uint8_t,
    Qnn_LogHandle_t, Qnn_ProfileHandle_t, Qnn_SignalHandle_t, QnnContext_Buffer_t*);
typedef Qnn_ErrorHandle_t (*QnnContext_FreeBinarySectionUpdateFn_t)(QnnContext_Buffer_t buffer,
                                                                    Qnn_LogHandle_t log);

// ---- The table: only its end grows between minor versions ----

typedef struct QnnInterface_ImplementationV2_32_t {
  QnnProperty_HasCapabilityFn_t propertyHasCapability;
  QnnBackend_CreateFn_t backendCreate;
  QnnBackend_SetConfigFn_t backendSetConfig;
  QnnBackend_GetApiVersionFn_t backendGetApiVersion;
  QnnBackend_GetBuildIdFn_t backendGetBuildId;
  QnnBackend_RegisterOpPackageFn_t backendRegisterOpPackage;
  QnnBackend_GetSupportedOperationsFn_t backendGetSupportedOperations;
  QnnBackend_ValidateOpConfigFn_t backendValidateOpConfig;
  QnnBackend_FreeFn_t backendFree;
  QnnContext_CreateFn_t contextCreate;
  QnnContext_SetConfigFn_t contextSetConfig;
  QnnContext_GetBinarySizeFn_t contextGetBinarySize;
  QnnContext_GetBinaryFn_t contextGetBinary;
  QnnContext_CreateFromBinaryFn_t contextCreateFromBinary;
  QnnContext_FreeFn_t contextFree;
  QnnGraph_CreateFn_t graphCreate;
  QnnGraph_CreateSubgraphFn_t graphCreateSubgraph;
  QnnGraph_SetConfigFn_t graphSetConfig;
  QnnGraph_AddNodeFn_t graphAddNode;
  QnnGraph_FinalizeFn_t graphFinalize;
  QnnGraph_RetrieveFn_t graphRetrieve;
  QnnGraph_ExecuteFn_t graphExecute;
  QnnGraph_ExecuteAsyncFn_t graphExecuteAsync;
  QnnTensor_CreateContextTensorFn_t tensorCreateContextTensor;
  QnnTensor_CreateGraphTensorFn_t tensorCreateGraphTensor;
  QnnLog_CreateFn_t logCreate;
  QnnLog_SetLogLevelFn_t logSetLogLevel;
  QnnLog_FreeFn_t logFree;
  QnnProfile_CreateFn_t profileCreate;
  QnnProfile_SetConfigFn_t profileSetConfig;
  QnnProfile_GetEventsFn_t profileGetEvents;
  QnnProfile_GetSubEventsFn_t profileGetSubEvents;
  QnnProfile_GetEventDataFn_t profileGetEventData;
  QnnProfile_GetExtendedEventDataFn_t profileGetExtendedEventData;
  QnnProfile_FreeFn_t profileFree;
  QnnMem_RegisterFn_t memRegister;
  QnnMem_DeRegisterFn_t memDeRegister;
  QnnDevice_GetPlatformInfoFn_t deviceGetPlatformInfo;
  QnnDevice_FreePlatformInfoFn_t deviceFreePlatformInfo;
  QnnDevice_GetInfrastructureFn_t deviceGetInfrastructure;
  QnnDevice_CreateFn_t deviceCreate;
  QnnDevice_SetConfigFn_t deviceSetConfig;
  QnnDevice_GetInfoFn_t deviceGetInfo;
  QnnDevice_FreeFn_t deviceFree;
  QnnSignal_CreateFn_t signalCreate;
  QnnSignal_SetConfigFn_t signalSetConfig;
  QnnSignal_TriggerFn_t signalTrigger;
  QnnSignal_FreeFn_t signalFree;
  QnnError_GetMessageFn_t errorGetMessage;
  QnnError_GetVerboseMessageFn_t errorGetVerboseMessage;
  QnnError_FreeVerboseMessageFn_t errorFreeVerboseMessage;
  QnnGraph_PrepareExecutionEnvironmentFn_t graphPrepareExecutionEnvironment;
  QnnGraph_ReleaseExecutionEnvironmentFn_t graphReleaseExecutionEnvironment;
  QnnGraph_GetPropertyFn_t graphGetProperty;
  QnnContext_ValidateBinaryFn_t contextValidateBinary;
  QnnContext_CreateFromBinaryWithSignalFn_t contextCreateFromBinaryWithSignal;
  QnnContext_CreateFromBinaryListAsyncFn_t contextCreateFromBinaryListAsync;
  QnnTensor_UpdateGraphTensorsFn_t tensorUpdateGraphTensors;
  QnnTensor_UpdateContextTensorsFn_t tensorUpdateContextTensors;
  QnnContext_GetBinarySectionSizeFn_t contextGetBinarySectionSize;
  QnnContext_GetBinarySectionFn_t contextGetBinarySection;
  QnnContext_ApplyBinarySectionFn_t contextApplyBinarySection;
  QnnBackend_GetPropertyFn_t backendGetProperty;
  QnnContext_GetPropertyFn_t contextGetProperty;
  QnnContext_GetIncrementalBinaryFn_t contextGetIncrementalBinary;
  QnnContext_ReleaseIncrementalBinaryFn_t contextReleaseIncrementalBinary;
  QnnContext_FinalizeFn_t contextFinalize;
  QnnGlobalConfig_SetFn_t globalConfigSet;
  QnnContext_CreateFromBinaryWithCallbackFn_t contextCreateFromBinaryWithCallback;
  QnnContext_GetBinarySectionUpdateFn_t contextGetBinarySectionUpdate;
  QnnContext_FreeBinarySectionUpdateFn_t contextFreeBinarySectionUpdate;
} QnnInterface_ImplementationV2_32_t;

// What a client of exactly this version sees. A provider hands out the padded form below.
typedef struct QnnInterface_t {
  uint32_t backendId;
  const char* providerName;
  Qnn_ApiVersion_t apiVersion;
  union {
    QnnInterface_ImplementationV2_32_t v2_32;
  };
} QnnInterface_t;

// What a provider really keeps: &padded.interface is what getProviders lists.
typedef struct Qnnrt_PaddedInterface_t {
  QnnInterface_t interface;
  void (*spare[QNNRT_INTERFACE_SPARE_SLOTS])(void);
} Qnnrt_PaddedInterface_t;

typedef Qnn_ErrorHandle_t (*QnnInterface_GetProvidersFn_t)(const QnnInterface_t*** providerList,
                                                           uint32_t* numProviders);

// The one symbol a backend library exports. The list belongs to the library and lives as long as
// it.
QNN_API Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t*** providerList,
                                                    uint32_t* numProviders);

#ifdef __cplusplus
}  // extern "C"
#endif
