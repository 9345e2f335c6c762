#pragma once

#include "ops/op.h"

namespace qnnrt {

[[gnu::cold]] OpList
DepthSpaceOps();  // DepthToSpace, SpaceToDepth, BatchToSpace, SpaceToBatch: depth_space.cc

}  // namespace qnnrt
