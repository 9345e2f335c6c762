// Activations that models write as arithmetic: x * sigmoid(x), x * relu6(x + 3) / 6, Gelu by tanh,
// an erf solved out of Gelu, in whatever order. Nodes that together are a function of one tensor,
// element by element, are evaluated at some points: what has the values of an activation there is
// that activation.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/elementwise/activation.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/elementwise.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

constexpr size_t kMostNodes = 40;  // Gelu by a quotient of polynomials for erf has 30

// The functions below differ from each other at several of them, and bend between them. The last
// ones show a clamp far out.
constexpr std::array kPoints = {
    -30.0f, -9.0f, -6.0f, -5.0f, -4.0f, -3.5f, -3.0f,  -2.9f, -2.5f, -2.0f, -1.7f, -1.5f, -1.25f,
    -1.0f,  -0.8f, -0.6f, -0.4f, -0.2f, -0.1f, -1e-3f, 0.0f,  1e-3f, 0.1f,  0.2f,  0.4f,  0.6f,
    0.8f,   1.0f,  1.25f, 1.5f,  1.7f,  2.0f,  2.5f,   2.9f,  3.0f,  3.5f,  4.0f,  5.0f,  6.0f,
    9.0f,   30.0f, -1e2f, 1e2f,  -1e3f, 1e3f,  -1e5f,  1e5f,  -1e9f, 1e9f};
constexpr size_t kZero = 20, kOne = 27;  // the points 0 and 1
static_assert(kPoints[kZero] == 0.0f && kPoints[kOne] == 1.0f);
using Values = std::array<float, kPoints.size()>;

// What float arithmetic in another order may move a value by: of a function that stays below 1
// everywhere by the same.
bool Agree(const Values& a, const Values& b, bool bounded = false) {
  for (size_t i = 0; i < kPoints.size(); ++i) {
    const float size = bounded ? 1.0f : 1.0f + std::fabs(kPoints[i]);
    if (!(std::fabs(a[i] - b[i]) <= 2e-6f * size)) return false;
  }
  return true;
}

Values At(Activation activation, float alpha = 0, float beta = 0) {
  Values values;
  DefOf(activation).loops.real(kPoints.data(), values.data(), values.size(), {alpha, beta});
  return values;
}

// The op that a function is.
struct FoundOp {
  const char* op;
  bool own;  // QNN has no such op
  std::vector<Param> params{};
};

// min(max(x, low), high), to the bit.
std::optional<FoundOp> AsClamp(const Values& f) {
  const auto [low, high] = std::minmax_element(f.begin(), f.end());
  for (size_t i = 0; i < f.size(); ++i) {
    if (f[i] != std::min(std::max(kPoints[i], *low), *high)) return std::nullopt;
  }
  const bool above = *high == *std::max_element(kPoints.begin(), kPoints.end());
  if (above && *low == 0.0f) return FoundOp{QNN_OP_RELU, false};
  const ActivationDef& def = DefOf(Activation::kReluMinMax);
  if (above || *low == *std::min_element(kPoints.begin(), kPoints.end())) return std::nullopt;
  return FoundOp{def.op, false, {{def.alpha.param, double{*low}}, {def.beta.param, double{*high}}}};
}

// min(max(alpha x + beta, 0), 1), whose slope shows best where it is farthest from its middle.
std::optional<FoundOp> AsHardSigmoid(const Values& f) {
  const float beta = f[kZero];
  if (!(beta >= 0.0f && beta < 1.0f)) return std::nullopt;
  float slope = 0;
  for (size_t i = kZero + 1; i < kPoints.size() && f[i] > beta && f[i] < 1.0f; ++i)
    slope = (f[i] - beta) / kPoints[i];
  if (!(slope > 0.0f) || !Agree(f, At(Activation::kHardSigmoid, slope, beta), true))
    return std::nullopt;
  const ActivationDef& def = DefOf(Activation::kHardSigmoid);
  return FoundOp{QNN_OP_ELEMENT_WISE_NEURON,
                 true,
                 {{"operation", int64_t{def.operation}},
                  {def.alpha.param, double{slope}},
                  {def.beta.param, double{beta}}}};
}

std::optional<FoundOp> Recognized(const Values& f) {
  const auto is = [](Activation a, float alpha = 0) {
    const ActivationDef& def = DefOf(a);
    FoundOp found{def.op, def.internal};
    if (def.alpha.param != nullptr) found.params.push_back({def.alpha.param, double{alpha}});
    return found;
  };
  for (Activation a :
       {Activation::kHardSwish, Activation::kGelu, Activation::kGeluTanh, Activation::kMish}) {
    if (Agree(f, At(a))) return is(a);
  }
  Values erf;
  LoopsOf(UnaryOp::kErf).real(kPoints.data(), erf.data(), erf.size(), {});
  if (Agree(f, erf, true)) return FoundOp{kErf, true};
  if (std::optional<FoundOp> found = AsClamp(f)) return found;
  if (std::optional<FoundOp> found = AsHardSigmoid(f)) return found;
  // x sigmoid(alpha x), whose value at 1 tells alpha.
  if (!(f[kOne] > 0.5f && f[kOne] < 0.999f)) return std::nullopt;
  for (float alpha : {1.0f, std::log(f[kOne] / (1.0f - f[kOne]))}) {
    if (Agree(f, At(Activation::kSwish, alpha))) return is(Activation::kSwish, alpha);
  }
  return std::nullopt;
}

