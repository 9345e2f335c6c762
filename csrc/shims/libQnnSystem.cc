// The drop-in for the vendor's library of this name: the system interface of libqnnrt.so.
#include "abi/qnn_system.h"

extern "C" {

Qnn_ErrorHandle_t qnnrt_system_get_providers(const QnnSystemInterface_t*** list, uint32_t* n);

Qnn_ErrorHandle_t QnnSystemInterface_getProviders(const QnnSystemInterface_t*** list, uint32_t* n) {
  return qnnrt_system_get_providers(list, n);
}

}  // extern "C"
