// HTP extensions. Custom configs hang off the customConfig pointer of the generic config with
// option CUSTOM (0).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qnn_htp_perf.h"
#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Memory ----

typedef uint64_t QnnHtpMem_QurtAddress_t;

typedef enum QnnHtpMem_Type_t {
  QNN_HTP_MEM_QURT = 0,
  QNN_HTP_MEM_SHARED_BUFFER = 1,
  QNN_HTP_MEM_WEIGHTS_BUFFER = 2,
  QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER = 3,
  QNN_HTP_MEM_UNDEFINED = 0x7FFFFFFF,
} QnnHtpMem_Type_t;

// offset is in bytes from the start of the buffer behind fd.
typedef struct QnnHtpMem_SharedBufferConfig_t {
  int32_t fd;
  uint64_t offset;
} QnnHtpMem_SharedBufferConfig_t;

// Hung off Qnn_MemDescriptor_t.customInfo. For the buffer kinds, size is the whole buffer behind
// fd, not the tensor; offset is where this tensor starts. It need only live for the duration of
// memRegister.
typedef struct QnnMemHtp_Descriptor_t {
  QnnHtpMem_Type_t type;
  uint64_t size;
  union {
    QnnHtpMem_QurtAddress_t qurtAddress;
    QnnHtpMem_SharedBufferConfig_t sharedBufferConfig;
    QnnHtpMem_SharedBufferConfig_t weightsBufferConfig;
    QnnHtpMem_SharedBufferConfig_t sharedSpillfillBufferConfig;
  };
} QnnMemHtp_Descriptor_t;

// ---- Device ----

typedef enum QnnHtpDevice_Arch_t {
  QNN_HTP_DEVICE_ARCH_NONE = 0,
  QNN_HTP_DEVICE_ARCH_V68 = 68,
  QNN_HTP_DEVICE_ARCH_V69 = 69,
  QNN_HTP_DEVICE_ARCH_V73 = 73,
  QNN_HTP_DEVICE_ARCH_V75 = 75,
  QNN_HTP_DEVICE_ARCH_V79 = 79,
  QNN_HTP_DEVICE_ARCH_V81 = 81,
  QNN_HTP_DEVICE_ARCH_V85 = 85,
  QNN_HTP_DEVICE_ARCH_UNKNOWN = 0x7FFFFFFF,
} QnnHtpDevice_Arch_t;

typedef enum QnnHtpDevice_ConfigOption_t {
  QNN_HTP_DEVICE_CONFIG_OPTION_SOC = 0,
  QNN_HTP_DEVICE_CONFIG_OPTION_ARCH = 1,
  QNN_HTP_DEVICE_CONFIG_OPTION_SIGNEDPD = 2,
  QNN_HTP_DEVICE_CONFIG_OPTION_SECUREPD = 3,
  QNN_HTP_DEVICE_CONFIG_OPTION_UNKNOWN = 0x7FFFFFFF,
} QnnHtpDevice_ConfigOption_t;

typedef enum QnnHtpDevice_DeviceType_t {
  QNN_HTP_DEVICE_TYPE_ON_CHIP = 0,
  QNN_HTP_DEVICE_TYPE_UNKNOWN = 0x7FFFFFFF,
} QnnHtpDevice_DeviceType_t;

typedef enum QnnHtpDevice_CoreType_t {
  QNN_HTP_CORE_TYPE_NSP = 0,
  QNN_HTP_CORE_TYPE_HPASS = 1,
  QNN_HTP_CORE_TYPE_MAX = 2,
  QNN_HTP_CORE_TYPE_UNKNOWN = 0x7FFFFFFF,
} QnnHtpDevice_CoreType_t;

typedef enum QnnHtpDevice_InfrastructureType_t {
  QNN_HTP_DEVICE_INFRASTRUCTURE_TYPE_PERF = 0,
  QNN_HTP_DEVICE_INFRASTRUCTURE_TYPE_UNKNOWN = 0x7FFFFFFF,
} QnnHtpDevice_InfrastructureType_t;

