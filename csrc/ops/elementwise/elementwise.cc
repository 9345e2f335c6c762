// The ElementWise* ops, and IsNan, IsInf, Logit. Both inputs of a binary op broadcast by numpy's
// rule.
#include "abi/qnn_op_names.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/select.h"
#include "ops/elementwise/unary.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

struct BinaryRow {
  const char* type;
  BinaryOp op;
};
constexpr BinaryRow kBinary[] = {
    {QNN_OP_ELEMENT_WISE_ADD, BinaryOp::kAdd},
    {QNN_OP_ELEMENT_WISE_AND, BinaryOp::kAnd},
    {QNN_OP_ELEMENT_WISE_DIVIDE, BinaryOp::kDivide},
    {QNN_OP_ELEMENT_WISE_EQUAL, BinaryOp::kEqual},
    {QNN_OP_ELEMENT_WISE_FLOOR_DIV, BinaryOp::kFloorDiv},
    {QNN_OP_ELEMENT_WISE_GREATER, BinaryOp::kGreater},
    {QNN_OP_ELEMENT_WISE_GREATER_EQUAL, BinaryOp::kGreaterEqual},
    {QNN_OP_ELEMENT_WISE_LESS, BinaryOp::kLess},
    {QNN_OP_ELEMENT_WISE_LESS_EQUAL, BinaryOp::kLessEqual},
    {QNN_OP_ELEMENT_WISE_MAXIMUM, BinaryOp::kMaximum},
    {QNN_OP_ELEMENT_WISE_MINIMUM, BinaryOp::kMinimum},
    {QNN_OP_ELEMENT_WISE_MOD, BinaryOp::kMod},
    {QNN_OP_ELEMENT_WISE_MULTIPLY, BinaryOp::kMultiply},
    {QNN_OP_ELEMENT_WISE_NOT_EQUAL, BinaryOp::kNotEqual},
    {QNN_OP_ELEMENT_WISE_OR, BinaryOp::kOr},
    {QNN_OP_ELEMENT_WISE_POWER, BinaryOp::kPower},
    {QNN_OP_ELEMENT_WISE_SQUARED_DIFFERENCE, BinaryOp::kSquaredDifference},
    {QNN_OP_ELEMENT_WISE_SUBTRACT, BinaryOp::kSubtract},
    {QNN_OP_ELEMENT_WISE_XOR, BinaryOp::kXor},
};

struct UnaryRow {
  const char* type;
  UnaryOp op;
};
constexpr UnaryRow kUnary[] = {
    {QNN_OP_ELEMENT_WISE_ABS, UnaryOp::kAbs},          {QNN_OP_ELEMENT_WISE_ASIN, UnaryOp::kAsin},
    {QNN_OP_ELEMENT_WISE_ATAN, UnaryOp::kAtan},        {QNN_OP_ELEMENT_WISE_CEIL, UnaryOp::kCeil},
    {QNN_OP_ELEMENT_WISE_COS, UnaryOp::kCos},          {QNN_OP_ELEMENT_WISE_EXP, UnaryOp::kExp},
    {QNN_OP_ELEMENT_WISE_FLOOR, UnaryOp::kFloor},      {QNN_OP_ELEMENT_WISE_LOG, UnaryOp::kLog},
    {QNN_OP_ELEMENT_WISE_NEG, UnaryOp::kNeg},          {QNN_OP_ELEMENT_WISE_NOT, UnaryOp::kNot},
    {QNN_OP_ELEMENT_WISE_ROUND, UnaryOp::kRound},      {QNN_OP_ELEMENT_WISE_RSQRT, UnaryOp::kRsqrt},
    {QNN_OP_ELEMENT_WISE_SIGN, UnaryOp::kSign},        {QNN_OP_ELEMENT_WISE_SIN, UnaryOp::kSin},
    {QNN_OP_ELEMENT_WISE_SQUARE_ROOT, UnaryOp::kSqrt},
};

// Of a validated node: the operation it stands for.
UnaryOp UnaryOpOf(const Node& node) {
  for (const UnaryRow& row : kUnary) {
    if (node.type == row.type) return row.op;
  }
  return static_cast<UnaryOp>(node.Int("operation"));
}

TypeSet BinaryTypes(BinaryOp op) {
  if (IsLogic(op)) return types::kBool;
  if (op == BinaryOp::kEqual || op == BinaryOp::kNotEqual) return types::kAny;
  return types::kNumber;
}

Status InferBroadcast(const Node& node, std::vector<Shape>* outputs) {
  const Shape &a = node.inputs[0]->shape, &b = node.inputs[1]->shape;
  if (BroadcastShape(a, b, &(*outputs)[0])) return {};
  return Invalid("inputs of shapes %s and %s do not broadcast", ShapeText(a).c_str(),
                 ShapeText(b).c_str());
}

// ElementWiseBinary and ElementWiseUnary: which types are right depends on `operation`.
Status CheckOperationTypes(const Node& node, TypeSet inputs, bool bool_result) {
  const Qnn_DataType_t in = node.inputs[0]->dtype, out = node.outputs[0]->dtype;
  inputs = WithFixed(inputs);
  if ((TypeBit(in) & inputs) == 0) {
    return Invalid("input 0 is %s, expected one of %s for operation %lld", DataTypeName(in),
                   TypeSetNames(inputs).c_str(), static_cast<long long>(node.Int("operation")));
  }
  const Qnn_DataType_t expected = bool_result ? QNN_DATATYPE_BOOL_8 : in;
  const bool both_fixed = IsFixed(expected) && IsFixed(out);
  if (out != expected && !both_fixed) {
    return Invalid("output 0 is %s, expected %s for operation %lld", DataTypeName(out),
                   DataTypeName(expected), static_cast<long long>(node.Int("operation")));
  }
  return {};
}

