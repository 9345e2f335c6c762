// Saver backend extensions.
#pragma once

#include <stdint.h>

#include "qnn_interface.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum QnnSaver_ConfigOption_t {
  QNN_SAVER_CONFIG_OPTION_OUTPUT_DIRECTORY = 0,
  QNN_SAVER_CONFIG_OPTION_APPEND_TIMESTAMP = 1,
  QNN_SAVER_CONFIG_OPTION_BACKEND_ID = 2,
  QNN_SAVER_CONFIG_OPTION_FILE_CONFIG = 3,
  QNN_SAVER_CONFIG_WRITE_OUTPUT_HEADER = 4,
  QNN_SAVER_CONFIG_WRITE_OUTPUT_FOOTER = 5,
  QNN_SAVER_CONFIG_OPTION_UNDEFINED = 0x7FFFFFFF,
} QnnSaver_ConfigOption_t;

typedef struct QnnSaver_FileConfig_t {
  const char* modelFileName;
  const char* dataFileName;
} QnnSaver_FileConfig_t;

typedef struct QnnSaver_Config_t {
  QnnSaver_ConfigOption_t option;
  union {
    const char* outputDirectory;
    uint8_t appendTimestamp;
    uint32_t backendId;
    QnnSaver_FileConfig_t fileConfig;
    uint8_t writeOutputHeader;
    uint8_t writeOutputFooter;
  };
} QnnSaver_Config_t;

// Exported by the Saver library beside getProviders; the list ends with NULL.
QNN_API Qnn_ErrorHandle_t QnnSaver_initialize(const QnnSaver_Config_t** config);

#ifdef __cplusplus
}  // extern "C"
#endif