typedef struct QnnHtpDevice_Minimum_Arch_t {
  uint32_t deviceId;
  QnnHtpDevice_Arch_t arch;
} QnnHtpDevice_Minimum_Arch_t;

typedef struct QnnHtpDevice_UseSignedProcessDomain_t {
  uint32_t deviceId;
  bool useSignedProcessDomain;
} QnnHtpDevice_UseSignedProcessDomain_t;

typedef struct QnnHtpDevice_UseSecureProcessDomain_t {
  uint32_t deviceId;
  bool useSecureProcessDomain;
} QnnHtpDevice_UseSecureProcessDomain_t;

// As of core API 2.32. In 2.40 the union stands at byte 8 (seen, with the vendor's library and with
// ONNX Runtime).
typedef struct QnnHtpDevice_CustomConfig_t {
  QnnHtpDevice_ConfigOption_t option;
  union {
    uint32_t socModel;
    QnnHtpDevice_Minimum_Arch_t arch;
    QnnHtpDevice_UseSignedProcessDomain_t useSignedProcessDomain;
    QnnHtpDevice_UseSecureProcessDomain_t useSecureProcessDomain;
  };
} QnnHtpDevice_CustomConfig_t;

typedef struct QnnHtpDevice_OnChipDeviceInfoExtension_t {
  size_t vtcmSize;
  uint32_t socModel;
  bool signedPdSupport;
  bool dlbcSupport;
  QnnHtpDevice_Arch_t arch;
} QnnHtpDevice_OnChipDeviceInfoExtension_t;

typedef struct QnnHtpDevice_DeviceInfoExtension_t {
  QnnHtpDevice_DeviceType_t devType;
  union {
    QnnHtpDevice_OnChipDeviceInfoExtension_t onChipDevice;
  };
} QnnHtpDevice_DeviceInfoExtension_t;

typedef struct QnnHtpDevice_PerfInfrastructure_t {
  QnnHtpPerfInfrastructure_CreatePowerConfigIdFn_t createPowerConfigId;
  QnnHtpPerfInfrastructure_DestroyPowerConfigIdFn_t destroyPowerConfigId;
  QnnHtpPerfInfrastructure_SetPowerConfigFn_t setPowerConfig;
  QnnHtpPerfInfrastructure_SetMemoryConfigFn_t setMemoryConfig;
} QnnHtpDevice_PerfInfrastructure_t;

typedef struct QnnHtpDevice_Infrastructure_t {
  QnnHtpDevice_InfrastructureType_t infraType;
  union {
    QnnHtpDevice_PerfInfrastructure_t perfInfra;
  };
} QnnHtpDevice_Infrastructure_t;

// ---- Graph ----

typedef enum QnnHtpGraph_OptimizationType_t {
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_SCHEDULE_THRESHOLD = 1,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_RETRIES = 2,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG = 3,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC = 4,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC_WEIGHTS = 5,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_SPARSE_WEIGHTS_COMPRESSION = 6,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_SLC_ALLOCATOR = 7,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_UNKNOWN = 0x7FFFFFFF,
} QnnHtpGraph_OptimizationType_t;

typedef enum QnnHtpGraph_ConcurrencyOption_t {
  QNN_HTP_GRAPH_CONCURRENCY_OPTION_NONE = 0,
  QNN_HTP_GRAPH_CONCURRENCY_OPTION_DEFAULT = 0,
  QNN_HTP_GRAPH_CONCURRENCY_OPTION_ALL_SHARED = 1,
  QNN_HTP_GRAPH_CONCURRENCY_OPTION_UNKNOWN = 0x7FFFFFFF,
} QnnHtpGraph_ConcurrencyOption_t;

