// Relu and its kin, and ElementWiseNeuron, which names them by number.
#include "ops/elementwise/activation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "abi/qnn_op_names.h"
#include "abi/qnn_op_values.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/unary_loops.h"
#include "ops/fixed/kernels.h"
#include "ops/rules.h"
#include "ops/simd.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Relu {
  static QNNRT_INLINE float Do(float x, UnaryParams) { return x < 0.0f ? 0.0f : x; }
  template <typename T>
  static T Do(T x) {
    return x < 0 ? T{0} : x;
  }
};
QNNRT_UNARY(Relu6, float, vmath::Clamp(x, 0.0f, 6.0f))
QNNRT_UNARY(ReluMinMax, float, vmath::Clamp(x, p.alpha, p.beta))
// Integers between limits that lose what they have behind the point, as on the vendor's HTP
// backend.
template <typename T>
struct ClampIntegers {
  static QNNRT_INLINE void Run(const void* in, void* out, size_t n, UnaryParams p) {
    const T low = Limit(p.alpha), high = Limit(p.beta);
    const T* x = static_cast<const T*>(in);
    T* o = static_cast<T*>(out);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) o[i] = std::min(std::max(x[i], low), high);
  }
  static T Limit(float at) {
    const double whole = std::trunc(static_cast<double>(at));
    if (!(whole > static_cast<double>(std::numeric_limits<T>::min())))
      return std::numeric_limits<T>::min();
    if (whole >= static_cast<double>(std::numeric_limits<T>::max()))
      return std::numeric_limits<T>::max();
    return static_cast<T>(whole);
  }
};
UnaryLoop IntegerClamp(Qnn_DataType_t type) {
  return VisitNumber(type, [](auto t) -> UnaryLoop {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T>)
      return PickIsa<ClampIntegers<T>>();
    else
      return nullptr;
  });
}
QNNRT_UNARY(Sigmoid, float, vmath::Sigmoid(x))
QNNRT_UNARY(Tanh, float, vmath::Tanh(x))
QNNRT_UNARY(Elu, float, vmath::Elu(x, p.alpha))
QNNRT_UNARY(Gelu, float, vmath::Gelu(x))
QNNRT_UNARY(HardSwish, float, vmath::HardSwish(x))
QNNRT_UNARY(HardSigmoid, float, vmath::HardSigmoid(x, p.alpha, p.beta))
// Linear where alpha x is above beta; a negative beta: nowhere.
QNNRT_UNARY(Softplus, float,
            p.beta >= 0.0f && p.alpha * x > p.beta ? x : vmath::Softplus(p.alpha * x) / p.alpha)
// Not ops of QNN's: found in arithmetic (graph/passes/find_activations.cc).
QNNRT_UNARY(Silu, float, x* vmath::Sigmoid(x))
QNNRT_UNARY(SwishOf, float, x* vmath::Sigmoid(p.alpha* x))
struct Swish {
  static QNNRT_INLINE void Run(const void* in, void* out, size_t n, UnaryParams p) {
    if (p.alpha == 1.0f) {
      unary::Loop<Silu, float>::Run(in, out, n, p);
    } else {
      unary::Loop<SwishOf, float>::Run(in, out, n, p);
    }
  }
};
QNNRT_UNARY(GeluTanh, float, vmath::GeluTanh(x))
QNNRT_UNARY(Mish, float, vmath::Mish(x))
QNNRT_UNARY(LeakyRelu, float, x < 0.0f ? x * p.alpha : x)

// Of FLOAT_64.
double WideSigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double WideElu(double x, UnaryParams p) {
  return x < 0.0 ? static_cast<double>(p.alpha) * std::expm1(x) : x;
}
double WideGelu(double x) { return x == -INFINITY ? -0.0 : 0.5 * x * std::erfc(-x * M_SQRT1_2); }
double WideSoftplus(double x, UnaryParams p) {
  const double at = static_cast<double>(p.alpha) * x;
  if (p.beta >= 0.0f && at > static_cast<double>(p.beta)) return x;
  return (std::fmax(at, 0.0) + std::log1p(std::exp(-std::fabs(at)))) / static_cast<double>(p.alpha);
}

