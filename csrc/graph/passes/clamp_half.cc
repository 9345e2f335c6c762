// What FLOAT_16 cannot hold becomes its largest number: a clamp in FLOAT_32 before each result is
// rounded. Then no infinity comes about but those that the client's own tensors bring.
#include <cmath>

#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/op.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr float kLargest = 65504;

bool IsHalf(const Tensor* t) { return t != nullptr && t->dtype == QNN_DATATYPE_FLOAT_16; }

// What an op only moves was clamped where it was computed.
bool Computes(const Node& node) {
  return (FindOp(node.type)->flags & (OpDef::kMoves | OpDef::kAlias)) == 0;
}

bool TakesClamp(const Node& node) {
  return (FindOp(node.type)->flags & OpDef::kPostOps) != 0 && node.outputs.size() == 1 &&
         node.post_ops.size() < kMostPostOps;
}

Node ClampNode(const std::string& name, const Tensor* from, const Tensor* to) {
  Node clamp;
  clamp.name = name + ", clamped";
  clamp.package = "qti.aisw";
  clamp.type = QNN_OP_RELU_MIN_MAX;
  clamp.inputs = {from};
  clamp.outputs = {to};
  clamp.params = {{"min_value", double{-kLargest}}, {"max_value", double{kLargest}}};
  return clamp;
}

// A constant that a pass rounded to FLOAT_16.
Status ClampConstant(Tensor* tensor, int* changes) {
  std::vector<float> values = StaticFloats(*tensor);
  bool beyond = false;
  for (float& value : values) {
    if (!std::isinf(value)) continue;
    value = std::copysign(kLargest, value);
    beyond = true;
  }
  if (!beyond) return Status::Ok();
  auto data = AlignedBytes::Make(tensor->bytes());
  if (data == nullptr) return OutOfMemory();
  FloatToHalf(values.data(), static_cast<uint16_t*>(data->data()), values.size());
  tensor->data = std::move(data);
  ++*changes;
  return Status::Ok();
}

}  // namespace

Status ClampHalf(NodeGraph* graph, int* changes) {
  for (const auto& tensor : graph->owned) {
    if (IsHalf(tensor.get()) && tensor->is_static())
      QNNRT_RETURN_IF_ERROR(ClampConstant(tensor.get(), changes));
  }
  std::vector<Node> nodes = std::move(graph->nodes);
  graph->nodes.clear();
  for (Node& node : nodes) {
    std::vector<Node> after;
    for (const Tensor*& out : node.outputs) {
      if (!IsHalf(out) || !Computes(node)) continue;
      ++*changes;
      if (TakesClamp(node)) {
        node.post_ops.push_back(
            {PostOp::Kind::kActivation, Activation::kReluMinMax, -kLargest, kLargest});
        continue;
      }
      Tensor* wide = graph->NewTensor(*out);
      wide->dtype = QNN_DATATYPE_FLOAT_32;
      after.push_back(ClampNode(node.name, wide, out));
      out = wide;
    }
    graph->nodes.push_back(std::move(node));
    for (Node& clamp : after) graph->nodes.push_back(std::move(clamp));
  }
  graph->Index();
  return Status::Ok();
}

}  // namespace qnnrt
