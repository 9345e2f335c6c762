// CPU backend extensions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// The parameters are not part of the published facts this file is written from: cast before the
// call.
typedef void (*QnnCpuGraph_OpDebugCallback_t)(void);

typedef enum QnnCpuGraph_ConfigOption_t {
  QNN_CPU_GRAPH_CONFIG_OPTION_OP_DEBUG_CALLBACK = 1,
  QNN_CPU_GRAPH_CONFIG_OPTION_USE_QMX = 2,
  QNN_CPU_GRAPH_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnCpuGraph_ConfigOption_t;

typedef struct QnnCpuGraph_OpDebug_t {
  void* callBackParam;
  QnnCpuGraph_OpDebugCallback_t cpuGraphOpDebugCallback;
} QnnCpuGraph_OpDebug_t;

typedef struct QnnCpuGraph_UseQmx_t {
  bool useQmx;
} QnnCpuGraph_UseQmx_t;

typedef struct QnnCpuGraph_CustomConfig_t {
  QnnCpuGraph_ConfigOption_t option;
  union {
    QnnCpuGraph_OpDebug_t cpuGraphOpDebug;
    QnnCpuGraph_UseQmx_t cpuGraphUseQmx;
  };
} QnnCpuGraph_CustomConfig_t;

#ifdef __cplusplus
}  // extern "C"
#endif
