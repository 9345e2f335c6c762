// The IR backend, whose graphs become DLC files. There is no writer of those here: programs that
// are linked against its library load, ask for its versions and properties, and are told so when
// they create a backend.
#pragma once

#include "backends/backend.h"

namespace qnnrt {

const BackendTraits& IrBackend();

// What backendCreate answers: 4003.
Status IrBackendUnavailable();

}  // namespace qnnrt
