// The ElementWise* ops, and IsNan, IsInf, Logit. Both inputs of a binary op broadcast by numpy's
// rule.
#include <iterator>

#include "abi/qnn_op_names.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/select.h"
#include "ops/elementwise/unary.h"
#include "ops/fixed/kernels.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

// A value of the param `operation`, and the op of its own that does the same.
struct Row {
  const char* name;
  const char* type = nullptr;
  bool lpai = false;
  bool sensitive = false;  // OpDef::sensitive_inputs
};
// In the order of the values, as BinaryOp.
constexpr Row kBinary[] = {
    {"add", QNN_OP_ELEMENT_WISE_ADD, true},
    {"and", QNN_OP_ELEMENT_WISE_AND},
    {"divide", QNN_OP_ELEMENT_WISE_DIVIDE, true},
    {"equal", QNN_OP_ELEMENT_WISE_EQUAL},
    {"floor_div", QNN_OP_ELEMENT_WISE_FLOOR_DIV, false, true},
    {"fmod", nullptr, false, true},
    {"greater", QNN_OP_ELEMENT_WISE_GREATER},
    {"greater_equal", QNN_OP_ELEMENT_WISE_GREATER_EQUAL},
    {"less", QNN_OP_ELEMENT_WISE_LESS},
    {"less_equal", QNN_OP_ELEMENT_WISE_LESS_EQUAL},
    {"maximum", QNN_OP_ELEMENT_WISE_MAXIMUM, true},
    {"minimum", QNN_OP_ELEMENT_WISE_MINIMUM, true},
    {"mod", QNN_OP_ELEMENT_WISE_MOD, false, true},
    {"multiply", QNN_OP_ELEMENT_WISE_MULTIPLY, true},
    {"not_equal", QNN_OP_ELEMENT_WISE_NOT_EQUAL},
    {"or", QNN_OP_ELEMENT_WISE_OR},
    {"power", QNN_OP_ELEMENT_WISE_POWER, true},
    {"squared_difference", QNN_OP_ELEMENT_WISE_SQUARED_DIFFERENCE},
    {"subtract", QNN_OP_ELEMENT_WISE_SUBTRACT, true},
    {"xor", QNN_OP_ELEMENT_WISE_XOR},
};
// In the order of the values, as UnaryOp.
constexpr Row kUnary[] = {
    {"abs", QNN_OP_ELEMENT_WISE_ABS},
    {"asin", QNN_OP_ELEMENT_WISE_ASIN},
    {"atan", QNN_OP_ELEMENT_WISE_ATAN},
    {"ceil", QNN_OP_ELEMENT_WISE_CEIL, false, true},
    {"cos", QNN_OP_ELEMENT_WISE_COS, false, true},
    {"exp", QNN_OP_ELEMENT_WISE_EXP, true, true},
    {"floor", QNN_OP_ELEMENT_WISE_FLOOR, false, true},
    {"log", QNN_OP_ELEMENT_WISE_LOG, true},
    {"neg", QNN_OP_ELEMENT_WISE_NEG, true},
    {"not", QNN_OP_ELEMENT_WISE_NOT},
    {"reciprocal"},
    {"round", QNN_OP_ELEMENT_WISE_ROUND, false, true},
    {"rsqrt", QNN_OP_ELEMENT_WISE_RSQRT},
    {"sign", QNN_OP_ELEMENT_WISE_SIGN},
    {"sin", QNN_OP_ELEMENT_WISE_SIN, false, true},
    {"sqrt", QNN_OP_ELEMENT_WISE_SQUARE_ROOT, true},
};

// The operation that a validated node stands for.
template <size_t count>
size_t OperationOf(const Node& node, const Row (&rows)[count]) {
  for (size_t i = 0; i < count; ++i) {
    if (rows[i].type != nullptr && node.type == rows[i].type) return i;
  }
  return static_cast<size_t>(node.Int("operation"));
}

// The op that takes any of them as `operation`.
template <size_t count>
OpDef AnyOf(const char* type, const Row (&rows)[count], const char* rule) {
  OpDef def;
  def.type = type;
  def.params = {{"operation", ParamSpec::kInt, Required(), rule}};
  def.lpai_operations = 0;
  for (size_t i = 0; i < count; ++i) {
    def.params[0].values.push_back(rows[i].name);
    if (rows[i].lpai) def.lpai_operations |= 1u << i;
  }
  def.flags = OpDef::kInPlace | OpDef::kNativeHalf | OpDef::kLpai;
  return def;
}