std::optional<BinaryOp> Arithmetic(const Node& node) {
  static constexpr struct {
    const char* type;
    BinaryOp op;
  } kNamed[] = {{QNN_OP_ELEMENT_WISE_ADD, BinaryOp::kAdd},
                {QNN_OP_ELEMENT_WISE_SUBTRACT, BinaryOp::kSubtract},
                {QNN_OP_ELEMENT_WISE_MULTIPLY, BinaryOp::kMultiply},
                {QNN_OP_ELEMENT_WISE_DIVIDE, BinaryOp::kDivide},
                {QNN_OP_ELEMENT_WISE_POWER, BinaryOp::kPower},
                {QNN_OP_ELEMENT_WISE_MINIMUM, BinaryOp::kMinimum},
                {QNN_OP_ELEMENT_WISE_MAXIMUM, BinaryOp::kMaximum},
                {QNN_OP_ELEMENT_WISE_LESS, BinaryOp::kLess}};
  if (node.type == QNN_OP_ELEMENT_WISE_BINARY) {
    const BinaryOp op = BinaryOpOf(node);
    for (const auto& named : kNamed) {
      if (named.op == op) return op;
    }
    return std::nullopt;
  }
  for (const auto& named : kNamed) {
    if (node.type == named.type) return named.op;
  }
  return std::nullopt;
}

float ResultOf(BinaryOp op, float a, float b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSubtract:
      return a - b;
    case BinaryOp::kMultiply:
      return a * b;
    case BinaryOp::kDivide:
      return a / b;
    case BinaryOp::kPower:
      return std::pow(a, b);
    case BinaryOp::kMinimum:
      return std::min(a, b);
    case BinaryOp::kMaximum:
      return std::max(a, b);
    case BinaryOp::kLess:
      return a < b ? 1.0f : 0.0f;
    default:
      return std::nanf("");  // not reached: Arithmetic knows no others
  }
}

std::optional<UnaryOp> Unary(const Node& node) {
  if (node.type == QNN_OP_ELEMENT_WISE_EXP) return UnaryOp::kExp;
  if (node.type == QNN_OP_ELEMENT_WISE_NEG) return UnaryOp::kNeg;
  if (node.type == QNN_OP_ELEMENT_WISE_ABS) return UnaryOp::kAbs;
  if (node.type == QNN_OP_ELEMENT_WISE_LOG) return UnaryOp::kLog;
  if (node.type == kErf) return UnaryOp::kErf;
  return std::nullopt;
}

std::optional<PostOp> AsActivation(const Node& node) {
  const OpDef* def = FindOp(node.type);
  return def == nullptr || def->activation == nullptr ? std::nullopt : def->activation(node);
}

// A sum, difference, product or quotient bends no line, nor does Neg.
bool Bends(const Node& node) {
  const std::optional<BinaryOp> op = Arithmetic(node);
  return (op == BinaryOp::kMinimum || op == BinaryOp::kMaximum) ||
         (!op && Unary(node) != UnaryOp::kNeg);
}

bool IsSelect(const Node& node) { return node.type == QNN_OP_ELEMENT_WISE_SELECT; }

bool IsNumber(const Tensor& t) { return IsStaticFloat(&t) && t.elements() == 1; }

// Nodes that compute `result` from one tensor, element by element.
class Cone {
 public:
  Cone(const NodeGraph& graph, size_t last)
      : graph_(graph), result_(*graph.nodes[last].outputs[0]) {
    Take(last);
  }

  // Takes in one more node; false where there is none that fits.
  bool Grow() {
    int next = -1;
    for (const Tensor* t : open_) next = std::max(next, graph_.Producer(t));
    return next >= 0 && nodes_.size() < kMostNodes && Take(static_cast<size_t>(next));
  }

  // The tensor, when it is one, and nothing outside needs what lies between it and the result.
  const Tensor* Source() const {
    if (!fits_ || open_.size() != 1 || !bends_ || open_[0]->dtype != result_.dtype) return nullptr;
    for (size_t at : nodes_) {
      const Tensor* out = graph_.nodes[at].outputs[0];
      if (out == &result_) continue;
      if (out->type != QNN_TENSOR_TYPE_NATIVE || graph_.Uses(out) != Reads(out)) return nullptr;
    }
    return open_[0];
  }

