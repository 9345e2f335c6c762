// What is said of an index that has no element, by whatever reads it.
#pragma once

#include <cstdint>
#include <string>

namespace qnnrt {

inline std::string BadIndexText(int64_t index, size_t position, size_t axis, size_t size) {
  return "index " + std::to_string(index) + " (element " + std::to_string(position) +
         " of the indices) is outside of [-" + std::to_string(size) + ", " + std::to_string(size) +
         "), the range of axis " + std::to_string(axis);
}

}  // namespace qnnrt
