// Contexts: configs, creation parameters, context binaries and the callbacks that feed them.
#pragma once

#include <stdint.h>

#include "qnn_objects.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum QnnContext_ConfigOption_t {
  QNN_CONTEXT_CONFIG_OPTION_CUSTOM = 0,
  QNN_CONTEXT_CONFIG_OPTION_PRIORITY = 1,
  QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING = 2,
  QNN_CONTEXT_CONFIG_OPTION_OEM_STRING = 3,
  QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH = 4,
  QNN_CONTEXT_CONFIG_ENABLE_GRAPHS = 5,
  QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT = 6,
  QNN_CONTEXT_CONFIG_PERSISTENT_BINARY = 7,
  QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY = 8,
  QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT = 9,
  QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER = 10,
  QNN_CONTEXT_CONFIG_UNDEFINED = 0x7FFFFFFF,
} QnnContext_ConfigOption_t;

typedef enum QnnContext_BinaryCompatibilityType_t {
  QNN_CONTEXT_BINARY_COMPATIBILITY_PERMISSIVE = 0,
  QNN_CONTEXT_BINARY_COMPATIBILITY_STRICT = 1,
  QNN_CONTEXT_BINARY_COMPATIBILITY_TYPE_UNDEFINED = 0x7FFFFFF,
} QnnContext_BinaryCompatibilityType_t;

typedef enum QnnContext_AsyncExecutionQueueDepthType_t {
  QNN_CONTEXT_ASYNC_EXECUTION_QUEUE_DEPTH_TYPE_NUMERIC = 0,
  QNN_CONTEXT_ASYNC_EXECUTION_QUEUE_DEPTH_TYPE_UNDEFINED = 0x7FFFFFF,
} QnnContext_AsyncExecutionQueueDepthType_t;

typedef enum QnnContext_createFromBinaryAsyncNotifyType_t {
  QNN_CONTEXT_NOTIFY_TYPE_GRAPH_INIT = 0,
  QNN_CONTEXT_NOTIFY_TYPE_CONTEXT_INIT = 1,
  QNN_CONTEXT_NOTIFY_TYPE_UNDEFINED = 0x7FFFFFF,
} QnnContext_createFromBinaryAsyncNotifyType_t;

typedef enum QnnContext_ParamsVersion_t {
  QNN_CONTEXT_PARAMS_VERSION_1 = 1,
  QNN_CONTEXT_PARAMS_VERSION_2 = 2,
  QNN_CONTEXT_PARAMS_VERSION_UNDEFINED = 0x7FFFFFFF,
} QnnContext_ParamsVersion_t;

typedef enum Qnn_ContextBinaryRawBufferCallbackVersion_t {
  QNN_CONTEXT_CALLBACK_RAW_BUFFER_VERSION_1 = 1,
  QNN_CONTEXT_CALLBACK_RAW_BUFFER_VERSION_UNDEFINED = 0x7FFFFFFF,
} Qnn_ContextBinaryRawBufferCallbackVersion_t;

typedef enum Qnn_ContextBinaryDmaBufferCallbackVersion_t {
  QNN_CONTEXT_CALLBACK_DMA_BUFFER_VERSION_1 = 1,
  QNN_CONTEXT_CALLBACK_DMA_BUFFER_VERSION_UNDEFINED = 0x7FFFFFFF,
} Qnn_ContextBinaryDmaBufferCallbackVersion_t;

typedef enum Qnn_ContextBinaryCallbackType_t {
  QNN_CONTEXT_CALLBACK_RAW_BUFFER = 1,
  QNN_CONTEXT_CALLBACK_DMA_BUFFER = 2,
  QNN_CONTEXT_CALLBACK_UNDEFINED = 0x7FFFFFFF,
} Qnn_ContextBinaryCallbackType_t;

typedef enum QnnContext_SectionType_t {
  QNN_CONTEXT_SECTION_UPDATABLE = 1,
  QNN_CONTEXT_SECTION_UPDATABLE_WEIGHTS = 2,
  QNN_CONTEXT_SECTION_UPDATABLE_QUANT_PARAMS = 3,
  QNN_CONTEXT_SECTION_UNDEFINED = 0x7FFFFFFF,
} QnnContext_SectionType_t;

typedef enum QnnContext_MemType_t {
  QNN_CONTEXTMEMTYPE_RAW = 0,
  QNN_CONTEXTMEMTYPE_MEMHANDLE = 1,
  QNN_CONTEXTMEMTYPE_UNDEFINED = 0x7FFFFFFF,
} QnnContext_MemType_t;

typedef enum QnnContext_BufferVersion_t {
  QNN_CONTEXT_BUFFER_VERSION_1 = 1,
  QNN_CONTEXT_BUFFER_VERSION_UNDEFINED = 0x7FFFFFFF,
} QnnContext_BufferVersion_t;

