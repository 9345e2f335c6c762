// Floats that move from one regular pattern to another and change their width on the way: what a
// graph in 16 bits begins and ends with is often a transposition of FLOAT_32.
#pragma once

#include <vector>

#include "ops/strided_copy.h"

namespace qnnrt {

// The kernel of one copy from input 0 to output 0, one of which is FLOAT_32 and the other one of 16
// bits. The output is dense, in the order of `dims`.
KernelPtr MakeFloatCopyKernel(const Node& node, const std::vector<CopyDim>& dims);

}  // namespace qnnrt
