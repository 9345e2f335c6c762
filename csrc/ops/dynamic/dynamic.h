// Products of 8-bit integers whose scales are computed with them: what ONNX calls dynamic
// quantization. QNN has no such ops, so no client can add them: passes/fuse_dynamic.cc makes them
// of what clients write instead (docs/decisions/0030-dynamic-quantization.md).
#pragma once

#include "ops/op.h"

namespace qnnrt {

constexpr const char* kDynamicQuantize = "DynamicQuantize";
constexpr const char* kOneOfZeros = "one_of_zeros";  // its param: zeros alone have a scale of 1
constexpr const char* kIntegerMatMul = "IntegerMatMul";
constexpr const char* kIntegerConv2d = "IntegerConv2d";

// Ports of integer products behind the two factors.
enum IntegerPort : size_t { kBiasPort = 2, kZero0Port, kZero1Port, kScalePort };

OpDef DynamicQuantizeOp();
OpDef IntegerMatMulOp();
OpDef IntegerConv2dOp();

std::vector<PortSpec> IntegerPorts(int min_rank, int max_rank);
// What ports cannot say of a product with so many columns (output channels).
Status CheckIntegerPorts(const Node& node, size_t columns);

}  // namespace qnnrt
