#pragma once

#include "ops/op.h"

namespace qnnrt {

OpList DepthSpaceOps();  // DepthToSpace, SpaceToDepth, BatchToSpace, SpaceToBatch: depth_space.cc

}  // namespace qnnrt
