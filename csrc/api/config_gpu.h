// The gpu backend's own configs: the structs behind CUSTOM. What they ask for is the binding's to
// do, which reads the records (qnnrt_gpu_config).
#pragma once

#include "api/config.h"

namespace qnnrt {

// Each reads one struct into the record of its target. `custom` is not null. Errors: those of
// AdmitConfig and InvalidConfig; 1000 GL buffers.
Status ReadGpuBackendConfig(const BackendTraits& traits, const void* custom, uint8_t call,
                            ConfigRecord* record);
Status ReadGpuContextConfig(const BackendTraits& traits, const void* custom, uint8_t call,
                            ConfigRecord* record);
Status ReadGpuGraphConfig(const BackendTraits& traits, const void* custom, uint8_t call,
                          ConfigRecord* record);

}  // namespace qnnrt
