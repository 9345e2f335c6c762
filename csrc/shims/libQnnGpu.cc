// The drop-in for the vendor's library of this name: the gpu backend of libqnnrt.so, with OpenCL
// found at run time.
#include "abi/qnn_interface.h"

extern "C" {

Qnn_ErrorHandle_t qnnrt_opencl_get_providers(const QnnInterface_t*** list, uint32_t* n);

Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt_opencl_get_providers(list, n);
}

}  // extern "C"