typedef enum QnnHtpGraph_ConfigOption_t {
  QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION = 1,
  QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION = 2,
  QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB = 3,
  QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE = 3,
  QNN_HTP_GRAPH_CONFIG_OPTION_FOLD_RELU_ACTIVATION_INTO_CONV_OFF = 4,
  QNN_HTP_GRAPH_CONFIG_OPTION_SHORT_DEPTH_CONV_ON_HMX_OFF = 5,
  QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS = 6,
  QNN_HTP_GRAPH_CONFIG_OPTION_FINALIZE_CONFIG = 7,
  QNN_HTP_GRAPH_CONFIG_OPTION_NUM_CORES = 8,
  QNN_HTP_GRAPH_CONFIG_OPTION_PARALLEL_GRAPH_EXECUTION_CONFIG = 9,
  QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_BYTES = 10,
  QNN_HTP_GRAPH_CONFIG_OPTION_HMX_BOUNDING = 11,
  QNN_HTP_GRAPH_CONFIG_OPTION_WEIGHTS_PACKING = 12,
  QNN_HTP_GRAPH_CONFIG_OPTION_ASSUME_SAME_QUANT = 13,
  QNN_HTP_GRAPH_CONFIG_OPTION_SHARE_IO_BUFFER = 14,
  QNN_HTP_GRAPH_CONFIG_OPTION_ADVANCED_ACTIVATION_FUSION = 15,
  QNN_HTP_GRAPH_CONFIG_OPTION_HIGH_PRECISION_SIGMOID = 16,
  QNN_HTP_GRAPH_CONFIG_OPTION_MONOLITHIC_LSTM = 17,
  // As ONNX Runtime's provider sends it for enable_htp_fp16_clamp_overflow.
  QNN_HTP_GRAPH_CONFIG_OPTION_FP16_CLAMP_OVERFLOW = 20,
  QNN_HTP_GRAPH_CONFIG_OPTION_RESERVED = 0x7FFF0000,
  QNN_HTP_GRAPH_CONFIG_OPTION_UNKNOWN = 0x7FFFFFFF,
} QnnHtpGraph_ConfigOption_t;

typedef struct QnnHtpGraph_OptimizationOption_t {
  QnnHtpGraph_OptimizationType_t type;
  float floatValue;
} QnnHtpGraph_OptimizationOption_t;

typedef struct QnnHtpGraph_VtcmConfig_t {
  uint32_t sizeInBytes;
  uint32_t offsetInBytes;
  uint32_t sizeTotalInBytes;
  uint32_t reserved[3];
} QnnHtpGraph_VtcmConfig_t;

typedef struct QnnHtpGraph_ParallelGraphExecutionConfig_t {
  QnnHtpGraph_ConcurrencyOption_t concurrency;
  QnnHtpGraph_VtcmConfig_t vtcmConfig;
  uint32_t reserved[4];
} QnnHtpGraph_ParallelGraphExecutionConfig_t;

typedef struct QnnHtp_HmxBoundingInfo_t {
  float targetHmxFreqHz;
  float targetDspCoreFreq;
} QnnHtp_HmxBoundingInfo_t;

typedef struct QnnHtpGraph_FinalizeConfig_t {
  const char* key;
  Qnn_Scalar_t value;
} QnnHtpGraph_FinalizeConfig_t;

typedef struct QnnHtpGraph_CustomConfig_t {
  QnnHtpGraph_ConfigOption_t option;
  union {
    QnnHtpGraph_OptimizationOption_t optimizationOption;
    Qnn_Precision_t precision;
    uint32_t vtcmSizeInMB;
    bool foldReluActivationIntoConvOff;
    bool shortDepthConvOnHmxOff;
    uint64_t numHvxThreads;
    void* reserved;
    QnnHtpGraph_FinalizeConfig_t finalizeConfig;
    uint32_t numCores;
    QnnHtpGraph_ParallelGraphExecutionConfig_t parallelGraphExecutionConfig;
    uint32_t vtcmSizeInBytes;
    QnnHtp_HmxBoundingInfo_t hmxBoundingInfo;
    bool weightsPacking;
    bool assumeSameQuant;
    bool shareIOBuffer;
    bool advancedActivationFusion;
    bool highPrecisionSigmoid;
    bool monolithicLstm;
    bool fp16ClampOverflow;
  };
} QnnHtpGraph_CustomConfig_t;

