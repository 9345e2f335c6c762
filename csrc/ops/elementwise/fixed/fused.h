// Arithmetic of two fixed-point numbers from codes to codes, without a stop in between.
#pragma once

#include "ops/elementwise/binary.h"
#include "ops/encoding.h"
#include "ops/fixed/arithmetic.h"

namespace qnnrt::fixed {

struct Encodings {
  Decoder a, b;  // b: not of a row
  Encoder out;
  FixedRange codes;  // of the output; fewer than its type has where clamps follow
  // Where codes are added up without a detour: in steps of the output, before its offset.
  struct Steps {
    float a = 0, b = 0, constant = 0;
  } steps;
};

// out[i] = a[i] op b[i], all of one type; out may be a or b.
using FusedLoop = void (*)(const void* a, const void* b, void* out, size_t count,
                           const Encodings& encodings);
// Null where there is none, or where an Encoder does not take the output's encoding.
FusedLoop PickFused(BinaryOp op, const Node& node, Encodings* encodings);

// out[i] = a[i] op row[i], or row[i] op a[i], where `row` is input number `row_input`, decoded.
using FusedRow = void (*)(const void* a, const float* row, void* out, size_t count,
                          const Encodings& encodings);
FusedRow PickFusedRow(BinaryOp op, const Node& node, size_t row_input, Encodings* encodings);

// fused8.cc: the same of 8 bits, faster; `any` where there is nothing. What two tensors
// get may need other constants, which were tried on every pair of codes.
FusedLoop PickFused8(BinaryOp op, const Node& node, FusedLoop any, Encodings* encodings);
FusedRow PickFusedRow8(BinaryOp op, const Node& node, size_t row_input, FusedRow any);

// out[i] = round(codes[i] x factors[i] + addends[i]) + zero, saturated, of 8 bits; null: no such
// loop on this processor.
using AffineLoop = void (*)(const void* codes, const float* factors, const float* addends,
                            void* out, size_t count, int32_t zero);
AffineLoop PickAffine8(Qnn_DataType_t type);

// Constants of such loops are tried as they are, and as the floats beside them: rounding once gives
// the codes that dividing and rounding twice gives for some of these only.
constexpr int kNudges[] = {0, -1, 1};
inline float Nudged(float value, int by) {
  return by == 0 ? value : std::nextafter(value, by < 0 ? -INFINITY : INFINITY);
}

}  // namespace qnnrt::fixed
