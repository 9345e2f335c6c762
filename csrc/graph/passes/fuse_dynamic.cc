// Dynamic quantization as clients write it, in ops on floats, becomes products of bytes.
//
// A range and the numbers quantized with it (what ONNX defines DynamicQuantizeLinear by) are one
// DynamicQuantize for each tensor. A product of integers as floats, cast to INT_32, is an
// IntegerMatMul, which also takes the scale and the bias behind it.
#include <optional>

#include "abi/qnn_op_names.h"
#include "graph/passes/fuse_dynamic.h"
#include "graph/passes/node_graph.h"
#include "ops/dynamic/dynamic.h"
#include "ops/elementwise/activation.h"
#include "ops/op.h"

namespace qnnrt {

// ---- what both parts ask ----------------------------------------------------------------------

const Node* Rewriter::Maker(const Tensor* t, const char* type) const {
  const int at = t == nullptr ? -1 : graph_->Producer(t);
  if (at < 0) return nullptr;
  const Node& node = graph_->nodes[static_cast<size_t>(at)];
  return (type == nullptr || node.type == type) && node.post_ops.empty() ? &node : nullptr;
}

const Tensor* Rewriter::Number(const Tensor* t) const {
  while (t != nullptr && t->elements() == 1) {
    const Node* node = Maker(t, nullptr);
    const OpDef* def = node == nullptr ? nullptr : FindOp(node->type);
    const bool alias = def != nullptr && (def->flags & OpDef::kAlias) != 0;
    if (!alias || node->inputs[0]->dtype != t->dtype) break;
    t = node->inputs[0];
  }
  return t;
}

void Rewriter::Apply() {
  std::vector<Node> nodes;
  for (size_t i = 0; i < dead_.size(); ++i) {
    for (Node& node : before_[i]) nodes.push_back(std::move(node));
    if (!dead_[i]) nodes.push_back(std::move(graph_->nodes[i]));
  }
  graph_->nodes = std::move(nodes);
  graph_->Index();
}

bool IsNumber(const Tensor* t, float value) {
  return t != nullptr && t->is_static() && t->dtype == QNN_DATATYPE_FLOAT_32 &&
         t->elements() == 1 && *t->data_as<float>() == value;
}

const Tensor* Beside(const Node* node, float number) {
  if (node == nullptr) return nullptr;
  if (IsNumber(node->inputs[1], number)) return node->inputs[0];
  return IsNumber(node->inputs[0], number) ? node->inputs[1] : nullptr;
}

namespace {

// ---- DynamicQuantize --------------------------------------------------------------------------

class QuantizeFusion {
 public:
  explicit QuantizeFusion(NodeGraph* graph) : to_(graph) {}

  int Run(ZeroPoints* zeros) {
    int found = 0;
    for (size_t i = 0; i < to_.size(); ++i) {
      const std::optional<Match> match = Find(i);
      if (!match) continue;
      if (!Reuse(*match)) Make(*match, zeros);
      ++found;
    }
    to_.Apply();
    return found;
  }

 private:
  struct Match {
    const Tensor *x, *codes, *scale, *zero;  // zero: as UINT_8
    size_t first;                            // of its nodes
    bool one;                                // the scale of zeros alone
  };

  // What is clamped to the range of a byte.
  const Tensor* Clamped(const Tensor* t) const {
    const Node* node = to_.Maker(t, nullptr);
    const OpDef* def = node == nullptr ? nullptr : FindOp(node->type);
    if (def == nullptr) return nullptr;
    if (def->activation != nullptr) {
      const std::optional<PostOp> op = def->activation(*node);
      if (!op || DefOf(op->activation).limits == nullptr) return nullptr;
      const Limits limits = DefOf(op->activation).limits(op->alpha, op->beta);
      return limits.low == 0 && limits.high == 255 ? node->inputs[0] : nullptr;
    }
    if (const Tensor* t1 = Beside(to_.Maker(t, QNN_OP_ELEMENT_WISE_MINIMUM), 255))
      return Beside(to_.Maker(t1, QNN_OP_ELEMENT_WISE_MAXIMUM), 0);
    const Tensor* t2 = Beside(to_.Maker(t, QNN_OP_ELEMENT_WISE_MAXIMUM), 0);
    return Beside(to_.Maker(t2, QNN_OP_ELEMENT_WISE_MINIMUM), 255);
  }

  // `t`: the least (greatest) of all of x, and 0.
  const Node* Extreme(const Tensor* t, const char* with_zero, const char* reduce,
                      const Tensor* x) const {
    const Tensor* found = to_.Number(Beside(to_.Maker(t, with_zero), 0));
    const Node* node = to_.Maker(found, reduce);
    return node != nullptr && node->inputs[0] == x && found->elements() == 1 ? node : nullptr;
  }

