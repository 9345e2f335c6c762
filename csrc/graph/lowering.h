// What can be read off the text of a lowered graph without a JSON parser.
#pragma once

#include <cstdint>
#include <vector>

namespace qnnrt {

struct LoweredConstant {
  const void* data;
  uint64_t nbytes;
};

// Where the constants of Graph::Lower's text are, in their order.
std::vector<LoweredConstant> ConstantsOf(const char* lowered);

}  // namespace qnnrt
