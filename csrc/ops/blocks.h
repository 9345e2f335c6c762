#pragma once

#include "ops/op.h"

namespace qnnrt {

OpList BlockOps();  // DepthToSpace, SpaceToDepth, BatchToSpace, SpaceToBatch: blocks.cc

}  // namespace qnnrt
