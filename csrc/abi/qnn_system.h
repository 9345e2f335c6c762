// The system library: reading context binaries, footprints, DLC, profile serialization.
#pragma once

#include <stdint.h>

#include "qnn_interface.h"

#ifdef __cplusplus
extern "C" {
#endif

// Slots kept NULL after the table, as for QnnInterface_t.
#define QNNRT_SYSTEM_INTERFACE_SPARE_SLOTS 64
#define QNN_SYSTEM_INTERFACE_NUM_ENTRIES 16

typedef void* QnnSystemContext_Handle_t;
typedef void* QnnSystemDlc_Handle_t;
typedef void* QnnSystemProfile_SerializationTargetHandle_t;

typedef enum QnnSystemContext_GraphInfoVersion_t {
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1 = 1,
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_2 = 2,
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3 = 3,
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_UNDEFINED = 0x7FFFFFFF,
} QnnSystemContext_GraphInfoVersion_t;

typedef enum QnnSystemContext_BinaryInfoVersion_t {
  QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1 = 1,
  QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_2 = 2,
  QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3 = 3,
  QNN_SYSTEM_CONTEXT_BINARY_INFO_UNDEFINED = 0x7FFFFFFF,
} QnnSystemContext_BinaryInfoVersion_t;

typedef enum QnnSystemContext_GraphConfigInfoVersion_t {
  QNN_SYSTEM_DLC_GRAPH_CONFIG_INFO_VERSION_1 = 1,
  QNN_SYSTEM_DLC_GRAPH_CONFIG_INFO_UNDEFINED = 0x7FFFFFFF,
} QnnSystemContext_GraphConfigInfoVersion_t;

typedef enum QnnSystemProfile_SerializationTargetType_t {
  QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_FILE = 1,
  QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_UNDEFINED = 0x7FFFFFFF,
} QnnSystemProfile_SerializationTargetType_t;

typedef enum QnnSystemProfile_SerializationTargetConfigType_t {
  QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_MAX_NUM_MESSAGES = 0,
  QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_SERIALIZATION_HEADER = 1,
  QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_UNDEFINED = 0x7FFFFFFF,
} QnnSystemProfile_SerializationTargetConfigType_t;

typedef enum QnnSystemProfile_Visibility_t {
  QNN_SYSTEM_PROFILE_VISIBILITY_PUBLIC = 0,
  QNN_SYSTEM_PROFILE_VISIBILITY_PRIVATE = 1,
} QnnSystemProfile_Visibility_t;

typedef enum QnnSystemProfile_MethodType_t {
  QNN_SYSTEM_PROFILE_METHOD_TYPE_NONE = 0,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_EXECUTE = 1,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_FINALIZE = 2,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_EXECUTE_ASYNC = 3,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_CREATE_FROM_BINARY = 4,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_DEINIT = 5,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_CONTEXT_CREATE = 6,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_COMPOSE_GRAPHS = 7,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_EXECUTE_IPS = 8,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_GRAPH_COMPONENT = 9,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_APP_BACKEND_LIB_LOAD = 10,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_APPLY_BINARY_SECTION = 11,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_FINALIZE = 12,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_GET_BINARY_SIZE = 13,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_GET_BINARY = 14,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_CONTEXT_GET_BINARY_SECTION_SIZE = 15,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_FINALIZE_TENSOR_UPDATES = 16,
  QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_UPDATE_BINARY_SECTION = 17,
} QnnSystemProfile_MethodType_t;

typedef enum QnnSystemProfile_EventDataType_t {
  QNN_SYSTEM_PROFILE_EVENT_DATA = 0,
  QNN_SYSTEM_PROFILE_EXTENDED_EVENT_DATA = 1,
  QNN_SYSTEM_PROFILE_EVENT_DATA_UNDEFINED = 0x7FFFFFFF,
} QnnSystemProfile_EventDataType_t;

typedef enum QnnSystemProfile_ProfileDataVersion_t {
  QNN_SYSTEM_PROFILE_DATA_VERSION_1 = 1,
  QNN_SYSTEM_PROFILE_DATA_VERSION_UNDEFINED = 0x7FFFFFFF,
} QnnSystemProfile_ProfileDataVersion_t;

typedef struct QnnSystemContext_GraphInfoV1_t {
  const char* graphName;
  uint32_t numGraphInputs;
  Qnn_Tensor_t* graphInputs;
  uint32_t numGraphOutputs;
  Qnn_Tensor_t* graphOutputs;
} QnnSystemContext_GraphInfoV1_t;

typedef struct QnnSystemContext_GraphInfoV2_t {
  const char* graphName;
  uint32_t numGraphInputs;
  Qnn_Tensor_t* graphInputs;
  uint32_t numGraphOutputs;
  Qnn_Tensor_t* graphOutputs;
  uint32_t numUpdateableTensors;
  Qnn_Tensor_t* updateableTensors;
} QnnSystemContext_GraphInfoV2_t;

typedef struct QnnSystemContext_GraphInfoV3_t {
  const char* graphName;
  uint32_t numGraphInputs;
  Qnn_Tensor_t* graphInputs;
  uint32_t numGraphOutputs;
  Qnn_Tensor_t* graphOutputs;
  uint32_t numUpdateableTensors;
  Qnn_Tensor_t* updateableTensors;
  uint32_t graphBlobInfoSize;
  void* graphBlobInfo;
  uint32_t startOpIndex;
  uint32_t endOpIndex;
} QnnSystemContext_GraphInfoV3_t;

typedef struct QnnSystemContext_GraphInfo_t {
  QnnSystemContext_GraphInfoVersion_t version;
  union {
    QnnSystemContext_GraphInfoV1_t graphInfoV1;
    QnnSystemContext_GraphInfoV2_t graphInfoV2;
    QnnSystemContext_GraphInfoV3_t graphInfoV3;
  };
} QnnSystemContext_GraphInfo_t;

typedef struct QnnSystemContext_BinaryInfoV1_t {
  uint32_t backendId;
  const char* buildId;
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
  const char* socVersion;
  Qnn_Version_t hwInfoBlobVersion;
  Qnn_Version_t contextBlobVersion;
  uint32_t hwInfoBlobSize;
  void* hwInfoBlob;
  uint64_t contextBlobSize;
  uint32_t numContextTensors;
  Qnn_Tensor_t* contextTensors;
  uint32_t numGraphs;
  QnnSystemContext_GraphInfo_t* graphs;
} QnnSystemContext_BinaryInfoV1_t;

typedef struct QnnSystemContext_BinaryInfoV2_t {
  uint32_t backendId;
  const char* buildId;
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
  const char* socVersion;
  Qnn_Version_t hwInfoBlobVersion;
  Qnn_Version_t contextBlobVersion;
  uint32_t hwInfoBlobSize;
  void* hwInfoBlob;
  uint64_t contextBlobSize;
  uint32_t numContextTensors;
  Qnn_Tensor_t* contextTensors;
  uint32_t numGraphs;
  QnnSystemContext_GraphInfo_t* graphs;
  QnnDevice_PlatformInfo_t* platformInfo;
} QnnSystemContext_BinaryInfoV2_t;

typedef struct QnnSystemContext_BinaryInfoV3_t {
  uint32_t backendId;
  const char* buildId;
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
  const char* socVersion;
  Qnn_Version_t contextBlobVersion;
  uint64_t contextBlobSize;
  uint32_t numContextTensors;
  Qnn_Tensor_t* contextTensors;
  uint32_t numGraphs;
  QnnSystemContext_GraphInfo_t* graphs;
  QnnDevice_PlatformInfo_t* platformInfo;
  uint32_t contextMetadataSize;
  void* contextMetadata;
  uint32_t socModel;
} QnnSystemContext_BinaryInfoV3_t;

typedef struct QnnSystemContext_BinaryInfo_t {
  QnnSystemContext_BinaryInfoVersion_t version;
  union {
    QnnSystemContext_BinaryInfoV1_t contextBinaryInfoV1;
    QnnSystemContext_BinaryInfoV2_t contextBinaryInfoV2;
    QnnSystemContext_BinaryInfoV3_t contextBinaryInfoV3;
  };
} QnnSystemContext_BinaryInfo_t;

typedef struct QnnSystemDlc_GraphConfigInfoV1_t {
  const char* graphName;
  const QnnGraph_Config_t** graphConfigs;
  uint32_t numConfigs;
} QnnSystemDlc_GraphConfigInfoV1_t;

typedef struct QnnSystemDlc_GraphConfigInfo_t {
  QnnSystemContext_GraphConfigInfoVersion_t version;
  union {
    QnnSystemDlc_GraphConfigInfoV1_t v1;
  };
} QnnSystemDlc_GraphConfigInfo_t;

typedef struct QnnSystemProfile_SerializationTargetFile_t {
  const char* fileName;
  const char* fileDirectory;
} QnnSystemProfile_SerializationTargetFile_t;

typedef struct QnnSystemProfile_SerializationTarget_t {
  QnnSystemProfile_SerializationTargetType_t type;
  union {
    QnnSystemProfile_SerializationTargetFile_t file;
  };
} QnnSystemProfile_SerializationTarget_t;

typedef struct QnnSystemProfile_SerializationFileHeader_t {
  const char* appName;
  const char* appVersion;
  const char* backendVersion;
} QnnSystemProfile_SerializationFileHeader_t;

typedef struct QnnSystemProfile_SerializationTargetConfig_t {
  QnnSystemProfile_SerializationTargetConfigType_t type;
  union {
    uint32_t maxNumMessages;
    QnnSystemProfile_SerializationFileHeader_t serializationHeader;
  };
} QnnSystemProfile_SerializationTargetConfig_t;

typedef struct QnnSystemProfile_HeaderV1_t {
  uint64_t startTime;
  uint64_t stopTime;
  uint64_t startMem;
  uint64_t stopMem;
  QnnSystemProfile_MethodType_t methodType;
  QnnSystemProfile_Visibility_t visibility;
  const char* graphName;
} QnnSystemProfile_HeaderV1_t;

// type selects eventData or extendedEventData. Sub-events nest to any depth.
typedef struct QnnSystemProfile_ProfileEventV1_t {
  QnnSystemProfile_EventDataType_t type;
  union {
    QnnProfile_EventData_t eventData;
    QnnProfile_ExtendedEventData_t extendedEventData;
  };
  struct QnnSystemProfile_ProfileEventV1_t* profileSubEventData;
  uint32_t numSubEvents;
} QnnSystemProfile_ProfileEventV1_t;

typedef struct QnnSystemProfile_ProfileDataV1_t {
  QnnSystemProfile_HeaderV1_t header;
  QnnSystemProfile_ProfileEventV1_t* profilingEvents;
  uint32_t numProfilingEvents;
} QnnSystemProfile_ProfileDataV1_t;

typedef struct QnnSystemProfile_ProfileData_t {
  QnnSystemProfile_ProfileDataVersion_t version;
  union {
    QnnSystemProfile_ProfileDataV1_t v1;
  };
} QnnSystemProfile_ProfileData_t;

// ---- Function types ----

typedef Qnn_ErrorHandle_t (*QnnSystemContext_CreateFn_t)(QnnSystemContext_Handle_t* context);
typedef Qnn_ErrorHandle_t (*QnnSystemContext_GetBinaryInfoFn_t)(
    QnnSystemContext_Handle_t context, void* binary, uint64_t binarySize,
    const QnnSystemContext_BinaryInfo_t** info, Qnn_ContextBinarySize_t* infoSize);
typedef Qnn_ErrorHandle_t (*QnnSystemContext_GetMetaDataFn_t)(
    QnnSystemContext_Handle_t context, const void* binary, uint64_t binarySize,
    const QnnSystemContext_BinaryInfo_t** info);
typedef Qnn_ErrorHandle_t (*QnnSystemContext_FreeFn_t)(QnnSystemContext_Handle_t context);
typedef Qnn_ErrorHandle_t (*QnnSystemTensor_GetMemoryFootprintFn_t)(Qnn_Tensor_t tensor,
                                                                    uint64_t* bytes);
typedef Qnn_ErrorHandle_t (*QnnSystemLog_CreateFn_t)(QnnLog_Callback_t callback,
                                                     QnnLog_Level_t maxLevel, Qnn_LogHandle_t* log);
typedef Qnn_ErrorHandle_t (*QnnSystemLog_SetLogLevelFn_t)(Qnn_LogHandle_t log,
                                                          QnnLog_Level_t maxLevel);
typedef Qnn_ErrorHandle_t (*QnnSystemLog_FreeFn_t)(Qnn_LogHandle_t log);
typedef Qnn_ErrorHandle_t (*QnnSystemDlc_CreateFromFileFn_t)(Qnn_LogHandle_t log, const char* path,
                                                             QnnSystemDlc_Handle_t* dlc);
typedef Qnn_ErrorHandle_t (*QnnSystemDlc_CreateFromBinaryFn_t)(Qnn_LogHandle_t log,
                                                               const uint8_t* binary,
                                                               Qnn_ContextBinarySize_t binarySize,
                                                               QnnSystemDlc_Handle_t* dlc);
typedef Qnn_ErrorHandle_t (*QnnSystemDlc_ComposeGraphsFn_t)(
    QnnSystemDlc_Handle_t dlc, const QnnSystemDlc_GraphConfigInfo_t** graphConfigs,
    uint32_t numGraphConfigs, Qnn_BackendHandle_t backend, Qnn_ContextHandle_t context,
    QnnInterface_t interface, QnnSystemContext_GraphInfoVersion_t infoVersion,
    QnnSystemContext_GraphInfo_t** graphs, uint32_t* numGraphs);
typedef Qnn_ErrorHandle_t (*QnnSystemDlc_GetOpMappingsFn_t)(QnnSystemDlc_Handle_t dlc,
                                                            const Qnn_OpMapping_t** mappings,
                                                            uint32_t* count);
typedef Qnn_ErrorHandle_t (*QnnSystemDlc_FreeFn_t)(QnnSystemDlc_Handle_t dlc);
typedef Qnn_ErrorHandle_t (*QnnSystemProfile_CreateSerializationTargetFn_t)(
    QnnSystemProfile_SerializationTarget_t target,
    QnnSystemProfile_SerializationTargetConfig_t* configs, uint32_t numConfigs,
    QnnSystemProfile_SerializationTargetHandle_t* handle);
typedef Qnn_ErrorHandle_t (*QnnSystemProfile_SerializeEventDataFn_t)(
    QnnSystemProfile_SerializationTargetHandle_t handle,
    const QnnSystemProfile_ProfileData_t** data, uint32_t count);
typedef Qnn_ErrorHandle_t (*QnnSystemProfile_FreeSerializationTargetFn_t)(
    QnnSystemProfile_SerializationTargetHandle_t handle);

// ---- The table ----

typedef struct QnnSystemInterface_ImplementationV1_7_t {
  QnnSystemContext_CreateFn_t systemContextCreate;
  QnnSystemContext_GetBinaryInfoFn_t systemContextGetBinaryInfo;
  QnnSystemContext_GetMetaDataFn_t systemContextGetMetaData;
  QnnSystemContext_FreeFn_t systemContextFree;
  QnnSystemTensor_GetMemoryFootprintFn_t systemTensorGetMemoryFootprint;
  QnnSystemLog_CreateFn_t systemLogCreate;
  QnnSystemLog_SetLogLevelFn_t systemLogSetLogLevel;
  QnnSystemLog_FreeFn_t systemLogFree;
  QnnSystemDlc_CreateFromFileFn_t systemDlcCreateFromFile;
  QnnSystemDlc_CreateFromBinaryFn_t systemDlcCreateFromBinary;
  QnnSystemDlc_ComposeGraphsFn_t systemDlcComposeGraphs;
  QnnSystemDlc_GetOpMappingsFn_t systemDlcGetOpMappings;
  QnnSystemDlc_FreeFn_t systemDlcFree;
  QnnSystemProfile_CreateSerializationTargetFn_t systemProfileCreateSerializationTarget;
  QnnSystemProfile_SerializeEventDataFn_t systemProfileSerializeEventData;
  QnnSystemProfile_FreeSerializationTargetFn_t systemProfileFreeSerializationTarget;
} QnnSystemInterface_ImplementationV1_7_t;

typedef struct QnnSystemInterface_t {
  uint32_t backendId;
  const char* providerName;
  Qnn_Version_t systemApiVersion;
  union {
    QnnSystemInterface_ImplementationV1_7_t v1_7;
  };
} QnnSystemInterface_t;

typedef struct Qnnrt_PaddedSystemInterface_t {
  QnnSystemInterface_t interface;
  void (*spare[QNNRT_SYSTEM_INTERFACE_SPARE_SLOTS])(void);
} Qnnrt_PaddedSystemInterface_t;

typedef Qnn_ErrorHandle_t (*QnnSystemInterface_GetProvidersFn_t)(
    const QnnSystemInterface_t*** providerList, uint32_t* numProviders);

// The one symbol the system library exports.
QNN_API Qnn_ErrorHandle_t
QnnSystemInterface_getProviders(const QnnSystemInterface_t*** providerList, uint32_t* numProviders);

#ifdef __cplusplus
}  // extern "C"
#endif
