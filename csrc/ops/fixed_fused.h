// Arithmetic of two fixed-point numbers from codes to codes, without a stop in between.
#pragma once

#include "ops/binary.h"
#include "ops/fixed_math.h"

namespace qnnrt::fixed {

struct Encodings {
  Decoder a, b;  // b: not of a row
  Encoder out;
};

// out[i] = a[i] op b[i], all of one type; out may be a or b.
using FusedLoop = void (*)(const void* a, const void* b, void* out, size_t count,
                           const Encodings& encodings);
// Null where there is none, or where an Encoder does not take the output's encoding.
FusedLoop PickFused(BinaryOp op, const Node& node, Encodings* encodings);
// fixed_fused_avx512.cc: a faster loop that gives the codes of `exact` for every pair of inputs,
// and the constants that make it do so; `exact` where there is none.
FusedLoop PickFused8(BinaryOp op, const Tensor& out, FusedLoop exact, Encodings* encodings);

// out[i] = a[i] op row[i], or row[i] op a[i], where `row` is input number `row_input`, decoded.
using FusedRow = void (*)(const void* a, const float* row, void* out, size_t count,
                          const Encodings& encodings);
FusedRow PickFusedRow(BinaryOp op, const Node& node, size_t row_input, Encodings* encodings);

}  // namespace qnnrt::fixed
