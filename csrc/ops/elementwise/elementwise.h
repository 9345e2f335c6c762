// The element-wise ops that only passes make (OpDef::kInternal), beside activations.
#pragma once

#include "ops/op.h"

namespace qnnrt {

// out[i] = table[in[i]], in and out of fixed-point numbers of 8 or 16 bits as their bits: a table
// of 256 or 65,536 entries.
constexpr char kTable[] = "Table";

// The error function of floats.
constexpr char kErf[] = "ElementWiseErf";

// Along an axis of the input, out[i] = in[begin + i * stride] op in[begin + i * stride + dilation]
// op ... of `taps` elements, by an operation of ElementWiseBinary.
constexpr char kSliding[] = "ElementWiseSliding";

[[gnu::cold]] OpDef SlidingOp();  // sliding.cc
[[gnu::cold]] OpDef TableOp();    // fixed/table.cc

}  // namespace qnnrt
