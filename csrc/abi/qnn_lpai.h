// LPAI extensions. Configs and properties share one pattern: {option, pointer to the option's own
// struct}, hung off the generic CUSTOM config or property.
#pragma once

#include <stdint.h>

#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum QnnLpaiBackend_CustomConfigOption_t {
  QNN_LPAI_BACKEND_CUSTOM_CFG_HW_INFO = 0,
  QNN_LPAI_BACKEND_CUSTOM_CFG_UNDEFINED = 0x7FFFFFFF,
} QnnLpaiBackend_CustomConfigOption_t;

typedef enum QnnLpaiBackend_Target_t {
  QNN_LPAI_BACKEND_TARGET_X86 = 0,
  QNN_LPAI_BACKEND_TARGET_ARM = 1,
  QNN_LPAI_BACKEND_TARGET_ADSP = 2,
  QNN_LPAI_BACKEND_TARGET_TENSILICA = 3,
  QNN_LPAI_BACKEND_TARGET_UNKNOWN = 0x7FFFFFFF,
} QnnLpaiBackend_Target_t;

typedef enum QnnLpaiBackend_HwVersion_t {
  QNN_LPAI_BACKEND_HW_VERSION_NA = 0,
  QNN_LPAI_BACKEND_HW_VERSION_V1 = 1,
  QNN_LPAI_BACKEND_HW_VERSION_V2 = 2,
  QNN_LPAI_BACKEND_HW_VERSION_V3 = 3,
  QNN_LPAI_BACKEND_HW_VERSION_V4 = 4,
  QNN_LPAI_BACKEND_HW_VERSION_V5 = 5,
  QNN_LPAI_BACKEND_HW_VERSION_V5_1 = 65541,
  QNN_LPAI_BACKEND_HW_VERSION_V6 = 6,
  QNN_LPAI_BACKEND_HW_VERSION_V7 = 7,
  QNN_LPAI_BACKEND_HW_VERSION_DEFAULT = 6,
  QNN_LPAI_BACKEND_HW_VERSION_UNKNOWN = 0x7FFFFFFF,
} QnnLpaiBackend_HwVersion_t;

typedef enum QnnLpaiBackend_GetPropertyOption_t {
  QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ = 0,
  QNN_LPAI_BACKEND_GET_PROP_REQUIRE_PERSISTENT_BINARY = 1,
  QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_NUM = 200,
  QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_INFO = 300,
  QNN_LPAI_BACKEND_GET_PROP_UNDEFINED = 0x7FFFFFFF,
} QnnLpaiBackend_GetPropertyOption_t;

typedef enum QnnLpaiContext_SetConfigOption_t {
  QNN_LPAI_CONTEXT_SET_CFG_MODEL_BUFFER_MEM_TYPE = 1,
  QNN_LPAI_CONTEXT_SET_CFG_ENABLE_ISLAND = 11,
  QNN_LPAI_CONTEXT_SET_CFG_UNDEFINED = 0x7FFFFFFF,
} QnnLpaiContext_SetConfigOption_t;

typedef enum QnnLpaiMem_MemType_t {
  QNN_LPAI_MEM_TYPE_DDR = 1,
  QNN_LPAI_MEM_TYPE_LLC = 2,
  QNN_LPAI_MEM_TYPE_TCM = 3,
  QNN_LPAI_MEM_TYPE_PSRAM = 4,
  QNN_LPAI_MEM_TYPE_UNDEFINED = 0x7FFFFFFF,
} QnnLpaiMem_MemType_t;

typedef enum QnnLpaiGraph_SetConfigOption_t {
  QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM = 1,
  QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM = 101,
  QNN_LPAI_GRAPH_SET_CFG_PERF_CFG = 201,
  QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY = 301,
  QNN_LPAI_GRAPH_SET_CFG_UNDEFINED = 0x7FFFFFFF,
} QnnLpaiGraph_SetConfigOption_t;

