// Elementwise ops of one input: loops (unary_loops.cc) and the kernel over them (unary.cc), shared
// by the ElementWise and the activation family.
#pragma once

#include "ops/op.h"

namespace qnnrt {

enum class UnaryOp : uint8_t {
  // in the order of the `operation` values of ElementWiseUnary
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
  // in the order of the `operation` values of ElementWiseNeuron
  kElu,
  kGelu,
  kHardSigmoid,
  kHardSwish,
  kRelu,
  kReluMinMax,
  kSigmoid,
  kSoftplus,
  kTanh,
  // the rest
  kIsInf,
  kIsNan,
  kLogit,
};

// Elu: alpha. HardSigmoid: alpha, beta. ReluMinMax: alpha = min, beta = max. Softplus: alpha =
// steepness, beta = linear from there on. IsInf: alpha, beta = detect -inf, +inf. Logit: alpha =
// epsilon, negative for none.
struct UnaryParams {
  float alpha = 0, beta = 0;
};

// out may be in.
using UnaryLoop = void (*)(const void* in, void* out, size_t count, UnaryParams params);
UnaryLoop FloatLoop(UnaryOp op);                     // FLOAT_32; IsInf and IsNan give uint8_t
UnaryLoop FloatStreamLoop(UnaryOp op);               // past the caches; null where it does not pay
UnaryLoop OtherLoop(UnaryOp op, Qnn_DataType_t in);  // Abs, Neg, Sign, Relu of integers; Not

// The types for which some loop exists; the result has the type of the input, or BOOL_8.
TypeSet UnaryTypes(UnaryOp op);

Result<KernelPtr> MakeUnaryKernel(UnaryOp op, const Node& node, UnaryParams params);

}  // namespace qnnrt