// An op that passes make, under the name that it has as a post op.
ActivationDef Internal(Activation id, const char* name, UnaryLoops loops,
                       ParamOrConstant alpha = {}) {
  ActivationDef row{id, name, name, nullptr, 0, loops, nullptr, alpha};
  row.internal = true;
  return row;
}

// One row for each Activation, in its order; behind them ops that are one of these with numbers of
// their own.
const std::vector<ActivationDef>& Table() {
  using A = Activation;
  using unary::Cheap, unary::Of, unary::Wide, unary::WideLoop, unary::WithWide;
  const auto above_0 = [](float, float) { return Limits{0, kInf}; };
  const auto from_0_to_6 = [](float, float) { return Limits{0, 6}; };
  const auto given = [](float low, float high) { return Limits{low, high}; };
  static const auto* const table = new std::vector<ActivationDef>{
      {A::kRelu, "Relu", QNN_OP_RELU, "relu", QNN_OP_ELEMENT_WISE_NEURON_OPERATION_RELU,
       unary::WithIntegers<Relu>(Cheap<Relu>()), above_0},
      {A::kRelu6, "Relu6", QNN_OP_RELU6, nullptr, 0, Cheap<Relu6>(), from_0_to_6},
      {A::kReluMinMax,
       "ReluMinMax",
       QNN_OP_RELU_MIN_MAX,
       "relu_min_max",
       QNN_OP_ELEMENT_WISE_NEURON_OPERATION_RELU_MIN_MAX,
       unary::WithIntegers(Cheap<ReluMinMax>(), IntegerClamp, types::kInt),
       given,
       {"min_value"},
       {"max_value"}},
      {A::kSigmoid, "Sigmoid", QNN_OP_SIGMOID, "sigmoid",
       QNN_OP_ELEMENT_WISE_NEURON_OPERATION_SIGMOID, Wide<WideSigmoid>(Of<Sigmoid>())},
      {A::kTanh, "Tanh", QNN_OP_TANH, "tanh", QNN_OP_ELEMENT_WISE_NEURON_OPERATION_TANH,
       Wide<std::tanh>(Of<Tanh>())},
      {A::kElu,
       "Elu",
       QNN_OP_ELU,
       "elu",
       QNN_OP_ELEMENT_WISE_NEURON_OPERATION_ELU,
       WithWide(Of<Elu>(), WideLoop<WideElu>),
       nullptr,
       {"alpha"},
       {},
       true,
       false},
      {A::kGelu, "Gelu", QNN_OP_GELU, "gelu", QNN_OP_ELEMENT_WISE_NEURON_OPERATION_GELU,
       Wide<WideGelu>(Of<Gelu>())},
      {A::kHardSwish, "HardSwish", QNN_OP_HARD_SWISH, "hard_swish",
       QNN_OP_ELEMENT_WISE_NEURON_OPERATION_HARD_SWISH, Of<HardSwish>()},
      {A::kHardSigmoid,
       "HardSigmoid",
       nullptr,
       "hard_sigmoid",
       QNN_OP_ELEMENT_WISE_NEURON_OPERATION_HARD_SIGMOID,
       Of<HardSigmoid>(),
       nullptr,
       {"alpha"},
       {"beta"},
       true,
       false},
      {A::kSoftplus,
       "Softplus",
       nullptr,
       "softplus",
       QNN_OP_ELEMENT_WISE_NEURON_OPERATION_SOFTPLUS,
       WithWide(Of<Softplus>(), WideLoop<WideSoftplus>),
       nullptr,
       {"beta"},
       {"threshold"},
       false,
       false},
      {A::kLeakyRelu, "LeakyRelu", nullptr, nullptr, 0, Of<LeakyRelu>()},
      Internal(A::kSwish, "Swish", {PickIsa<Swish>()}, {"alpha"}),
      Internal(A::kGeluTanh, "GeluTanh", Of<GeluTanh>()),
      Internal(A::kMish, "Mish", Of<Mish>()),
      {A::kReluMinMax,
       "ReluMinMax",
       QNN_OP_RELU1,
       nullptr,
       0,
       Cheap<ReluMinMax>(),
       given,
       {nullptr, -1},
       {nullptr, 1}},
  };
  return *table;
}

