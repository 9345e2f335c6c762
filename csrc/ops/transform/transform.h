// Linear transforms of the last dim that are no products with weights.
#pragma once

#include "ops/op.h"

namespace qnnrt {

[[gnu::cold]] OpDef HadamardTransformOp();  // hadamard.cc
[[gnu::cold]] OpDef RotaryEmbeddingOp();    // rotary_embedding.cc

[[gnu::cold]] inline OpList TransformOps() { return {HadamardTransformOp(), RotaryEmbeddingOp()}; }

}  // namespace qnnrt
