// Attention, an op that only passes make (OpDef::kInternal).
#pragma once

#include <array>

#include "ops/op.h"

namespace qnnrt {

// out = softmax(scale q k^T + mask) v, for each of [batch0, batch1], on elements wherever they lie
// in their tensors: those of what would else be transposed are read and written in place.
//   dims     [6]: batch0, batch1, rows, keys, depth (of q and k), width (of v and out)
//   strides  [5, 4]: of q [batch0, batch1, row, depth], k [.., key, depth], v [.., key, width],
//            mask [.., row, key] and out [.., row, width], in elements; 0 where one is for all
constexpr char kAttention[] = "Attention";
OpDef AttentionOp();

// The same in numbers.
struct AttentionGeometry {
  using Strides = std::array<size_t, 4>;
  size_t batch0, batch1, rows, keys, depth, width;
  Strides q, k, v, mask, out;
  float scale;

  size_t heads() const { return batch0 * batch1; }
  // Where a head begins.
  size_t At(const Strides& strides, size_t head) const {
    return head / batch1 * strides[0] + head % batch1 * strides[1];
  }
};

// Keys [first, end) of which a query sees any; others have weights of 0.
struct SeenKeys {
  size_t first, end;
};
// What a mask leaves of all keys. A row without any that is seen weighs them all.
SeenKeys FindSeenKeys(const AttentionGeometry& g, const float* mask);

// s = exp(s + mask - their maximum), 0 where that is no normal number, which the sum, 1 or more,
// would not notice; returns the sum. A null mask: zeros.
using ExponentialsFn = float (*)(float* s, const float* mask, size_t n);
ExponentialsFn AttentionExponentials();

// No more rows than these are multiplied without packing keys and values.
constexpr size_t kMostAttentionRows = 16;
// The kernel for few rows of FLOAT_32, whose keys and values have their columns side by side.
KernelPtr MakeRowAttention(const Node& node, const AttentionGeometry& g);

// The kernel for BFLOAT_16 on matrix tiles; null where the types or the processor are others.
KernelPtr MakeTileAttention(const Node& node, const AttentionGeometry& g, int threads);

}  // namespace qnnrt