void BrainClamp(const void* in, void* out, size_t n, UnaryParams p) {
  Simd().brain.clamp(static_cast<uint16_t*>(out), static_cast<const uint16_t*>(in), p.alpha, p.beta,
                     n);
}

// Of a node of one of these ops.
const ActivationDef& DefOf(const Node& node) {
  const bool any = node.type == QNN_OP_ELEMENT_WISE_NEURON;
  const uint32_t operation = any ? static_cast<uint32_t>(node.Int("operation")) : 0;
  for (const ActivationDef& row : Table()) {
    if (any ? row.neuron != nullptr && row.operation == operation
            : row.op != nullptr && node.type == row.op)
      return row;
  }
  return Table()[0];  // not reached: the op table was made from this one
}

UnaryParams NumbersOf(const Node& node, const ActivationDef& def) {
  const auto number = [&](const ParamOrConstant& n) {
    return n.param != nullptr ? node.Float(n.param) : n.constant;
  };
  return {number(def.alpha), number(def.beta)};
}

std::optional<PostOp> AsPostOp(const Node& node) {
  const ActivationDef& def = DefOf(node);
  const UnaryParams numbers = NumbersOf(node, def);
  return PostOp{PostOp::Kind::kActivation, def.id, numbers.alpha, numbers.beta};
}

// One slope for all channels.
std::optional<PostOp> AsLeakyRelu(const Node& node) {
  const Tensor& slope = *node.inputs[1];
  const NarrowFloat* narrow = NarrowFloatOf(slope.dtype);
  if (!slope.is_static() || slope.elements() != 1 ||
      !(narrow != nullptr || slope.dtype == QNN_DATATYPE_FLOAT_32)) {
    return std::nullopt;
  }
  const float alpha =
      narrow != nullptr ? narrow->Wide(*slope.data_as<uint16_t>()) : *slope.data_as<float>();
  return PostOp{PostOp::Kind::kActivation, Activation::kLeakyRelu, alpha};
}

ParamValue NeuronBeta(const Node& node) {
  return node.Int("operation") == QNN_OP_ELEMENT_WISE_NEURON_OPERATION_HARD_SIGMOID ? 0.5 : 1.0;
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
  const ActivationDef& def = DefOf(node);
  const Qnn_DataType_t type = node.inputs[0]->dtype;
  const TypeSet allowed = WithFixed(UnaryTypes(def.loops));
  if ((TypeBit(type) & allowed) == 0) {
    return Invalid("input 0 is %s, expected one of %s for operation %lld", DataTypeName(type),
                   TypeSetNames(allowed).c_str(), static_cast<long long>(node.Int("operation")));
  }
  if (def.id == Activation::kReluMinMax) QNNRT_RETURN_IF_ERROR(CheckMinMax(node));
  if (def.id == Activation::kSoftplus && !(node.Float("beta") > 0.0f)) {
    return Invalid("param 'beta' is %g, expected a positive number for Softplus",
                   static_cast<double>(node.Float("beta")));
  }
  return SameShapeAsInput(node, outputs);
}

Status InferPrelu(const Node& node, std::vector<Shape>* outputs) {
  const Shape &x = node.inputs[0]->shape, &slope = node.inputs[1]->shape;
  (*outputs)[0] = x;
  Shape both;
  if ((BroadcastShape(x, slope, &both) && both == x) || HasSlopesOfChannelsFirst(node)) return {};
  return Invalid("slopes of shape %s do not broadcast to the input's %s", ShapeText(slope).c_str(),
                 ShapeText(x).c_str());
}

