#pragma once

#include "ops/op.h"

namespace qnnrt {

[[gnu::cold]] OpDef SelectOp();  // ElementWiseSelect: select.cc

}  // namespace qnnrt
