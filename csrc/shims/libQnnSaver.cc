// The drop-in for the vendor's library of this name: the saver backend of libqnnrt.so.
#include "abi/qnn_saver.h"

extern "C" {

Qnn_ErrorHandle_t qnnrt_saver_get_providers(const QnnInterface_t*** list, uint32_t* n);
Qnn_ErrorHandle_t qnnrt_saver_initialize(const QnnSaver_Config_t** config);

Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt_saver_get_providers(list, n);
}

Qnn_ErrorHandle_t QnnSaver_initialize(const QnnSaver_Config_t** config) {
  return qnnrt_saver_initialize(config);
}

}  // extern "C"
