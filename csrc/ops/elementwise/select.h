#pragma once

#include "ops/op.h"

namespace qnnrt {

OpDef SelectOp();  // ElementWiseSelect: select.cc

}  // namespace qnnrt
