// Attention, an op that only passes make (OpDef::kInternal).
#pragma once

#include "ops/op.h"

namespace qnnrt {

// out = softmax(scale q k^T + mask) v, for each of [batch0, batch1], on elements wherever they lie
// in their tensors: those of what would else be transposed are read and written in place.
//   dims     [6]: batch0, batch1, rows, keys, depth (of q and k), width (of v and out)
//   strides  [5, 4]: of q [batch0, batch1, row, depth], k [.., key, depth], v [.., key, width],
//            mask [.., row, key] and out [.., row, width], in elements; 0 where one is for all
constexpr char kAttention[] = "Attention";
OpDef AttentionOp();

}  // namespace qnnrt
