// GPU extensions. Memory is registered as CUSTOM with QnnGpu_MemInfoCustom_t, or as DMA_BUF.
#pragma once

#include <stdint.h>

#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void* QnnGpuMem_Buffer_t;  // a cl_mem

typedef enum QnnGpu_MemType_t {
  QNN_GPU_MEM_OPENCL = 0,
  QNN_GPU_MEM_UNDEFINED = 0x7FFFFFF,
} QnnGpu_MemType_t;

typedef enum QnnGpuBackend_ConfigOption_t {
  QNN_GPU_BACKEND_CONFIG_OPTION_ENABLE_TUNING_MODE = 0,
  QNN_GPU_BACKEND_CONFIG_OPTION_PERFORMANCE_CACHE_DIR = 1,
  QNN_GPU_BACKEND_CONFIG_OPTION_INVALIDATE_PERFORMANCE_CACHE = 2,
  QNN_GPU_BACKEND_CONFIG_OPTION_WEIGHT_SHARING_ENABLED = 3,
  QNN_GPU_BACKEND_CONFIG_OPTION_DISABLE_KERNEL_PROFILING = 4,
  QNN_GPU_BACKEND_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnGpuBackend_ConfigOption_t;

typedef enum QnnGpuContext_ConfigOption_t {
  QNN_GPU_CONTEXT_CONFIG_OPTION_PERF_HINT = 0,
  QNN_GPU_CONTEXT_CONFIG_OPTION_USE_GL_BUFFERS = 1,
  QNN_GPU_CONTEXT_CONFIG_OPTION_KERNEL_REPO_DIR = 2,
  QNN_GPU_CONTEXT_CONFIG_OPTION_INVALIDATE_KERNEL_REPO = 3,
  QNN_GPU_CONTEXT_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnGpuContext_ConfigOption_t;

typedef enum QnnGpuContext_PerfHint_t {
  QNN_GPU_CONTEXT_PERF_HINT_HIGH = 0,
  QNN_GPU_CONTEXT_PERF_HINT_NORMAL = 1,
  QNN_GPU_CONTEXT_PERF_HINT_LOW = 2,
} QnnGpuContext_PerfHint_t;

typedef enum QnnGpu_Precision_t {
  QNN_GPU_PRECISION_FP32 = 0,
  QNN_GPU_PRECISION_FP16 = 1,
  QNN_GPU_PRECISION_HYBRID = 2,
  QNN_GPU_PRECISION_USER_PROVIDED = 3,
} QnnGpu_Precision_t;

// Hung off Qnn_MemDescriptor_t.customInfo; buffer is a cl_mem.
typedef struct QnnGpu_MemInfoCustom_t {
  QnnGpu_MemType_t memType;
  union {
    QnnGpuMem_Buffer_t buffer;
  };
} QnnGpu_MemInfoCustom_t;

typedef struct QnnGpuBackend_CustomConfig_t {
  QnnGpuBackend_ConfigOption_t option;
  union {
    uint8_t enableTuningMode;
    const char* performanceCacheDir;
    uint8_t invalidatePerformanceCache;
    uint8_t weightSharingEnabled;
    uint8_t disableKernelProfiling;
  };
} QnnGpuBackend_CustomConfig_t;

typedef struct QnnGpuContext_CustomConfig_t {
  QnnGpuContext_ConfigOption_t option;
  union {
    QnnGpuContext_PerfHint_t perfHint;
    uint8_t useGLBuffers;
    const char* kernelRepoDir;
    uint8_t invalidateKernelRepo;
  };
} QnnGpuContext_CustomConfig_t;

typedef struct QnnGpuGraph_CustomConfig_t {
  QnnGpu_Precision_t precision;
  uint8_t disableMemoryOptimizations;
  uint8_t disableNodeOptimizations;
  uint8_t disableQueueRecording;
} QnnGpuGraph_CustomConfig_t;

#ifdef __cplusplus
}  // extern "C"
#endif