typedef enum QnnContext_PropertyOption_t {
  QNN_CONTEXT_PROPERTY_OPTION_CUSTOM = 0,
  QNN_CONTEXT_PROPERTY_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnContext_PropertyOption_t;

// The parameters of these callbacks are not part of the published facts this file is written from:
// the slots have the right place and size; cast before the call.
typedef void (*QnnContext_createFromBinaryNotifyFn_t)(void);
typedef void (*Qnn_ContextBinaryRawDataProviderFn_t)(void);
typedef void (*Qnn_ContextBinaryRawDataReleaseFn_t)(void);
typedef void (*Qnn_ContextBinaryDmaDataProviderFn_t)(void);
typedef void (*Qnn_ContextBinaryDmaDataReleaseFn_t)(void);

typedef struct QnnContext_AsyncExecutionQueueDepth_t {
  QnnContext_AsyncExecutionQueueDepthType_t type;
  union {
    uint32_t depth;
  };
} QnnContext_AsyncExecutionQueueDepth_t;

typedef struct QnnContext_Config_t {
  QnnContext_ConfigOption_t option;
  union {
    QnnContext_CustomConfig_t customConfig;
    Qnn_Priority_t priority;
    Qnn_ErrorReportingConfig_t errorConfig;
    const char* oemString;
    QnnContext_AsyncExecutionQueueDepth_t asyncExeQueueDepth;
    const char* const* enableGraphs;
    uint64_t memoryLimitHint;
    uint8_t isPersistentBinary;
    QnnContext_BinaryCompatibilityType_t binaryCompatibilityType;
    uint8_t isGraphInitDeferred;
    const char* const* graphRetentionOrder;
  };
} QnnContext_Config_t;

typedef struct QnnContext_ParamsV1_t {
  const QnnContext_Config_t** config;
  const void* binaryBuffer;
  Qnn_ContextBinarySize_t binaryBufferSize;
  Qnn_ProfileHandle_t profile;
  QnnContext_createFromBinaryNotifyFn_t notifyFunc;
  void* notifyParam;
} QnnContext_ParamsV1_t;

typedef struct Qnn_ContextBinaryDataRequest_t {
  Qnn_ContextBinarySize_t offset;
  Qnn_ContextBinarySize_t size;
  uint8_t isBackendMappingNeeded;
} Qnn_ContextBinaryDataRequest_t;

typedef struct Qnn_ContextBinaryRawDataResponse_t {
  void* memPtr;
  Qnn_ContextBinarySize_t dataStartOffset;
  Qnn_ContextBinarySize_t alignedSize;
} Qnn_ContextBinaryRawDataResponse_t;

typedef struct Qnn_ContextBinaryDmaDataResponse_t {
  Qnn_MemDmaBufInfo_t dmaBuffer;
  Qnn_ContextBinarySize_t dataStartOffset;
  Qnn_ContextBinarySize_t alignedSize;
} Qnn_ContextBinaryDmaDataResponse_t;

typedef struct Qnn_ContextBinaryRawDataMem_t {
  void* memPtr;
  Qnn_ContextBinarySize_t memSize;
} Qnn_ContextBinaryRawDataMem_t;

typedef struct Qnn_ContextBinaryDmaDataMem_t {
  Qnn_MemDmaBufInfo_t dmaBuffer;
  Qnn_ContextBinarySize_t memSize;
} Qnn_ContextBinaryDmaDataMem_t;

typedef struct Qnn_ContextBinaryRawBufferCallbackV1_t {
  Qnn_ContextBinaryRawDataProviderFn_t dataProvide;
  Qnn_ContextBinaryRawDataReleaseFn_t dataRelease;
  void* notifyParam;
} Qnn_ContextBinaryRawBufferCallbackV1_t;

typedef struct Qnn_ContextBinaryDmaBufferCallbackV1_t {
  Qnn_ContextBinaryDmaDataProviderFn_t dataProvide;
  Qnn_ContextBinaryDmaDataReleaseFn_t dataRelease;
  void* notifyParam;
} Qnn_ContextBinaryDmaBufferCallbackV1_t;

typedef struct Qnn_ContextBinaryRawBufferCallback_t {
  Qnn_ContextBinaryRawBufferCallbackVersion_t version;
  union {
    Qnn_ContextBinaryRawBufferCallbackV1_t v1;
  };
} Qnn_ContextBinaryRawBufferCallback_t;

typedef struct Qnn_ContextBinaryDmaBufferCallback_t {
  Qnn_ContextBinaryDmaBufferCallbackVersion_t version;
  union {
    Qnn_ContextBinaryDmaBufferCallbackV1_t v1;
  };
} Qnn_ContextBinaryDmaBufferCallback_t;

typedef struct Qnn_ContextBinaryCallback_t {
  Qnn_ContextBinaryCallbackType_t type;
  union {
    Qnn_ContextBinaryRawBufferCallback_t rawBufferCallback;
    Qnn_ContextBinaryDmaBufferCallback_t dmaBufferCallback;
  };
} Qnn_ContextBinaryCallback_t;

typedef struct QnnContext_ParamsV2_t {
  const QnnContext_Config_t** config;
  const void* binaryBuffer;
  Qnn_ContextBinarySize_t binaryBufferSize;
  Qnn_ProfileHandle_t profile;
  QnnContext_createFromBinaryNotifyFn_t notifyFunc;
  void* notifyParam;
  const Qnn_ContextBinaryCallback_t* callback;
} QnnContext_ParamsV2_t;

// v1 is held in place, v2 by pointer.
typedef struct QnnContext_Params_t {
  QnnContext_ParamsVersion_t version;
  union {
    QnnContext_ParamsV1_t v1;
    QnnContext_ParamsV2_t* v2;
  };
} QnnContext_Params_t;

typedef struct Qnn_BinaryBuffer_t {
  void* data;
  Qnn_ContextBinarySize_t dataSize;
} Qnn_BinaryBuffer_t;

// memType selects binaryBuf or memHandle.
typedef struct QnnContext_BufferV1_t {
  QnnContext_MemType_t memType;
  union {
    Qnn_BinaryBuffer_t binaryBuf;
    Qnn_MemHandle_t memHandle;
  };
} QnnContext_BufferV1_t;

typedef struct QnnContext_Buffer_t {
  QnnContext_BufferVersion_t version;
  union {
    QnnContext_BufferV1_t v1;
  };
} QnnContext_Buffer_t;

typedef struct QnnContext_Property_t {
  QnnContext_PropertyOption_t option;
  union {
    QnnContext_CustomProperty_t customProperty;
  };
} QnnContext_Property_t;

#ifdef __cplusplus
}  // extern "C"
#endif
