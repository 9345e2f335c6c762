// The text of lowered graphs: what can be read off it without a JSON parser, and of single nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/node.h"

namespace qnnrt {

struct LoweredConstant {
  const void* data;
  uint64_t nbytes;
};

// Where the constants of Graph::Lower's text are, in their order.
std::vector<LoweredConstant> ConstantsOf(const char* lowered);

// One node in the form of Graph::Lower. Static tensors may have a size without data: address 0.
std::string DescribeNode(const Node& node);

}  // namespace qnnrt
