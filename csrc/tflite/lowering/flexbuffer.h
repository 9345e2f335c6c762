// Options of custom operators: a map of FlexBuffers, of which numbers and vectors of them are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tflite/lowering/node.h"

namespace qnnrt::tflite {

// The numbers, truth values and typed vectors of the map; other entries are left out. Throws
// Refused for bytes that are no such map.
std::map<std::string, Option, std::less<>> ReadFlexMap(const uint8_t* bytes, size_t size);

}  // namespace qnnrt::tflite
