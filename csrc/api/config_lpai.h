// The lpai backend's own configs: the structs behind CUSTOM.
#pragma once

#include "api/config.h"
#include "backends/lpai.h"

namespace qnnrt {

// Each reads one struct into its target and the record there. `custom` is not null. Errors: those
// of AdmitConfig and InvalidConfig.
Status ReadLpaiBackendConfig(const BackendTraits& traits, const void* custom, uint8_t call,
                             LpaiSettings* settings, ConfigRecord* record);
Status ReadLpaiContextConfig(const Backend& backend, const void* custom, uint8_t call,
                             ContextOptions* options);
Status ReadLpaiGraphConfig(const Backend& backend, const void* custom, uint8_t call,
                           GraphSettings* settings);

}  // namespace qnnrt
