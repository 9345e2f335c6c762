// Elementwise ops of two inputs: their loops (binary_float.cc, binary_int.cc) and the kernel that
// walks a broadcast with them (binary.cc).
#pragma once

#include "ops/op.h"

namespace qnnrt {

// In the order of the `operation` values of ElementWiseBinary; Prelu is ours.
enum class BinaryOp : uint8_t {
  kAdd,
  kAnd,
  kDivide,
  kEqual,
  kFloorDiv,
  kFmod,
  kGreater,
  kGreaterEqual,
  kLess,
  kLessEqual,
  kMaximum,
  kMinimum,
  kMod,
  kMultiply,
  kNotEqual,
  kOr,
  kPower,
  kSquaredDifference,
  kSubtract,
  kXor,
  kPrelu,
};

constexpr bool IsCompare(BinaryOp op) {
  return op == BinaryOp::kEqual || op == BinaryOp::kNotEqual || op == BinaryOp::kGreater ||
         op == BinaryOp::kGreaterEqual || op == BinaryOp::kLess || op == BinaryOp::kLessEqual;
}
constexpr bool IsLogic(BinaryOp op) {
  return op == BinaryOp::kAnd || op == BinaryOp::kOr || op == BinaryOp::kXor;
}

BinaryOp BinaryOpOf(const Node& node);  // of a validated node of such an op, Prelu too

// out[i] = a[i] op b[i]; in vs b, in sv a is a single value. out may be a or b.
using BinaryLoop = void (*)(const void* a, const void* b, void* out, size_t count);
struct BinaryLoops {
  BinaryLoop vv = nullptr;
  BinaryLoop vs = nullptr;  // null: the kernel repeats the value into a block and calls vv
  BinaryLoop sv = nullptr;
};
BinaryLoops FloatLoops(BinaryOp op);  // FLOAT_32; compares give uint8_t
// BFLOAT_16 op the same, or op FLOAT_32 where `wide`, to BFLOAT_16; null: by way of FLOAT_32.
BinaryLoops BrainLoopsOf(BinaryOp op, bool wide);
BinaryLoop FloatStreamLoop(BinaryOp op);  // vv past the caches; null where it does not pay
BinaryLoops OtherLoops(BinaryOp op, Qnn_DataType_t in);  // integers, FLOAT_64, BOOL_8

// For validated nodes whose inputs 0 and 1 broadcast to output 0.
Result<KernelPtr> MakeBinaryKernel(BinaryOp op, const Node& node);

}  // namespace qnnrt
