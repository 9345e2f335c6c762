// What the op definitions cannot say of nodes with fixed-point tensors.
#pragma once

#include "ops/op.h"

namespace qnnrt {

// Whether an op that sums products has activations of floats and constant weights in fixed point:
// what the weights stand for is multiplied (widen_weights.cc).
bool HasFixedWeights(const Node& node, const OpDef& def);

// Encodings are sound; real numbers are all floats or all fixed-point, but for ops that convert,
// and for such weights; where products are summed, activations have one scale and a SFIXED_POINT_32
// bias has no offset. Ports were checked before. Errors: 3110, with the tensor's name and the rule.
Status CheckFixedPoint(const Node& node, const OpDef& def);

}  // namespace qnnrt
