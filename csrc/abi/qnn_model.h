// Model libraries (libqnn_model.so): what they export, and the structs that they hand out.
//
// A model library composes graphs with a backend's function table, which is handed in; finalizing
// and executing them is the caller's.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "qnn_interface.h"
#include "qnn_objects.h"
#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ModelError_t {
  MODEL_NO_ERROR = 0,
  MODEL_TENSOR_ERROR = 1,
  MODEL_PARAMS_ERROR = 2,
  MODEL_NODES_ERROR = 3,
  MODEL_GRAPH_ERROR = 4,
  MODEL_CONTEXT_ERROR = 5,
  MODEL_GENERATION_ERROR = 6,
  MODEL_SETUP_ERROR = 7,
  MODEL_INVALID_ARGUMENT_ERROR = 8,
  MODEL_FILE_ERROR = 9,
  MODEL_MEMORY_ALLOCATE_ERROR = 10,
  MODEL_UNKNOWN_ERROR = 0x7FFFFFFF,
} ModelError_t;

// The library's, until freeGraphsInfo: the names, the arrays and the tensors' names and dimensions.
typedef struct GraphInfo_t {
  Qnn_GraphHandle_t graph;
  char* graphName;
  Qnn_Tensor_t* inputTensors;
  uint32_t numInputTensors;
  Qnn_Tensor_t* outputTensors;
  uint32_t numOutputTensors;
} GraphInfo_t;

// The configs that the caller has for the graph of this name; the list ends with NULL.
typedef struct GraphConfigInfo_t {
  char* graphName;
  const QnnGraph_Config_t** graphConfigs;
} GraphConfigInfo_t;

// The table is passed by value. It has the size of the headers that the library was compiled with,
// which callers do not know: csrc/client/model_library.h has a form of it that fits every size.
typedef ModelError_t (*QnnModel_ComposeGraphsFn_t)(
    Qnn_BackendHandle_t backend, QnnInterface_ImplementationV2_32_t interface,
    Qnn_ContextHandle_t context, const GraphConfigInfo_t** configs, const uint32_t numConfigs,
    GraphInfo_t*** graphs, uint32_t* numGraphs, bool debug, QnnLog_Callback_t logCallback,
    QnnLog_Level_t maxLogLevel);
typedef ModelError_t (*QnnModel_FreeGraphsInfoFn_t)(GraphInfo_t*** graphs, uint32_t numGraphs);

#ifdef __cplusplus
}  // extern "C"
#endif
