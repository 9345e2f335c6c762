// Context binaries of the gpu backend: the entries of the function table. A binary has what a graph
// compiled to where others have their nodes (gpu/executable.h), and its constants as weights.
#pragma once

#include "abi/qnn_interface.h"

namespace qnnrt::gpu {

Qnn_ErrorHandle_t SizeOfBinary(Qnn_ContextHandle_t context, Qnn_ContextBinarySize_t* size);
Qnn_ErrorHandle_t SaveBinary(Qnn_ContextHandle_t context, void* buffer,
                             Qnn_ContextBinarySize_t size, Qnn_ContextBinarySize_t* written);
Qnn_ErrorHandle_t LoadBinary(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
                             const QnnContext_Config_t** config, const void* data,
                             Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t* context,
                             Qnn_ProfileHandle_t profile);
Qnn_ErrorHandle_t LoadBinaryWithSignal(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
                                       const QnnContext_Config_t** config, const void* data,
                                       Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t* context,
                                       Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal);
Qnn_ErrorHandle_t CheckBinary(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
                              const QnnContext_Config_t** config, const void* data,
                              Qnn_ContextBinarySize_t size);

}  // namespace qnnrt::gpu
