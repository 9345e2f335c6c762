#pragma once

#include "ops/op.h"

namespace qnnrt {

OpList ArgOps();          // Argmax, Argmin, TopK: arg.cc
OpDef CumulativeSumOp();  // scan.cc

}  // namespace qnnrt
