// Conversions between encodings that change no value: of equal encodings, of two in a row what one
// does, and limits that no code of a fixed-point number reaches.
#include <algorithm>
#include <optional>

#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/elementwise/activation.h"
#include "ops/fixed/requantize.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

bool IsNarrow(const Tensor& t) {  // few enough codes to try all of them
  return (TypeBit(t.dtype) & (types::kFixed8 | types::kFixed16)) != 0 && OneScale(t.quantization);
}

std::optional<Limits> LimitsOf(const Node& node) {
  const OpDef* def = FindOp(node.type);
  const std::optional<PostOp> op =
      def == nullptr || def->activation == nullptr ? std::nullopt : def->activation(node);
  if (!op || DefOf(op->activation).limits == nullptr) return std::nullopt;
  return DefOf(op->activation).limits(op->alpha, op->beta);
}

// The least and the greatest code stay what they are, so all between them do.
bool LimitsNothing(const Tensor& tensor, const Limits& limits) {
  const Quantization& q = tensor.quantization;
  const FixedRange range = RangeOf(tensor.dtype, q.bitwidth);
  const Codec codec(tensor);
  for (const int64_t code : {range.low, range.high}) {
    // Its bytes are those of the integer: no fixed-point type has more than four.
    const int32_t before = static_cast<int32_t>(code);
    int32_t after = 0;
    float value;
    codec.Read(&before, 0, 1, &value);
    value = std::min(std::max(value, limits.low), limits.high);
    codec.Write(&value, &after, 0, 1);
    const size_t bits = 8 * ElementSize(tensor.dtype);
    if (((static_cast<uint32_t>(before) ^ static_cast<uint32_t>(after)) &
         static_cast<uint32_t>((uint64_t{1} << bits) - 1)) != 0) {
      return false;
    }
  }
  return true;
}

bool ChangesNothing(const Node& node) {
  if (!node.post_ops.empty() || node.inputs.empty() || node.inputs[0] == nullptr) return false;
  const Tensor &in = *node.inputs[0], &out = *node.outputs[0];
  if (in.shape != out.shape || !IsFixed(in.dtype) || !SameEncoding(in, out)) return false;
  if (node.type == QNN_OP_CONVERT) return true;
  const std::optional<Limits> limits = LimitsOf(node);
  return limits && IsNarrow(in) && LimitsNothing(in, *limits);
}

// Whether every code of `a` gets to the same code of `c` with and without `b` between them.
bool SameWithout(const Tensor& a, const Tensor& b, const Tensor& c) {
  const FixedRange range = RangeOf(a.dtype, a.quantization.bitwidth);
  const size_t count = static_cast<size_t>(range.high - range.low + 1);
  std::vector<uint16_t> codes(count), middle(count), twice(count, 0), once(count, 0);
  for (size_t i = 0; i < count; ++i) {
    const uint16_t code = static_cast<uint16_t>(range.low + static_cast<int64_t>(i));
    if (ElementSize(a.dtype) == 1) {
      reinterpret_cast<uint8_t*>(codes.data())[i] = static_cast<uint8_t>(code);
    } else {
      codes[i] = code;
    }
  }
  Requantizer(a, b).Run(codes.data(), middle.data(), 0, count);
  Requantizer(b, c).Run(middle.data(), twice.data(), 0, count);
  Requantizer(a, c).Run(codes.data(), once.data(), 0, count);
  return once == twice;
}

bool Converts(const Node& node, const char* other) {
  return node.post_ops.empty() && (node.type == QNN_OP_CONVERT || node.type == other);
}

// `node` converts what `before` converted: whether one conversion gives the same.
bool Merges(const Node& before, const Node& node) {
  if (!Converts(before, QNN_OP_DEQUANTIZE) || !Converts(node, QNN_OP_QUANTIZE)) return false;
  const Tensor &a = *before.inputs[0], &b = *node.inputs[0], &c = *node.outputs[0];
  if (a.shape != c.shape || !IsFixed(a.dtype) || !IsFixed(c.dtype)) return false;
  if (b.dtype == QNN_DATATYPE_FLOAT_32) return true;  // what a conversion does inside
  return IsNarrow(a) && IsNarrow(b) && IsNarrow(c) && SameWithout(a, b, c);
}

}  // namespace

Status MergeConversions(NodeGraph* graph, int* changes) {
  for (Node& node : graph->nodes) {
    if (node.inputs.empty()) continue;
    // Read past the producer: it stays for its other readers, or dies for want of them.
    for (int at; (at = graph->Producer(node.inputs[0])) >= 0; ++*changes) {
      const Node& before = graph->nodes[static_cast<size_t>(at)];
      if (!Merges(before, node)) break;
      node.inputs[0] = before.inputs[0];
      node.type = QNN_OP_CONVERT;
      node.params.clear();
      CompleteParams(&node);
    }
  }
  graph->Index();
  for (const Node& node : graph->nodes) {
    if (node.outputs.empty() || node.outputs[0] == nullptr) continue;
    const Tensor* result = node.outputs[0];
    if (result->type != QNN_TENSOR_TYPE_NATIVE || graph->Uses(result) == 0) continue;
    if (!ChangesNothing(node)) continue;
    const Tensor* from = node.inputs[0];
    graph->ReplaceUses(result, from);
    ++*changes;
  }
  graph->Index();
  int removed = 0;
  return RemoveDeadNodes(graph, &removed);
}

}  // namespace qnnrt