  std::optional<Match> Find(size_t i) {
    const Node& cast = to_.node(i);
    if (cast.type != QNN_OP_CAST || cast.outputs[0]->dtype != QNN_DATATYPE_UINT_8)
      return std::nullopt;
    const Node* add = to_.Maker(Clamped(cast.inputs[0]), QNN_OP_ELEMENT_WISE_ADD);
    for (size_t side = 0; add != nullptr && side < 2; ++side) {
      const Node* round = to_.Maker(add->inputs[side], QNN_OP_ELEMENT_WISE_ROUND);
      const Node* ratio =
          round == nullptr ? nullptr : to_.Maker(round->inputs[0], QNN_OP_ELEMENT_WISE_DIVIDE);
      if (ratio == nullptr) continue;
      Match match{
          ratio->inputs[0], cast.outputs[0], to_.Number(ratio->inputs[1]), nullptr, 0, false};
      if (match.x->dtype != QNN_DATATYPE_FLOAT_32 || match.x->shape != match.codes->shape ||
          match.x->elements() == 0) {
        continue;
      }
      if (TakeScale(&match, to_.Number(add->inputs[1 - side]))) return match;
    }
    return std::nullopt;
  }

  bool TakeScale(Match* match, const Tensor* zero) const {
    const Node* scale = to_.Maker(match->scale, nullptr);
    const Tensor* span = nullptr;  // where it is 0 the scale is 1
    if (scale != nullptr && scale->type == QNN_OP_ELEMENT_WISE_SELECT &&
        IsNumber(scale->inputs[1], 1)) {
      span = Beside(to_.Maker(to_.Number(scale->inputs[0]), QNN_OP_ELEMENT_WISE_EQUAL), 0);
      if (span == nullptr) return false;
      match->one = true;
      scale = to_.Maker(to_.Number(scale->inputs[2]), nullptr);
    }
    if (scale == nullptr || scale->type != QNN_OP_ELEMENT_WISE_DIVIDE ||
        (match->one && to_.Number(span) != to_.Number(scale->inputs[0]))) {
      return false;
    }
    if (!IsNumber(scale->inputs[1], 255) || match->scale->shape != Shape{1}) return false;
    const Node* range = to_.Maker(to_.Number(scale->inputs[0]), QNN_OP_ELEMENT_WISE_SUBTRACT);
    if (range == nullptr) return false;
    const Tensor* most = to_.Number(range->inputs[0]);
    const Tensor* least = to_.Number(range->inputs[1]);
    const Node* max = Extreme(most, QNN_OP_ELEMENT_WISE_MAXIMUM, QNN_OP_REDUCE_MAX, match->x);
    const Node* min = Extreme(least, QNN_OP_ELEMENT_WISE_MINIMUM, QNN_OP_REDUCE_MIN, match->x);
    if (max == nullptr || min == nullptr) return false;
    match->first = std::min(to_.IndexOf(max->outputs[0]), to_.IndexOf(min->outputs[0]));

    const Node* real = to_.Maker(zero, QNN_OP_CAST);
    if (real == nullptr) return false;
    match->zero = to_.Number(real->inputs[0]);
    const Node* byte = to_.Maker(match->zero, QNN_OP_CAST);
    if (byte == nullptr || match->zero->dtype != QNN_DATATYPE_UINT_8) return false;
    const Node* round = to_.Maker(to_.Number(byte->inputs[0]), QNN_OP_ELEMENT_WISE_ROUND);
    if (round == nullptr) return false;
    const Tensor* inside = to_.Number(Clamped(to_.Number(round->inputs[0])));
    const Node* minus = to_.Maker(inside, QNN_OP_ELEMENT_WISE_SUBTRACT);
    if (minus == nullptr || !IsNumber(minus->inputs[0], 0)) return false;
    const Node* ratio = to_.Maker(to_.Number(minus->inputs[1]), QNN_OP_ELEMENT_WISE_DIVIDE);
    return ratio != nullptr && to_.Number(ratio->inputs[0]) == least &&
           to_.Number(ratio->inputs[1]) == match->scale;
  }

  // The same tensor, quantized once more.
  bool Reuse(const Match& match) {
    const auto found = made_.find(match.x);
    if (found == made_.end()) return false;
    const Match& first = found->second;
    if (first.one != match.one) return false;
    for (const Tensor* t : {match.codes, match.scale, match.zero}) {
      if (t->type != QNN_TENSOR_TYPE_NATIVE) return false;
    }
    to_.graph()->ReplaceUses(match.codes, first.codes);
    to_.graph()->ReplaceUses(match.scale, first.scale);
    to_.graph()->ReplaceUses(match.zero, first.zero);
    return true;
  }

  void Make(const Match& match, ZeroPoints* zeros) {
    Tensor* zero = to_.graph()->NewTensor(*match.zero);
    zero->name += ".int32";
    zero->dtype = QNN_DATATYPE_INT_32;
    zero->shape = {1};
    const size_t codes = to_.IndexOf(match.codes);
    Node node;
    node.name = to_.node(codes).name;
    node.package = to_.node(codes).package;
    node.type = kDynamicQuantize;
    node.inputs = {match.x};
    node.params = {{kOneOfZeros, match.one}};
    node.outputs = {match.codes, match.scale, zero};
    to_.Insert(match.first, std::move(node));
    to_.Drop(codes);
    to_.Drop(to_.IndexOf(match.scale));
    to_.node(to_.IndexOf(match.zero)).inputs = {zero};
    (*zeros)[match.zero] = zero;
    made_.emplace(match.x, match);
  }

  Rewriter to_;
  std::unordered_map<const Tensor*, Match> made_;
};

}  // namespace

Status FuseDynamic(NodeGraph* graph, int* changes) {
  ZeroPoints zeros;
  *changes += QuantizeFusion(graph).Run(&zeros);
  *changes += FuseIntegerProducts(graph, &zeros);
  return Status::Ok();
}

}  // namespace qnnrt
