#pragma once

#include "ops/op.h"

namespace qnnrt {

OpDef StridedSliceOp();  // slice.cc
OpDef PadOp();           // pad.cc

}  // namespace qnnrt
