#pragma once

#include "ops/op.h"

namespace qnnrt {

[[gnu::cold]] OpList RandomOps();  // RandomUniformLike, RandomNormalLike

}  // namespace qnnrt
