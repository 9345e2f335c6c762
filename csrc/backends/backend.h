// What one backend is: names, versions, limits and memory policy. No code path asks which backend
// it serves; it asks for one of these properties.
#pragma once

#include <cstdint>

#include "abi/qnn_types.h"
#include "memory/descriptor.h"

namespace qnnrt {

struct BackendTraits {
  uint32_t id;
  const char* provider;
  Qnn_Version_t api_version;
  CustomMem custom_memory;       // what hangs behind customInfo of a CUSTOM memory descriptor
  uint32_t memory_kinds;         // KindBit of what memRegister takes
  const uint32_t* capabilities;  // property keys that are supported, ascending, 0 at the end
};

// Every property key of the API, ascending, 0 at the end; what is not here is unknown.
extern const uint32_t kKnownProperties[];

const BackendTraits& CpuBackend();

}  // namespace qnnrt
