#pragma once

#include "ops/op.h"

namespace qnnrt {

[[gnu::cold]] OpList ArgOps();          // Argmax, Argmin, TopK: arg.cc
[[gnu::cold]] OpDef TopKOp();           // top_k.cc
[[gnu::cold]] OpDef CumulativeSumOp();  // scan.cc

}  // namespace qnnrt
