// Relu and its kin, and ElementWiseNeuron, which names them by number.
#include <limits>

#include "abi/qnn_op_names.h"
#include "abi/qnn_op_values.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/unary.h"
#include "ops/fixed/kernels.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Row {
  const char* type;
  UnaryOp op;
};
constexpr Row kRows[] = {
    {QNN_OP_ELU, UnaryOp::kElu},
    {QNN_OP_GELU, UnaryOp::kGelu},
    {QNN_OP_HARD_SWISH, UnaryOp::kHardSwish},
    {QNN_OP_RELU, UnaryOp::kRelu},
    {QNN_OP_RELU1, UnaryOp::kReluMinMax},
    {QNN_OP_RELU6, UnaryOp::kReluMinMax},
    {QNN_OP_RELU_MIN_MAX, UnaryOp::kReluMinMax},
    {QNN_OP_SIGMOID, UnaryOp::kSigmoid},
    {QNN_OP_TANH, UnaryOp::kTanh},
};
constexpr UnaryOp kNeurons[] = {
    UnaryOp::kElu,       UnaryOp::kGelu,     UnaryOp::kHardSigmoid,
    UnaryOp::kHardSwish, UnaryOp::kRelu,     UnaryOp::kReluMinMax,
    UnaryOp::kSigmoid,   UnaryOp::kSoftplus, UnaryOp::kTanh,
};

UnaryOp OpOf(const Node& node) {
  for (const Row& row : kRows) {
    if (node.type == row.type) return row.op;
  }
  return kNeurons[node.Int("operation")];
}

ParamValue NeuronBeta(const Node& node) {
  return node.Int("operation") == QNN_OP_ELEMENT_WISE_NEURON_OPERATION_HARD_SIGMOID ? 0.5 : 1.0;
}

// The same params whichever op carries them.
UnaryParams ParamsOf(const Node& node, UnaryOp op) {
  switch (op) {
    case UnaryOp::kElu:
      return {node.Float("alpha"), 0.0f};
    case UnaryOp::kHardSigmoid:
      return {node.Float("alpha"), node.Float("beta")};
    case UnaryOp::kSoftplus: {
      const float threshold = node.Float("threshold");
      return {node.Float("beta"), threshold < 0.0f ? kInf : threshold};
    }
    case UnaryOp::kReluMinMax:
      if (node.type == QNN_OP_RELU1) return {-1.0f, 1.0f};
      if (node.type == QNN_OP_RELU6) return {0.0f, 6.0f};
      return {node.Float("min_value"), node.Float("max_value")};
    default:
      return {};
  }
}

Status CheckMinMax(const Node& node) {
  const float low = node.Float("min_value"), high = node.Float("max_value");
  if (low <= high) return {};
  return Invalid("param 'min_value' is %g, which is not below or equal to 'max_value', %g",
                 static_cast<double>(low), static_cast<double>(high));
}

Status InferMinMax(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_RETURN_IF_ERROR(CheckMinMax(node));
  return SameShapeAsInput(node, outputs);
}

Status InferNeuron(const Node& node, std::vector<Shape>* outputs) {
  const UnaryOp op = OpOf(node);
  const Qnn_DataType_t type = node.inputs[0]->dtype;
  const TypeSet allowed = WithFixed(UnaryTypes(op));
  if ((TypeBit(type) & allowed) == 0) {
    return Invalid("input 0 is %s, expected one of %s for operation %lld", DataTypeName(type),
                   TypeSetNames(allowed).c_str(), static_cast<long long>(node.Int("operation")));
  }
  if (op == UnaryOp::kReluMinMax) QNNRT_RETURN_IF_ERROR(CheckMinMax(node));
  if (op == UnaryOp::kSoftplus && !(node.Float("beta") > 0.0f)) {
    return Invalid("param 'beta' is %g, expected a positive number for Softplus",
                   static_cast<double>(node.Float("beta")));
  }
  return SameShapeAsInput(node, outputs);
}

Status InferPrelu(const Node& node, std::vector<Shape>* outputs) {
  const Shape &x = node.inputs[0]->shape, &slope = node.inputs[1]->shape;
  (*outputs)[0] = x;
  Shape both;
  if (BroadcastShape(x, slope, &both) && both == x) return {};
  return Invalid("slopes of shape %s do not broadcast to the input's %s", ShapeText(slope).c_str(),
                 ShapeText(x).c_str());
}

Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  const UnaryOp op = OpOf(node);
  return MakeUnaryKernel(op, node, ParamsOf(node, op));
}

Result<KernelPtr> MakePrelu(const Node& node, const KernelOptions&) {
  return MakeBinaryKernel(BinaryOp::kPrelu, node);
}

}  // namespace

OpList ActivationOps() {
  const uint32_t flags = OpDef::kInPlace | OpDef::kNativeHalf;
  OpList ops;
  for (const Row& row : kRows) {
    const TypeSet in = UnaryTypes(row.op);
    ops.push_back({row.type,
                   {{"in[0]", in}},
                   {{"out[0]", in, PortSpec::kOne, 0}},
                   {},
                   SameShapeAsInput,
                   Make,
                   flags | OpDef::kLpai,
                   MakeFixedUnary});
    OpDef& def = ops.back();
    if (row.op == UnaryOp::kElu) {
      def.flags = flags;
      def.params = {{"alpha", ParamSpec::kFloat, Default(1.0)}};
    }
    if (def.type == std::string(QNN_OP_RELU_MIN_MAX)) {
      def.params = {{"min_value", ParamSpec::kFloat, Required(), "at most max_value"},
                    {"max_value", ParamSpec::kFloat, Required(), ""}};
      def.infer = InferMinMax;
    }
  }
  const TypeSet any = types::kFloat | types::kSigned;
  ops.push_back({QNN_OP_ELEMENT_WISE_NEURON,
                 {{"in[0]", any}},
                 {{"out[0]", any, PortSpec::kOne, 0}},
                 {{"operation",
                   ParamSpec::kInt,
                   Required(),
                   "",
                   {"elu", "gelu", "hard_sigmoid", "hard_swish", "relu", "relu_min_max", "sigmoid",
                    "softplus", "tanh"}},
                  {"alpha", ParamSpec::kFloat, Default(1.0), "elu, hard_sigmoid"},
                  {"beta", ParamSpec::kFloat, DefaultOf(NeuronBeta),
                   "hard_sigmoid: default 0.5; softplus: steepness, default 1"},
                  {"min_value", ParamSpec::kFloat, Default(-double{kInf}), "relu_min_max"},
                  {"max_value", ParamSpec::kFloat, Default(double{kInf}), "relu_min_max"},
                  {"threshold", ParamSpec::kFloat, Default(-1.0),
                   "softplus: linear where beta x is above it; negative: never"}},
                 InferNeuron,
                 Make,
                 flags | OpDef::kLpai,
                 MakeFixedUnary});
  ops.back().lpai_operations = 0;
  for (uint32_t i = 0; i < std::size(kNeurons); ++i) {
    for (const Row& row : kRows) {
      if (row.op == kNeurons[i] && row.op != UnaryOp::kElu) ops.back().lpai_operations |= 1u << i;
    }
  }
  ops.push_back({QNN_OP_PRELU,
                 {{"in[0]", types::kFloat}, {"in[1]", types::kFloat, PortSpec::kOne, 0}},
                 {{"out[0]", types::kFloat, PortSpec::kOne, 0}},
                 {},
                 InferPrelu,
                 MakePrelu,
                 flags | OpDef::kLpai,
                 MakeFixedBinary});
  return ops;
}

}  // namespace qnnrt
