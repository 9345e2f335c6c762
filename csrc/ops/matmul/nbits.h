// Products of floats with weights of 4 or 8 bits that stay as they are: what ONNX Runtime calls
// MatMulNBits. No client can add the op: passes/keep_narrow_weights.cc makes it of products whose
// weights are constants in fixed point (docs/decisions/0044-narrow-weights.md).
//   out[m, n] = sum over k of in[m, k] * scale[n, k / block] * (code[n, k] - zero[n, k / block])
#pragma once

#include "ops/op.h"

namespace qnnrt {

constexpr const char* kMatMulNBits = "MatMulNBits";

// codes: [N, bytes of a row], INT_8 or UINT_8 for codes with or without a sign; of 4 bits two in a
// byte, the first in its low half. Those without a sign count from their middle, 8 or 128, which is
// the zero point where `zeros` are left out: INT_8 [N, blocks], or, of 4 bits, UINT_8
// [N, PackedZeroBytes(blocks)] (NBitsWeights).
enum NBitsPort : size_t { kNBitsCodes = 1, kNBitsScales, kNBitsZeros, kNBitsBias };

OpDef MatMulNBitsOp();

// Some such products of one x, whose weights have the same depth, bits and blocks: threads share
// the rows of all (graph/passes/join_products.cc). Behind x: the codes, scales and, where they are
// there at all, zero points and bias of each matrix; an output for each. One of them may have an
// activation behind it.
constexpr const char* kJoinedNBits = "JoinedMatMulNBits";
OpDef JoinedNBitsOp();

// Whether kernels take blocks of so many elements along a row: 16, 32, 64, or a multiple of 128.
inline bool IsNBitsBlock(size_t block) {
  return block == 16 || block == 32 || block == 64 || (block != 0 && block % 128 == 0);
}
inline size_t NBitsRowBytes(size_t k, size_t bits) { return (k * bits + 7) / 8; }

}  // namespace qnnrt