  int Reads(const Tensor* tensor) const {
    int count = 0;
    for (size_t at : nodes_) {
      const auto& inputs = graph_.nodes[at].inputs;
      count += static_cast<int>(std::count(inputs.begin(), inputs.end(), tensor));
    }
    return count;
  }

  Values Evaluate(const Tensor* source) const {
    std::vector<std::pair<const Tensor*, Values>> known;
    Values values;
    std::copy(kPoints.begin(), kPoints.end(), values.begin());
    known.emplace_back(source, values);
    const auto value = [&](const Tensor* t) {
      for (const auto& [tensor, found] : known) {
        if (tensor == t) return found;
      }
      Values constant;
      constant.fill(StaticFloats(*t)[0]);
      return constant;
    };
    for (auto at = nodes_.rbegin(); at != nodes_.rend(); ++at) {  // the first to run came last
      const Node& node = graph_.nodes[*at];
      const Values a = value(node.inputs[0]);
      if (const auto op = Arithmetic(node)) {
        const Values b = value(node.inputs[1]);
        for (size_t i = 0; i < a.size(); ++i) values[i] = ResultOf(*op, a[i], b[i]);
      } else if (IsSelect(node)) {
        const Values b = value(node.inputs[1]), c = value(node.inputs[2]);
        for (size_t i = 0; i < a.size(); ++i) values[i] = a[i] != 0.0f ? b[i] : c[i];
      } else if (const auto function = Unary(node)) {
        LoopsOf(*function).real(a.data(), values.data(), a.size(), {});
      } else {
        const PostOp activation = *AsActivation(node);
        DefOf(activation.activation)
            .loops.real(a.data(), values.data(), a.size(), {activation.alpha, activation.beta});
      }
      known.emplace_back(node.outputs[0], values);
    }
    return values;
  }

  const std::vector<size_t>& nodes() const { return nodes_; }

 private:
  // A truth is what Select goes by.
  bool MayLieBetween(const Tensor& t) const {
    return t.dtype == result_.dtype || t.dtype == QNN_DATATYPE_BOOL_8;
  }

  bool Take(size_t at) {
    const Node& node = graph_.nodes[at];
    const size_t operands = IsSelect(node) ? 3 : Arithmetic(node) ? 2 : 1;
    fits_ = node.post_ops.empty() && node.outputs.size() == 1 && node.outputs[0] != nullptr &&
            node.outputs[0]->shape == result_.shape && MayLieBetween(*node.outputs[0]) &&
            (operands > 1 || Unary(node) || AsActivation(node));
    if (!fits_) return false;
    bends_ |= Bends(node);
    nodes_.push_back(at);
    open_.erase(std::remove(open_.begin(), open_.end(), node.outputs[0]), open_.end());
    for (size_t i = 0; i < operands; ++i) {
      const Tensor* t = node.inputs[i];
      if (IsNumber(*t)) continue;
      fits_ &= t->shape == result_.shape && MayLieBetween(*t) && !t->is_static();
      if (std::find(open_.begin(), open_.end(), t) == open_.end()) open_.push_back(t);
    }
    return fits_;
  }

  const NodeGraph& graph_;
  const Tensor& result_;
  std::vector<size_t> nodes_;         // from the last one on
  std::vector<const Tensor*> open_;   // what they read from outside
  bool fits_ = true, bends_ = false;  // bends: one of them does
};

// The node as a node of the op that was found and nothing else.
void MakeOp(Node* node, const FoundOp& found, const Tensor* source) {
  node->type = found.op;
  node->params = found.params;
  node->inputs = {source};
  CompleteParams(node);
}

}  // namespace

Status FindActivations(NodeGraph* graph, PassLevel level, int* changes) {
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const Node& last = graph->nodes[i];
    if (!(Arithmetic(last) || IsSelect(last)) || last.outputs[0] == nullptr ||
        !IsFloat(last.outputs[0]->dtype))
      continue;
    Cone cone(*graph, i);
    std::optional<FoundOp> found;
    const Tensor* source = nullptr;
    std::vector<size_t> nodes;
    while (cone.Grow()) {  // the most nodes that are one
      const Tensor* from = cone.Source();
      std::optional<FoundOp> more =
          from == nullptr ? std::nullopt : Recognized(cone.Evaluate(from));
      if (!more || (more->own && level < PassLevel::kFunctions)) continue;
      found = std::move(more);
      source = from;
      nodes = cone.nodes();
    }
    if (!found) continue;
    MakeOp(&graph->nodes[i], *found, source);
    for (size_t at : nodes) {
      if (at == i) continue;
      dead[at] = true;
      graph->nodes[at] = Node{};
    }
    ++*changes;
    graph->Index();  // it may be part of a larger one
  }
  graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
