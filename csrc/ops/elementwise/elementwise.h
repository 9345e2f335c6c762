// The element-wise op that only passes make (OpDef::kInternal).
#pragma once

#include "ops/op.h"

namespace qnnrt {

// out[i] = table[in[i]], both of 8-bit fixed-point numbers as their bytes.
constexpr char kByteTable[] = "ByteTable";

[[gnu::cold]] OpDef ByteTableOp();  // fixed/table.cc

}  // namespace qnnrt