typedef enum QnnLpaiGraph_GetPropertyOption_t {
  QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE = 1,
  QNN_LPAI_GRAPH_GET_PROP_PERSISTENT_MEM_SIZE = 101,
  QNN_LPAI_GRAPH_GET_PROP_UNDEFINED = 0x7FFFFFFF,
} QnnLpaiGraph_GetPropertyOption_t;

typedef enum QnnLpaiGraph_ClientPerfType_t {
  QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_REAL_TIME = 1,
  QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_NON_REAL_TIME = 2,
  QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_UNDEFINED = 0x7FFFFFFF,
} QnnLpaiGraph_ClientPerfType_t;

typedef enum QnnLpaiGraph_CoreAffinityType_t {
  QNN_LPAI_GRAPH_CORE_AFFINITY_SOFT = 1,
  QNN_LPAI_GRAPH_CORE_AFFINITY_HARD = 2,
  QNN_LPAI_GRAPH_CORE_AFFINITY_UNDEFINED = 0x7FFFFFFF,
} QnnLpaiGraph_CoreAffinityType_t;

typedef enum QnnLpaiGraph_ConfigPrepareOption_t {
  QNN_LPAI_GRAPH_SET_CFG_PREPARE = 10001,
} QnnLpaiGraph_ConfigPrepareOption_t;

typedef struct QnnLpaiBackend_CustomConfig_t {
  uint32_t option;
  void* config;
} QnnLpaiBackend_CustomConfig_t;

typedef struct QnnLpaiBackend_CustomConfigHwInfo_t {
  QnnLpaiBackend_Target_t lpaiTarget;
  QnnLpaiBackend_HwVersion_t hwVersion;
} QnnLpaiBackend_CustomConfigHwInfo_t;

typedef struct QnnLpaiBackend_BufferAlignmentReq_t {
  uint32_t startAddrAlignment;
  uint32_t sizeAlignment;
} QnnLpaiBackend_BufferAlignmentReq_t;

typedef struct QnnLpaiBackend_eNPUCoreInfo_t {
  uint32_t coreIndex;
  uint32_t macCnt;
  uint32_t version;
} QnnLpaiBackend_eNPUCoreInfo_t;

typedef struct QnnLpaiBackend_CustomProperty_t {
  uint32_t option;
  void* property;
} QnnLpaiBackend_CustomProperty_t;

typedef struct QnnLpaiContext_CustomConfig_t {
  uint32_t option;
  void* config;
} QnnLpaiContext_CustomConfig_t;

typedef struct QnnLpaiDevice_DeviceInfoExtension_t {
  uint32_t socModel;
  uint32_t arch;
  uint32_t domainId;
  const char* domainName;
} QnnLpaiDevice_DeviceInfoExtension_t;

// Hung off Qnn_MemDescriptor_t.customInfo; offset is in bytes.
typedef struct QnnLpaiMem_MemInfoCustom_t {
  int32_t fd;
  uint32_t offset;
} QnnLpaiMem_MemInfoCustom_t;

typedef struct QnnLpaiGraph_PerfCfg_t {
  uint32_t fps;
  uint32_t ftrtRatio;
  QnnLpaiGraph_ClientPerfType_t clientType;
} QnnLpaiGraph_PerfCfg_t;

typedef struct QnnLpaiGraph_CoreAffinity_t {
  QnnLpaiGraph_CoreAffinityType_t affinity;
  uint32_t coreSelection;
} QnnLpaiGraph_CoreAffinity_t;

typedef struct QnnLpaiGraph_Mem_t {
  QnnLpaiMem_MemType_t memType;
  uint32_t size;
  void* addr;
} QnnLpaiGraph_Mem_t;

typedef struct QnnLpaiGraph_CustomConfig_t {
  uint32_t option;
  void* config;
} QnnLpaiGraph_CustomConfig_t;

typedef struct QnnLpaiGraph_CustomProperty_t {
  uint32_t option;
  void* property;
} QnnLpaiGraph_CustomProperty_t;

typedef struct QnnLpaiGraph_CustomConfigPrepare_t {
  uint32_t enablePerLayer;
  char* enableCoreSelection;
} QnnLpaiGraph_CustomConfigPrepare_t;

#ifdef __cplusplus
}  // extern "C"
#endif
