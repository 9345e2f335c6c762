// Applying a node's post ops in a portable kernel: row by row, while the row is still in cache.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ops/elementwise/activation.h"
#include "ops/encoding.h"
#include "ops/op.h"

namespace qnnrt {

void ApplyActivation(Activation a, float* x, size_t count, float alpha, float beta);
const char* PostOpName(const PostOp& op);

// Rows of `columns` values, `ld` apart, of a node's output: the first is element `offset` of it,
// and `stride` elements lie from row to row.
struct OutputBlock {
  float* values;
  size_t ld, rows, columns;
  size_t offset, stride;
};

// values[i] is element `offset + i` of the node's output, in memory order.
class PostOps {
 public:
  explicit PostOps(const Node& node);
  bool empty() const { return ops_.empty(); }
  void Apply(const ExecArgs& args, float* values, size_t offset, size_t count) const;
  void Apply(const ExecArgs& args, const OutputBlock& block) const;
  // The limits that they set, if that is all: infinities where there are none.
  std::optional<Limits> Clamps() const;
  // What they come to where that is limits and at most one sum, all in FLOAT_32: `first`, a sum,
  // and `last` behind it. Nothing where there are no post ops, or others.
  struct Simple {
    std::optional<size_t> add;  // the node's input
    Limits first, last;
  };
  const std::optional<Simple>& simple() const { return simple_; }

 private:
  void AddNarrow(size_t k, const ExecArgs& args, float* values, size_t offset, size_t count) const;

  std::optional<Limits> ClampsOf(size_t first, size_t end) const;

  std::vector<PostOp> ops_;
  std::optional<Simple> simple_;
  std::vector<const NarrowFloat*> addends_;  // of each op; null: FLOAT_32, or none
  std::vector<UnaryLoop> loops_;             // of each op; null: none
};

// Whether a fixed-point node may carry the post op: clamps behind 8-bit products, and behind sums,
// differences and products of two tensors, since rounding a clamped result is clamping the rounded
// one.
bool TakesFixedPostOp(const Node& node, const PostOp& op);

// The integers that a fixed-point output with one scale may hold: fewer than its type where it is
// narrower, or clamps follow.
FixedRange OutputRange(const Node& node);

}  // namespace qnnrt