// ---- Context ----

typedef enum QnnHtpContext_ConfigOption_t {
  QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED = 1,
  QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS = 2,
  QNN_HTP_CONTEXT_CONFIG_OPTION_FILE_READ_MEMORY_BUDGET = 3,
  QNN_HTP_CONTEXT_CONFIG_OPTION_DSP_MEMORY_PROFILING_ENABLED = 4,
  QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES = 5,
  QNN_HTP_CONTEXT_CONFIG_OPTION_IO_MEM_ESTIMATION = 6,
  QNN_HTP_CONTEXT_CONFIG_OPTION_PREPARE_ONLY = 7,
  QNN_HTP_CONTEXT_CONFIG_OPTION_INIT_ACCELERATION = 8,
  QNN_HTP_CONTEXT_CONFIG_OPTION_SKIP_VALIDATION_ON_BINARY_SECTION = 9,
  QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES_OPTIMIZATION_TYPE = 10,
  QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA = 11,
  QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING = 12,
  QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_WEIGHT_SHARING_ENABLED = 13,
  QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_14 = 14,
  QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_15 = 15,
  QNN_HTP_CONTEXT_CONFIG_OPTION_GRAPH_SPLITTING = 22,
  QNN_HTP_CONTEXT_CONFIG_OPTION_NUM_PREPARE_THREADS = 26,
  QNN_HTP_CONTEXT_CONFIG_OPTION_UNKNOWN = 0x7FFFFFFF,
} QnnHtpContext_ConfigOption_t;

typedef enum QnnHtpContext_ShareResourcesOptimizationType_t {
  SEQUENTIAL_WITH_VA_OPTIMIZATION = 0,
  SEQUENTIAL_WITHOUT_VA_OPTIMIZATION = 1,
  CONCURRENT_OPTIMIZATION = 2,
} QnnHtpContext_ShareResourcesOptimizationType_t;

typedef enum QnnHtpContext_GetPropertyOption_t {
  QNN_HTP_CONTEXT_GET_PROP_BUFFER_START_ALIGNMENT = 1,
  QNN_HTP_CONTEXT_GET_PROP_MAX_SPILLFILL_BUFFER_SIZE = 2,
  QNN_HTP_CONTEXT_GET_PROP_WEIGHTS_BUFFER_SIZE = 3,
  QNN_HTP_CONTEXT_GET_PROP_RESERVED_4 = 4,
  QNN_HTP_CONTEXT_GET_PROP_RESERVED_5 = 5,
  QNN_HTP_CONTEXT_GET_PROP_UNDEFINED = 0x7FFFFFFF,
} QnnHtpContext_GetPropertyOption_t;

typedef struct QnnHtpContext_GroupRegistration_t {
  Qnn_ContextHandle_t firstGroupHandle;
  uint64_t maxSpillFillBuffer;
} QnnHtpContext_GroupRegistration_t;

typedef struct QnnHtpContext_CustomConfig_t {
  QnnHtpContext_ConfigOption_t option;
  union {
    bool weightSharingEnabled;
    QnnHtpContext_GroupRegistration_t groupRegistration;
    uint64_t fileReadMemoryBudgetInMb;
    bool dspMemoryProfilingEnabled;
    bool shareResources;
    bool ioMemEstimation;
    bool isPrepareOnly;
    bool initAcceleration;
    bool skipValidationOnBinarySection;
    QnnHtpContext_ShareResourcesOptimizationType_t shareResOptType;
    bool useExtendedUdma;
    QnnHtpContext_GroupRegistration_t concurrentGroupRegistration;
    bool loraWeightSharingEnabled;
    bool graphSplitting;
    uint32_t numPrepareThreads;
  };
} QnnHtpContext_CustomConfig_t;

