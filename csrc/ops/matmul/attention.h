// Attention, an op that only passes make (OpDef::kInternal).
#pragma once

#include <array>
#include <optional>

#include "ops/fixed/codec.h"
#include "ops/op.h"
#include "ops/stored_floats.h"

namespace qnnrt {

// out = softmax(scale q k^T + mask) v, for each of [batch0, batch1], on elements wherever they lie
// in their tensors: those of what would else be transposed are read and written in place.
//   dims     [6]: batch0, batch1, rows, keys, depth (of q and k), width (of v and out)
//   strides  [5, 4]: of q [batch0, batch1, row, depth], k [.., key, depth], v [.., key, width],
//            mask [.., row, key] and out [.., row, width], in elements; 0 where one is for all
//   rounds   the type in which the nodes that this one stands for store scores and weights
//   rounds_read  1: keys, 2: values are rounded to it when they are read
// In fixed point, without a mask:
//   score_type, score_scale, score_offset    what the product of q and k is stored in, unscaled
//   weight_type, weight_scale, weight_offset and its softmax
constexpr char kAttention[] = "Attention";
OpDef AttentionOp();

// The same in numbers.
struct AttentionGeometry {
  using Strides = std::array<size_t, 4>;
  size_t batch0, batch1, rows, keys, depth, width;
  Strides q, k, v, mask, out;
  float scale;
  float unseen;               // a mask hides with this number, or a lower one
  const NarrowFloat* rounds;  // null: FLOAT_32
  const NarrowFloat *rounds_keys, *rounds_values;

  size_t heads() const { return batch0 * batch1; }
  // Where a head begins.
  size_t At(const Strides& strides, size_t head) const {
    return head / batch1 * strides[0] + head % batch1 * strides[1];
  }
};

// Keys [first, end) of which a query sees any; others have weights of 0.
struct SeenKeys {
  size_t first, end;
  size_t count() const { return end - first; }
};
// Of each head, what a mask leaves of all keys; a null mask: all. A row that none is seen of weighs
// them all, unless it is infinite: no key makes that a number.
void FindSeenKeys(const AttentionGeometry& g, const float* mask, SeenKeys* heads);

// The mask of a node as floats; null where it has none.
class MaskFloats {
 public:
  explicit MaskFloats(const Node& node);
  size_t ScratchFloats() const;
  const float* Read(const ExecArgs& args, float* scratch) const;

 private:
  bool masked_ = false;
  const NarrowFloat* narrow_ = nullptr;
  size_t elements_ = 0;
};

// Numbers of a tensor as floats. Keys or values may be rounded when they are read: a cache in
// FLOAT_32 on a device that has none (graph/passes/lower_precision.cc).
class RoundedFloats {
 public:
  explicit RoundedFloats(const Tensor& tensor, const NarrowFloat* rounds = nullptr)
      : stored_(tensor), rounds_(stored_.narrow() ? nullptr : rounds) {
    if (IsFixed(tensor.dtype)) fixed_.emplace(tensor);
  }
  bool narrow() const { return stored_.narrow() || rounds_ != nullptr || fixed_; }
  // As those of StoredFloats.
  const float* Read(const void* data, size_t at, size_t count, float* buffer) const;
  // Into a cache, before they are read; they may lie behind the tensor.
  void Fetch(const void* data, size_t at, size_t count) const {
    const size_t element = stored_.narrow() ? sizeof(uint16_t) : sizeof(float);
    const char* const from = static_cast<const char*>(data) + at * element;
    for (size_t i = 0; !fixed_ && i < count * element; i += 64) __builtin_prefetch(from + i, 0, 2);
  }
  float* Place(void* data, size_t at, float* buffer) const {
    return narrow() ? buffer : stored_.Place(data, at, buffer);
  }
  void Store(const float* placed, void* data, size_t at, size_t count) const {
    fixed_ ? fixed_->Write(placed, data, at, count) : stored_.Store(placed, data, at, count);
  }

 private:
  const StoredFloats stored_;
  const NarrowFloat* const rounds_;
  std::optional<Codec> fixed_;
};

// s = exp(s + mask - their maximum), 0 where that is no normal number, which the sum, 1 or more,
// would not notice; returns the sum. A null mask: zeros.
using ExponentialsFn = float (*)(float* s, const float* mask, size_t n);
ExponentialsFn AttentionExponentials();
// A row of products as weights, which are to be divided by what it returns. Products with queries
// that are scaled already, unless they are rounded.
float AttentionWeights(const AttentionGeometry& g, ExponentialsFn exponentials, float* s,
                       const float* mask, size_t n);

// No more rows than these are multiplied without packing keys and values.
constexpr size_t kMostAttentionRows = 16;
// The kernel for few rows, whose keys and values have their columns side by side.
KernelPtr MakeRowAttention(const Node& node, const AttentionGeometry& g);

// The kernel for BFLOAT_16 on matrix tiles; null where the types or the processor are others.
KernelPtr MakeTileAttention(const Node& node, const AttentionGeometry& g, int threads);

}  // namespace qnnrt
