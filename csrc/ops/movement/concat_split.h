#pragma once

#include "ops/op.h"

namespace qnnrt {

[[gnu::cold]] OpDef StridedSliceOp();  // slice.cc
[[gnu::cold]] OpDef PadOp();           // pad.cc

// The kernel of an op that has OpDef::parts: copies those that are not in place.
Result<KernelPtr> MakePartCopies(const Node& node);

}  // namespace qnnrt
