// Options of custom operators: a map of FlexBuffers, of which numbers are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tflite/lowering/node.h"

namespace qnnrt::tflite {

// The numbers and truth values of the map; other entries are left out. Throws Refused for bytes
// that are no such map.
std::map<std::string, Option, std::less<>> ReadFlexMap(const uint8_t* bytes, size_t size);

}  // namespace qnnrt::tflite
