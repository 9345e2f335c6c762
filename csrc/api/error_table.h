#pragma once

#include <cstdint>

namespace qnnrt {

// "QNN_MEM_ERROR_INVALID_HANDLE" and one sentence; null for a code that no component has.
const char* ErrorName(uint32_t code);
const char* ErrorMessage(uint32_t code);

}  // namespace qnnrt
