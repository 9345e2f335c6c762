// Elementwise ops of one input: loops (unary_loops.cc, activation.cc) and the kernel over them
// (unary.cc).
#pragma once

#include "ops/op.h"

namespace qnnrt {

// In the order of the `operation` values of ElementWiseUnary; the last ones are ops of their own,
// and Erf is one that only passes make.
enum class UnaryOp : uint8_t {
  kAbs,
  kAsin,
  kAtan,
  kCeil,
  kCos,
  kExp,
  kFloor,
  kLog,
  kNeg,
  kNot,
  kReciprocal,
  kRound,
  kRsqrt,
  kSign,
  kSin,
  kSqrt,
  kIsInf,
  kIsNan,
  kLogit,
  kErf,
};

// IsInf: alpha, beta = detect -inf, +inf. Logit: alpha = epsilon, negative for none. Activations:
// their rows in activation.cc.
struct UnaryParams {
  float alpha = 0, beta = 0;
};

// out may be in.
using UnaryLoop = void (*)(const void* in, void* out, size_t count, UnaryParams params);
struct UnaryLoops {
  UnaryLoop real = nullptr;    // FLOAT_32; IsInf and IsNan give uint8_t. Null: no floats
  UnaryLoop stream = nullptr;  // the same past the caches; null where it does not pay
  UnaryLoop (*other)(Qnn_DataType_t in) = nullptr;  // integers, or BOOL_8; null: none
  TypeSet integers = 0;                             // which of them
  UnaryLoop brain = nullptr;  // BFLOAT_16 to BFLOAT_16; null: by way of FLOAT_32
  UnaryLoop wide = nullptr;   // FLOAT_64; null: none
};
const UnaryLoops& LoopsOf(UnaryOp op);

// The types for which there is some loop; the result has the type of the input, or BOOL_8.
TypeSet UnaryTypes(const UnaryLoops& loops);

Result<KernelPtr> MakeUnaryKernel(const UnaryLoops& loops, const Node& node, UnaryParams params);

}  // namespace qnnrt