typedef struct QnnHtpContext_CustomProperty_t {
  QnnHtpContext_GetPropertyOption_t option;
  union {
    uint64_t bufferStartAlignment;
    uint64_t spillfillBufferSize;
    uint64_t weightsBufferSize;
  };
} QnnHtpContext_CustomProperty_t;

// ---- Records in context binaries ----

typedef enum QnnHtpSystemContext_HwInfoBlobVersion_t {
  QNN_SYSTEM_CONTEXT_HTP_HW_INFO_BLOB_VERSION_V1 = 1,
  QNN_SYSTEM_CONTEXT_HTP_HW_INFO_BLOB_UNDEFINED = 0x7FFFFFFF,
} QnnHtpSystemContext_HwInfoBlobVersion_t;

typedef enum QnnHtpSystemContext_GraphInfoBlobVersion_t {
  QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V1 = 1,
  QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V2 = 2,
  QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_UNDEFINED = 0x7FFFFFFF,
} QnnHtpSystemContext_GraphInfoBlobVersion_t;

typedef enum QnnHtpSystemContext_ContextInfoBlobVersion_t {
  QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_VERSION_V1 = 1,
  QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_UNDEFINED = 0x7FFFFFFF,
} QnnHtpSystemContext_ContextInfoBlobVersion_t;

typedef struct QnnHtpSystemContext_HwBlobInfoV1_t {
  uint32_t graphListIndex;
  uint64_t spillFillBufferSize;
} QnnHtpSystemContext_HwBlobInfoV1_t;

typedef struct QnnHtpSystemContext_HwBlobInfo_t {
  QnnHtpSystemContext_HwInfoBlobVersion_t version;
  union {
    QnnHtpSystemContext_HwBlobInfoV1_t contextBinaryHwInfoBlobV1_t;
  };
} QnnHtpSystemContext_HwBlobInfo_t;

typedef struct QnnHtpSystemContext_GraphBlobInfoV1_t {
  uint64_t spillFillBufferSize;
  uint32_t vtcmSize;
  uint32_t optimizationLevel;
  uint8_t htpDlbc;
  uint64_t numHvxThreads;
} QnnHtpSystemContext_GraphBlobInfoV1_t;

// The blob carries its own version first, so it is read in place of
// QnnHtpSystemContext_GraphBlobInfo_t.
typedef struct QnnHtpSystemContext_GraphBlobInfoV2_t {
  QnnHtpSystemContext_GraphInfoBlobVersion_t version;
  uint64_t nativeKChannelSize;
  uint64_t nativeVChannelSize;
  uint32_t isSafeShareIO;
  uint64_t ioTensorSize;
  uint64_t opDataSize;
  uint64_t constSize;
  uint64_t ddrTensorSize;
  uint64_t sharedWeightsSize;
} QnnHtpSystemContext_GraphBlobInfoV2_t;

typedef struct QnnHtpSystemContext_GraphBlobInfo_t {
  QnnHtpSystemContext_GraphInfoBlobVersion_t version;
  union {
    QnnHtpSystemContext_GraphBlobInfoV1_t contextBinaryGraphBlobInfoV1;
  };
} QnnHtpSystemContext_GraphBlobInfo_t;

typedef struct QnnHtpSystemContext_ContextBlobInfoV1_t {
  uint32_t dspArch;
} QnnHtpSystemContext_ContextBlobInfoV1_t;

typedef struct QnnHtpSystemContext_ContextBlobInfo_t {
  QnnHtpSystemContext_ContextInfoBlobVersion_t version;
  union {
    QnnHtpSystemContext_ContextBlobInfoV1_t contextBinaryContextBlobInfoV1;
  };
} QnnHtpSystemContext_ContextBlobInfo_t;

// Own capability key (group QNN_PROPERTY_GROUP_CUSTOM): is an unsigned process domain supported?
#define QNN_PROPERTY_HTP_UNSIGNED_PD_SUPPORT 2002u

#ifdef __cplusplus
}  // extern "C"
#endif