const UnaryLoops& UnaryLoopsOf(const Node& node) {
  return LoopsOf(static_cast<UnaryOp>(OperationOf(node, kUnary)));
}

TypeSet BinaryTypes(BinaryOp op) {
  // Integers bit by bit: QNN has booleans only here, and nothing else for bits.
  if (IsLogic(op)) return types::kBool | types::kInt;
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

// Fixed-point numbers have an exponent of their kind, or a plain number.
Status InferPower(const Node& node, std::vector<Shape>* outputs) {
  const Tensor &base = *node.inputs[0], &exponent = *node.inputs[1], &out = *node.outputs[0];
  if (IsFixed(base.dtype)) {
    constexpr TypeSet kExponents = types::kFixed | types::kF32 | types::kI32;
    if ((TypeBit(exponent.dtype) & kExponents) == 0) {
      return Invalid("input 1 '%s' has type %s; the exponent of %s is one of %s",
                     exponent.name.c_str(), DataTypeName(exponent.dtype), DataTypeName(base.dtype),
                     TypeSetNames(kExponents).c_str())
          .WithCode(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE);
    }
    if (!IsFixed(out.dtype)) {
      return Invalid("output 0 '%s' has type %s; a power of %s is one of %s", out.name.c_str(),
                     DataTypeName(out.dtype), DataTypeName(base.dtype),
                     TypeSetNames(types::kFixed).c_str())
          .WithCode(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE);
    }
  }
  return InferBroadcast(node, outputs);
}

Status InferUnary(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_RETURN_IF_ERROR(CheckOperationTypes(node, UnaryTypes(UnaryLoopsOf(node)), false));
  return SameShapeAsInput(node, outputs);
}

Result<KernelPtr> MakeBinary(const Node& node, const KernelOptions&) {
  return MakeBinaryKernel(BinaryOpOf(node), node);
}
Result<KernelPtr> MakeUnary(const Node& node, const KernelOptions&) {
  return MakeUnaryKernel(UnaryLoopsOf(node), node, {});
}
Result<KernelPtr> MakeIsNan(const Node& node, const KernelOptions&) {
  return MakeUnaryKernel(LoopsOf(UnaryOp::kIsNan), node, {});
}
Result<KernelPtr> MakeIsInf(const Node& node, const KernelOptions&) {
  const float negative = node.Bool("detect_negative") ? 1.0f : 0.0f;
  const float positive = node.Bool("detect_positive") ? 1.0f : 0.0f;
  return MakeUnaryKernel(LoopsOf(UnaryOp::kIsInf), node, {negative, positive});
}
Result<KernelPtr> MakeErf(const Node& node, const KernelOptions&) {
  return MakeUnaryKernel(LoopsOf(UnaryOp::kErf), node, {});
}
Result<KernelPtr> MakeLogit(const Node& node, const KernelOptions&) {
  return MakeUnaryKernel(LoopsOf(UnaryOp::kLogit), node, {-1.0f, 0.0f});
}

OpDef BinaryDef(BinaryOp op, const Row& row) {
  const TypeSet in = BinaryTypes(op);
  const bool compare = IsCompare(op);
  OpDef def;
  def.type = row.type;
  def.inputs = {{"in[0]", in}, {"in[1]", in, PortSpec::kOne, 0}};
  def.outputs = {compare ? PortSpec{"out[0]", types::kBool}
                         : PortSpec{"out[0]", in, PortSpec::kOne, 0}};
  def.infer = InferBroadcast;
  def.portable = MakeBinary;
  def.flags = OpDef::kInPlace | OpDef::kNativeHalf | (row.lpai ? OpDef::kLpai : OpDef::kNone);
  if (!compare && !IsLogic(op)) def.flags |= OpDef::kPostOps;
  if (!IsLogic(op)) def.fixed = MakeFixedBinary;
  if (op == BinaryOp::kPower) {
    def.infer = InferPower;
    def.flags |= OpDef::kConverts;
  }
  def.sensitive_inputs = row.sensitive ? 3 : 0;
  def.linear = op == BinaryOp::kAdd        ? OpDef::kAdd
               : op == BinaryOp::kSubtract ? OpDef::kSubtract
               : op == BinaryOp::kMultiply ? OpDef::kMultiply
                                           : OpDef::kNotLinear;
  return def;
}

OpDef UnaryDef(UnaryOp op, const Row& row) {
  const TypeSet types = UnaryTypes(LoopsOf(op));
  OpDef def;
  def.type = row.type;
  def.inputs = {{"in[0]", types}};
  def.outputs = {{"out[0]", types, PortSpec::kOne, 0}};
  def.infer = SameShapeAsInput;
  def.portable = MakeUnary;
  def.flags = OpDef::kInPlace | OpDef::kNativeHalf | (row.lpai ? OpDef::kLpai : OpDef::kNone);
  if (op != UnaryOp::kNot) def.fixed = MakeFixedUnary;
  def.sensitive_inputs = row.sensitive ? 1 : 0;
  return def;
}

}  // namespace

