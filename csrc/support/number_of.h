// Reads of clients' structs that tolerate any value.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace qnnrt {

// The highest rank that a client's tensor may have.
constexpr uint32_t kMostDims = 16;

// A client's enum as the number it is: it may be one that this version has no name for, and C++
// leaves undefined what reading it as an enum gives.
template <typename Enum>
uint32_t NumberOf(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(uint32_t), "a C enum");
  uint32_t number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

// The same for a message: C's enums are ints, and a client's -1 is shown as one.
template <typename Enum>
std::string NumberText(const Enum& value) {
  return std::to_string(static_cast<int32_t>(NumberOf(value)));
}

}  // namespace qnnrt
