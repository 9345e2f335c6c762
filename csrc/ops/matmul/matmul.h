// A matrix product in numbers, whatever the element type.
#pragma once

#include "ops/op.h"

namespace qnnrt {

constexpr size_t kMaxBatchRank = 6;

// A MatMul in numbers: C[batch.., m, n] = A[batch.., m, k] x B[batch.., k, n].
struct MatMulGeometry {
  size_t m = 0, n = 0, k = 0, batches = 1;
  bool transpose_a = false, transpose_b = false;
  size_t batch_rank = 0;
  // Of the output's batch dimensions; a stride of 0 where an input is broadcast. In matrices.
  size_t dims[kMaxBatchRank] = {}, a_strides[kMaxBatchRank] = {}, b_strides[kMaxBatchRank] = {};

  void Locate(size_t batch, size_t* a, size_t* b) const {
    *a = *b = 0;
    for (size_t i = batch_rank; i-- > 0;) {
      const size_t index = batch % dims[i];
      batch /= dims[i];
      *a += index * a_strides[i];
      *b += index * b_strides[i];
    }
  }
};

// Of a node with the inputs and params of MatMul; fills in the shape of its output.
Result<MatMulGeometry> ReadMatMul(const Node& node, Shape* output);

// Of 16-bit floats with constant weights (narrow.cc); null: not for it.
Result<KernelPtr> MakeNarrowMatMul(const Node& node, const MatMulGeometry& g,
                                   const KernelOptions& options);

// Of two large activations in fixed point (tiled.cc).
Result<KernelPtr> MakeTiledMatMul(const Node& node, const KernelOptions& options);

}  // namespace qnnrt
