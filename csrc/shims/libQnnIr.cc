// The drop-in for the vendor's library of this name: the ir backend of libqnnrt.so.
#include "abi/qnn_interface.h"

extern "C" {

Qnn_ErrorHandle_t qnnrt_ir_get_providers(const QnnInterface_t*** list, uint32_t* n);

Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt_ir_get_providers(list, n);
}

}  // extern "C"