Result<KernelPtr> Make(const Node& node, const KernelOptions&) {
  const ActivationDef& def = DefOf(node);
  UnaryParams numbers = NumbersOf(node, def);
  if (def.limits == nullptr || node.inputs[0]->dtype != QNN_DATATYPE_BFLOAT_16 ||
      node.outputs[0]->dtype != QNN_DATATYPE_BFLOAT_16) {
    return MakeUnaryKernel(def.loops, node, numbers);
  }
  UnaryLoops loops = def.loops;
  loops.brain = BrainClamp;
  const Limits limits = def.limits(numbers.alpha, numbers.beta);
  return MakeUnaryKernel(loops, node, {limits.low, limits.high});
}

Result<KernelPtr> MakePrelu(const Node& node, const KernelOptions&) {
  return MakeBinaryKernel(BinaryOp::kPrelu, node);
}

}  // namespace

const ActivationDef& DefOf(Activation activation) {
  return Table()[static_cast<size_t>(activation)];
}

bool HasSlopesOfChannelsFirst(const Node& node) {
  if (node.type != QNN_OP_PRELU || !node.HasInput(0) || !node.HasInput(1)) return false;
  const Shape &x = node.inputs[0]->shape, &slope = node.inputs[1]->shape;
  return x.size() > 2 && slope.size() == 1 && slope[0] == x[1] && slope[0] != x.back() &&
         slope[0] != 1;
}

OpList ActivationOps() {
  const uint32_t flags = OpDef::kInPlace | OpDef::kNativeHalf;
  OpList ops;
  std::vector<const char*> neurons(QNN_OP_ELEMENT_WISE_NEURON_OPERATION_TANH + 1);
  uint32_t lpai_neurons = 0;
  for (const ActivationDef& row : Table()) {
    if (row.neuron != nullptr) {
      neurons[row.operation] = row.neuron;
      if (row.lpai) lpai_neurons |= 1u << row.operation;
    }
    if (row.op == nullptr) continue;
    const TypeSet in = UnaryTypes(row.loops);
    OpDef def;
    def.type = row.op;
    def.inputs = {{"in[0]", in}};
    def.outputs = {{"out[0]", in, PortSpec::kOne, 0}};
    def.infer = SameShapeAsInput;
    def.portable = Make;
    def.fixed = MakeFixedUnary;
    def.activation = AsPostOp;
    def.flags = flags | (row.lpai ? OpDef::kLpai : OpDef::kNone);
    if (row.limits != nullptr) {
      const Limits constant = row.limits(row.alpha.constant, row.beta.constant);
      def.clamps = {{row.alpha.param, constant.low}, {row.beta.param, constant.high}};
    }
    if (row.internal) def.flags |= OpDef::kInternal;
    if (row.alpha.param != nullptr && row.limits == nullptr)
      def.params = {{row.alpha.param, ParamSpec::kFloat, Default(1.0)}};
    if (row.alpha.param != nullptr && row.limits != nullptr) {
      def.params = {{"min_value", ParamSpec::kFloat, Required(), "at most max_value"},
                    {"max_value", ParamSpec::kFloat, Required(), ""}};
      def.infer = InferMinMax;
    }
    ops.push_back(std::move(def));
  }
  const TypeSet any = types::kNumber;
  ops.push_back({QNN_OP_ELEMENT_WISE_NEURON,
                 {{"in[0]", any}},
                 {{"out[0]", any, PortSpec::kOne, 0}},
                 {{"operation", ParamSpec::kInt, Required(), "", neurons},
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
  ops.back().activation = AsPostOp;
  ops.back().lpai_operations = lpai_neurons;
  ops.push_back({QNN_OP_PRELU,
                 {{"in[0]", types::kFloat}, {"in[1]", types::kFloat, PortSpec::kOne, 0}},
                 {{"out[0]", types::kFloat, PortSpec::kOne, 0}},
                 {},
                 InferPrelu,
                 MakePrelu,
                 flags | OpDef::kLpai,
                 MakeFixedBinary});
  ops.back().activation = AsLeakyRelu;
  return ops;
}

}  // namespace qnnrt
