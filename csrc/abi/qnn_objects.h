// Configs, properties and records of the QNN objects: backend, device, graph, log, profile, signal.
// A config list is an array of pointers that ends with NULL; a NULL list means "all defaults".
#pragma once

#include <stdarg.h>
#include <stdint.h>

#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Payloads of the CUSTOM options: the backend says what they point at ----

typedef void* QnnBackend_CustomConfig_t;
typedef void* QnnBackend_CustomProperty_t;
typedef void* QnnContext_CustomConfig_t;
typedef void* QnnContext_CustomProperty_t;
typedef void* QnnDevice_CustomConfig_t;
typedef void* QnnDevice_CoreInfoExtension_t;
typedef void* QnnDevice_DeviceInfoExtension_t;
typedef void* QnnGraph_CustomConfig_t;
typedef void* QnnGraph_CustomProperty_t;
typedef void* QnnProfile_CustomConfig_t;
typedef void* QnnSignal_CustomConfig_t;
// HTP: a QnnHtpDevice_Infrastructure_t*.
typedef void* QnnDevice_Infrastructure_t;

// ---- Backend ----

typedef enum QnnBackend_ConfigOption_t {
  QNN_BACKEND_CONFIG_OPTION_CUSTOM = 0,
  QNN_BACKEND_CONFIG_OPTION_ERROR_REPORTING = 1,
  QNN_BACKEND_CONFIG_OPTION_PLATFORM = 2,
  QNN_BACKEND_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnBackend_ConfigOption_t;

typedef enum QnnBackend_PropertyOption_t {
  QNN_BACKEND_PROPERTY_OPTION_CUSTOM = 0,
  QNN_BACKEND_PROPERTY_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnBackend_PropertyOption_t;

typedef struct QnnBackend_Config_t {
  QnnBackend_ConfigOption_t option;
  union {
    QnnBackend_CustomConfig_t customConfig;
    Qnn_ErrorReportingConfig_t errorConfig;
    const char* platformOption;
  };
} QnnBackend_Config_t;

typedef struct QnnBackend_OperationName_t {
  const char* packageName;
  const char* name;
  const char* target;
} QnnBackend_OperationName_t;

typedef struct QnnBackend_Property_t {
  QnnBackend_PropertyOption_t option;
  union {
    QnnBackend_CustomProperty_t customProperty;
  };
} QnnBackend_Property_t;

// ---- Device and global config ----

typedef enum QnnDevice_CoreInfoVersion_t {
  QNN_DEVICE_CORE_INFO_VERSION_1 = 1,
  QNN_DEVICE_CORE_INFO_VERSION_UNDEFINED = 0x7FFFFFFF,
} QnnDevice_CoreInfoVersion_t;

typedef enum QnnDevice_HardwareDeviceInfoVersion_t {
  QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_1 = 1,
  QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_UNDEFINED = 0x7FFFFFFF,
} QnnDevice_HardwareDeviceInfoVersion_t;

typedef enum QnnDevice_PlatformInfoVersion_t {
  QNN_DEVICE_PLATFORM_INFO_VERSION_1 = 1,
  QNN_DEVICE_PLATFORM_INFO_VERSION_UNDEFINED = 0x7FFFFFFF,
} QnnDevice_PlatformInfoVersion_t;

typedef enum QnnDevice_ConfigOption_t {
  QNN_DEVICE_CONFIG_OPTION_CUSTOM = 0,
  QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO = 1,
  QNN_DEVICE_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnDevice_ConfigOption_t;

typedef struct QnnDevice_CoreInfoV1_t {
  uint32_t coreId;
  uint32_t coreType;
  QnnDevice_CoreInfoExtension_t coreInfoExtension;
} QnnDevice_CoreInfoV1_t;

typedef struct QnnDevice_CoreInfo_t {
  QnnDevice_CoreInfoVersion_t version;
  union {
    QnnDevice_CoreInfoV1_t v1;
  };
} QnnDevice_CoreInfo_t;

typedef struct QnnDevice_HardwareDeviceInfoV1_t {
  uint32_t deviceId;
  uint32_t deviceType;
  uint32_t numCores;
  QnnDevice_CoreInfo_t* cores;
  QnnDevice_DeviceInfoExtension_t deviceInfoExtension;
} QnnDevice_HardwareDeviceInfoV1_t;

typedef struct QnnDevice_HardwareDeviceInfo_t {
  QnnDevice_HardwareDeviceInfoVersion_t version;
  union {
    QnnDevice_HardwareDeviceInfoV1_t v1;
  };
} QnnDevice_HardwareDeviceInfo_t;

typedef struct QnnDevice_PlatformInfoV1_t {
  uint32_t numHwDevices;
  QnnDevice_HardwareDeviceInfo_t* hwDevices;
} QnnDevice_PlatformInfoV1_t;

typedef struct QnnDevice_PlatformInfo_t {
  QnnDevice_PlatformInfoVersion_t version;
  union {
    QnnDevice_PlatformInfoV1_t v1;
  };
} QnnDevice_PlatformInfo_t;

typedef struct QnnDevice_Config_t {
  QnnDevice_ConfigOption_t option;
  union {
    QnnDevice_CustomConfig_t customConfig;
    QnnDevice_PlatformInfo_t* hardwareInfo;
  };
} QnnDevice_Config_t;

typedef enum QnnGlobalConfig_ConfigOption_t {
  QNN_GLOBAL_CONFIG_OPTION_SOC_MODEL = 0,
  QNN_GLOBAL_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnGlobalConfig_ConfigOption_t;

// socModel is one of QNN_SOC_MODEL_*.
typedef struct QnnGlobalConfig_t {
  QnnGlobalConfig_ConfigOption_t option;
  union {
    Qnn_SocModel_t socModel;
  };
} QnnGlobalConfig_t;

// ---- Graph ----

typedef enum QnnGraph_ConfigOption_t {
  QNN_GRAPH_CONFIG_OPTION_CUSTOM = 0,
  QNN_GRAPH_CONFIG_OPTION_PRIORITY = 3,
  QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE = 4,
  QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE = 5,
  QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS = 6,
  QNN_GRAPH_CONFIG_OPTION_ENABLE_BINARY_SECTION_WEIGHTS_UPDATES = 7,
  QNN_GRAPH_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnGraph_ConfigOption_t;

typedef enum QnnGraph_ProfilingState_t {
  QNN_GRAPH_PROFILING_STATE_ENABLED = 1,
  QNN_GRAPH_PROFILING_STATE_DISABLED = 2,
  QNN_GRAPH_PROFILING_STATE_UNDEFINED = 0x7FFFFFFF,
} QnnGraph_ProfilingState_t;

typedef enum QnnGraph_PropertyOption_t {
  QNN_GRAPH_PROPERTY_OPTION_CUSTOM = 0,
  QNN_GRAPH_PROPERTY_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnGraph_PropertyOption_t;

typedef enum QnnGraph_ExecuteEnvironmentOption_t {
  QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_BIND_MEM_HANDLES = 0,
  QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_POPULATE_CLIENT_BUFS = 1,
  QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnGraph_ExecuteEnvironmentOption_t;

typedef struct QnnGraph_Config_t {
  QnnGraph_ConfigOption_t option;
  union {
    QnnGraph_CustomConfig_t customConfig;
    Qnn_Priority_t priority;
    Qnn_ProfileHandle_t profileHandle;
    QnnGraph_ProfilingState_t profilingState;
    uint32_t numProfilingExecutions;
    uint8_t enableBinarySectionWeightsUpdates;
  };
} QnnGraph_Config_t;

typedef struct QnnGraph_Property_t {
  QnnGraph_PropertyOption_t option;
  union {
    QnnGraph_CustomProperty_t customProperty;
  };
} QnnGraph_Property_t;

// tensorSet is the payload of both options: the handles to bind, or the buffers to fill in.
typedef struct QnnGraph_ExecuteEnvironment_t {
  QnnGraph_ExecuteEnvironmentOption_t option;
  union {
    Qnn_TensorSet_t tensorSet;
  };
} QnnGraph_ExecuteEnvironment_t;

// ---- Log ----

typedef enum QnnLog_Level_t {
  QNN_LOG_LEVEL_ERROR = 1,
  QNN_LOG_LEVEL_WARN = 2,
  QNN_LOG_LEVEL_INFO = 3,
  QNN_LOG_LEVEL_VERBOSE = 4,
  QNN_LOG_LEVEL_DEBUG = 5,
  QNN_LOG_LEVEL_MAX = 0x7FFFFFFF,
} QnnLog_Level_t;

// fmt and args are as for vprintf; the unit of timestamp is the backend's own. May be called on any
// thread.
typedef void (*QnnLog_Callback_t)(const char* fmt, QnnLog_Level_t level, uint64_t timestamp,
                                  va_list args);

// ---- Profile ----

typedef uint64_t QnnProfile_EventId_t;
typedef uint64_t QnnProfile_EventValue_t;
typedef uint32_t QnnProfile_Level_t;      // one of QNN_PROFILE_LEVEL_*
typedef uint32_t QnnProfile_EventType_t;  // one of QNN_PROFILE_EVENTTYPE_*
typedef uint32_t QnnProfile_EventUnit_t;  // one of QNN_PROFILE_EVENTUNIT_*

#define QNN_PROFILE_EVENTTYPE_BACKEND 1000u
#define QNN_PROFILE_EVENTTYPE_DEINIT 500u
#define QNN_PROFILE_EVENTTYPE_EXECUTE 400u
#define QNN_PROFILE_EVENTTYPE_EXECUTE_DEVICE 407u
#define QNN_PROFILE_EVENTTYPE_EXECUTE_POSTPROCESS 408u
#define QNN_PROFILE_EVENTTYPE_EXECUTE_PREPROCESS 406u
#define QNN_PROFILE_EVENTTYPE_EXECUTE_QUEUE_WAIT 405u
#define QNN_PROFILE_EVENTTYPE_FINALIZE 300u
#define QNN_PROFILE_EVENTTYPE_INIT 100u
#define QNN_PROFILE_EVENTTYPE_NODE 404u
#define QNN_PROFILE_EVENTTYPE_TRACE 600u
#define QNN_PROFILE_EVENTUNIT_BACKEND 1000u
#define QNN_PROFILE_EVENTUNIT_BYTES 2u
#define QNN_PROFILE_EVENTUNIT_COUNT 4u
#define QNN_PROFILE_EVENTUNIT_CYCLES 3u
#define QNN_PROFILE_EVENTUNIT_MICROSEC 1u
#define QNN_PROFILE_EVENTUNIT_NONE 6u
#define QNN_PROFILE_EVENTUNIT_OBJECT 5u
#define QNN_PROFILE_LEVEL_BACKEND 1000u
#define QNN_PROFILE_LEVEL_BASIC 1u
#define QNN_PROFILE_LEVEL_DETAILED 2u

typedef enum QnnProfile_ExtendedEventDataVersion_t {
  QNN_PROFILE_DATA_VERSION_1 = 1,
  QNN_PROFILE_DATA_VERSION_UNDEFINED = 0x7FFFFFFF,
} QnnProfile_ExtendedEventDataVersion_t;

typedef enum QnnProfile_ConfigOption_t {
  QNN_PROFILE_CONFIG_OPTION_CUSTOM = 0,
  QNN_PROFILE_CONFIG_OPTION_MAX_EVENTS = 1,
  QNN_PROFILE_CONFIG_OPTION_ENABLE_OPTRACE = 2,
  QNN_PROFILE_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnProfile_ConfigOption_t;

typedef struct QnnProfile_EventData_t {
  QnnProfile_EventType_t type;
  QnnProfile_EventUnit_t unit;
  QnnProfile_EventValue_t value;
  const char* identifier;
} QnnProfile_EventData_t;

typedef struct QnnProfile_BackendOpaqueObject_t {
  Qnn_OpaqueObject_t opaqueObject;
  const char* fileName;
} QnnProfile_BackendOpaqueObject_t;

// unit EVENTUNIT_OBJECT selects backendOpaqueObject; every other unit selects value.
typedef struct QnnProfile_ExtendedEventDataV1_t {
  QnnProfile_EventType_t type;
  QnnProfile_EventUnit_t unit;
  union {
    Qnn_Scalar_t value;
    QnnProfile_BackendOpaqueObject_t backendOpaqueObject;
  };
  uint64_t timestamp;
  const char* identifier;
} QnnProfile_ExtendedEventDataV1_t;

typedef struct QnnProfile_ExtendedEventData_t {
  QnnProfile_ExtendedEventDataVersion_t version;
  union {
    QnnProfile_ExtendedEventDataV1_t v1;
  };
} QnnProfile_ExtendedEventData_t;

typedef struct QnnProfile_Config_t {
  QnnProfile_ConfigOption_t option;
  union {
    QnnProfile_CustomConfig_t customConfig;
    uint64_t numMaxEvents;
    uint8_t enableOptrace;
  };
} QnnProfile_Config_t;

// ---- Signal ----

typedef enum QnnSignal_ConfigOption_t {
  QNN_SIGNAL_CONFIG_OPTION_CUSTOM = 0,
  QNN_SIGNAL_CONFIG_OPTION_ABORT = 1,
  QNN_SIGNAL_CONFIG_OPTION_TIMEOUT = 2,
  QNN_SIGNAL_CONFIG_UNDEFINED = 0x7FFFFFFF,
} QnnSignal_ConfigOption_t;

typedef struct QnnSignal_Config_t {
  QnnSignal_ConfigOption_t option;
  union {
    QnnSignal_CustomConfig_t customConfig;
    uint64_t timeoutDurationUs;
  };
} QnnSignal_Config_t;

#ifdef __cplusplus
}  // extern "C"
#endif
