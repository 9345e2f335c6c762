#pragma once

#include <cstdint>

namespace qnnrt {

// One sentence; null for a code that no component has.
const char* ErrorMessage(uint32_t code);

}  // namespace qnnrt
