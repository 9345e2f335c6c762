// IR backend extensions: graphFinalize writes the graph to a file.
#pragma once

#include <stdint.h>

#include "qnn_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum QnnIrGraph_SerializationType_t {
  QNN_IR_GRAPH_SERIALIZATION_TYPE_FLAT_BUFFER = 1,
} QnnIrGraph_SerializationType_t;

typedef enum QnnIrGraph_ConfigOption_t {
  QNN_IR_GRAPH_CONFIG_OPTION_SERIALIZATION = 1,
  QNN_IR_GRAPH_CONFIG_OPTION_UNKNOWN = 0x7FFFFFFF,
} QnnIrGraph_ConfigOption_t;

typedef struct QnnIrGraph_SerializationOption_t {
  QnnIrGraph_SerializationType_t serializationType;
  const char* outputPath;
} QnnIrGraph_SerializationOption_t;

typedef struct QnnIrGraph_CustomConfig_t {
  QnnIrGraph_ConfigOption_t option;
  union {
    QnnIrGraph_SerializationOption_t serializationOption;
  };
} QnnIrGraph_CustomConfig_t;

#ifdef __cplusplus
}  // extern "C"
#endif
