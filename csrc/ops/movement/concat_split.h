#pragma once

#include "ops/op.h"

namespace qnnrt {

[[gnu::cold]] OpDef StridedSliceOp();  // slice.cc
[[gnu::cold]] OpDef PadOp();           // pad.cc

}  // namespace qnnrt