Status InferBinary(const Node& node, std::vector<Shape>* outputs) {
  const BinaryOp op = BinaryOpOf(node);
  QNNRT_RETURN_IF_ERROR(CheckOperationTypes(node, BinaryTypes(op), IsCompare(op)));
  return InferBroadcast(node, outputs);
}

Status InferUnary(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_RETURN_IF_ERROR(CheckOperationTypes(node, UnaryTypes(UnaryOpOf(node)), false));
  return SameShapeAsInput(node, outputs);
}

Result<KernelPtr> MakeBinary(const Node& node, const KernelOptions&) {
  return MakeBinaryKernel(BinaryOpOf(node), node);
}
Result<KernelPtr> MakeUnary(const Node& node, const KernelOptions&) {
  return MakeUnaryKernel(UnaryOpOf(node), node, {});
}
Result<KernelPtr> MakeIsNan(const Node& node, const KernelOptions&) {
  return MakeUnaryKernel(UnaryOp::kIsNan, node, {});
}
Result<KernelPtr> MakeIsInf(const Node& node, const KernelOptions&) {
  const float negative = node.Bool("detect_negative") ? 1.0f : 0.0f;
  const float positive = node.Bool("detect_positive") ? 1.0f : 0.0f;
  return MakeUnaryKernel(UnaryOp::kIsInf, node, {negative, positive});
}
Result<KernelPtr> MakeLogit(const Node& node, const KernelOptions&) {
  return MakeUnaryKernel(UnaryOp::kLogit, node, {-1.0f, 0.0f});
}

OpDef BinaryDef(const BinaryRow& row) {
  const TypeSet in = BinaryTypes(row.op);
  const bool compare = IsCompare(row.op);
  OpDef def;
  def.type = row.type;
  def.inputs = {{"in[0]", in}, {"in[1]", in, PortSpec::kOne, 0}};
  def.outputs = {compare ? PortSpec{"out[0]", types::kBool}
                         : PortSpec{"out[0]", in, PortSpec::kOne, 0}};
  def.infer = InferBroadcast;
  def.portable = MakeBinary;
  def.flags = OpDef::kInPlace | OpDef::kNativeHalf;
  if (!compare && !IsLogic(row.op)) def.flags |= OpDef::kPostOps;
  return def;
}

OpDef UnaryDef(const UnaryRow& row) {
  OpDef def;
  def.type = row.type;
  def.inputs = {{"in[0]", UnaryTypes(row.op)}};
  def.outputs = {{"out[0]", UnaryTypes(row.op), PortSpec::kOne, 0}};
  def.infer = SameShapeAsInput;
  def.portable = MakeUnary;
  def.flags = OpDef::kInPlace | OpDef::kNativeHalf;
  return def;
}

}  // namespace

BinaryOp BinaryOpOf(const Node& node) {
  if (node.type == QNN_OP_PRELU) return BinaryOp::kPrelu;
  for (const BinaryRow& row : kBinary) {
    if (node.type == row.type) return row.op;
  }
  return static_cast<BinaryOp>(node.Int("operation"));
}

OpList ElementWiseOps() {
  OpList ops;
  for (const BinaryRow& row : kBinary) ops.push_back(BinaryDef(row));
  for (const UnaryRow& row : kUnary) ops.push_back(UnaryDef(row));
  const uint32_t flags = OpDef::kInPlace | OpDef::kNativeHalf;
  ops.push_back({QNN_OP_ELEMENT_WISE_BINARY,
                 {{"in[0]", types::kAny}, {"in[1]", types::kAny, PortSpec::kOne, 0}},
                 {{"out[0]", types::kAny}},
                 {{"operation", ParamSpec::kInt, Required(), "", {"add",       "and",
                                                                  "divide",    "equal",
                                                                  "floor_div", "fmod",
                                                                  "greater",   "greater_equal",
                                                                  "less",      "less_equal",
                                                                  "maximum",   "minimum",
                                                                  "mod",       "multiply",
                                                                  "not_equal", "or",
                                                                  "power",     "squared_difference",
                                                                  "subtract",  "xor"}}},
                 InferBinary,
                 MakeBinary,
                 flags});
  ops.push_back({QNN_OP_ELEMENT_WISE_UNARY,
                 {{"in[0]", types::kFloat | types::kSigned | types::kBool}},
                 {{"out[0]", types::kFloat | types::kSigned | types::kBool}},
                 {{"operation",
                   ParamSpec::kInt,
                   Required(),
                   "round: half to even",
                   {"abs", "asin", "atan", "ceil", "cos", "exp", "floor", "log", "neg", "not",
                    "reciprocal", "round", "rsqrt", "sign", "sin", "sqrt"}}},
                 InferUnary,
                 MakeUnary,
                 flags});
  ops.push_back(SelectOp());
  ops.push_back({QNN_OP_IS_NAN,
                 {{"in[0]", types::kFloat}},
                 {{"out[0]", types::kBool}},
                 {},
                 SameShapeAsInput,
                 MakeIsNan,
                 flags});
  ops.push_back({QNN_OP_IS_INF,
                 {{"in[0]", types::kFloat}},
                 {{"out[0]", types::kBool}},
                 {{"detect_negative", ParamSpec::kBool, Default(true)},
                  {"detect_positive", ParamSpec::kBool, Default(true)}},
                 SameShapeAsInput,
                 MakeIsInf,
                 flags});
  ops.push_back({QNN_OP_LOGIT,
                 {{"in[0]", types::kFloat}},
                 {{"out[0]", types::kFloat, PortSpec::kOne, 0}},
                 {},
                 SameShapeAsInput,
                 MakeLogit,
                 flags});
  return ops;
}

}  // namespace qnnrt