BinaryOp BinaryOpOf(const Node& node) {
  if (node.type == QNN_OP_PRELU) return BinaryOp::kPrelu;
  return static_cast<BinaryOp>(OperationOf(node, kBinary));
}

OpList ElementWiseOps() {
  OpList ops;
  for (size_t i = 0; i < std::size(kBinary); ++i) {
    if (kBinary[i].type != nullptr) ops.push_back(BinaryDef(static_cast<BinaryOp>(i), kBinary[i]));
  }
  for (size_t i = 0; i < std::size(kUnary); ++i) {
    if (kUnary[i].type != nullptr) ops.push_back(UnaryDef(static_cast<UnaryOp>(i), kUnary[i]));
  }
  OpDef binary = AnyOf(QNN_OP_ELEMENT_WISE_BINARY, kBinary, "");
  binary.inputs = {{"in[0]", types::kAny}, {"in[1]", types::kAny, PortSpec::kOne, 0}};
  binary.outputs = {{"out[0]", types::kAny}};
  binary.infer = InferBinary;
  binary.portable = MakeBinary;
  binary.fixed = MakeFixedBinary;
  binary.sensitive_inputs = 3;
  binary.sensitive = [](const Node& node) { return kBinary[OperationOf(node, kBinary)].sensitive; };
  ops.push_back(std::move(binary));
  OpDef unary = AnyOf(QNN_OP_ELEMENT_WISE_UNARY, kUnary, "round: half to even");
  unary.inputs = {{"in[0]", types::kFloat | types::kF64 | types::kSigned | types::kBool}};
  unary.outputs = {{"out[0]", types::kFloat | types::kF64 | types::kSigned | types::kBool}};
  unary.infer = InferUnary;
  unary.portable = MakeUnary;
  unary.fixed = MakeFixedUnary;
  unary.sensitive_inputs = 1;
  unary.sensitive = [](const Node& node) { return kUnary[OperationOf(node, kUnary)].sensitive; };
  ops.push_back(std::move(unary));
  const uint32_t flags = OpDef::kInPlace | OpDef::kNativeHalf;
  ops.push_back(SelectOp());
  ops.push_back({QNN_OP_IS_NAN,
                 {{"in[0]", types::kFloat | types::kF64}},
                 {{"out[0]", types::kBool}},
                 {},
                 SameShapeAsInput,
                 MakeIsNan,
                 flags,
                 MakeFixedUnary});
  ops.push_back({QNN_OP_IS_INF,
                 {{"in[0]", types::kFloat | types::kF64}},
                 {{"out[0]", types::kBool}},
                 {{"detect_negative", ParamSpec::kBool, Default(true)},
                  {"detect_positive", ParamSpec::kBool, Default(true)}},
                 SameShapeAsInput,
                 MakeIsInf,
                 flags,
                 MakeFixedUnary});
  ops.push_back({QNN_OP_LOGIT,
                 {{"in[0]", types::kFloat}},
                 {{"out[0]", types::kFloat, PortSpec::kOne, 0}},
                 {},
                 SameShapeAsInput,
                 MakeLogit,
                 flags,
                 MakeFixedUnary});
  ops.push_back({kErf,
                 {{"in[0]", types::kFloat | types::kF64}},
                 {{"out[0]", types::kFloat | types::kF64, PortSpec::kOne, 0}},
                 {},
                 SameShapeAsInput,
                 MakeErf,
                 flags | OpDef::kInternal});
  ops.push_back(SlidingOp());
  ops.push_back(TableOp());
  return ops;
}

}  // namespace qnnrt
