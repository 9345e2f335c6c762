// Element-wise nodes that together make fixed-point numbers of 8 or 16 bits of one tensor of such
// numbers become its table: Gelu, hard-swish or whatever a quantized model writes as arithmetic, in
// fixed point or in float between a Dequantize and a Quantize. Every value is computed by the
// nodes' own kernels, so results are the same to the bit. Floats that are to be stored in 16 bits
// are left to nodes, which round them.
#include <algorithm>
#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "graph/passes/node_graph.h"
#include "ops/elementwise/elementwise.h"
#include "ops/lookup.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

// An erf that is written as arithmetic takes 13.
constexpr size_t kMostTableNodes = 40;

bool IsCode(const Tensor& t) {
  return IsFixed(t.dtype) && ElementSize(t.dtype) <= 2 && t.quantization.per_tensor();
}

// How many values an element has.
size_t Codes(const Tensor& t) { return ElementSize(t.dtype) == 1 ? 256 : kWords; }

// A table of words takes two runs of the nodes to fill.
bool IsWorthATable(const Tensor& source) {
  return source.elements() >= Codes(source) / (ElementSize(source.dtype) == 1 ? 1 : 2);
}

bool IsElementWise(const Node& node) {
  if (node.type == QNN_OP_DEQUANTIZE || node.type == QNN_OP_QUANTIZE) return true;
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || (def->flags & OpDef::kInPlace) == 0 || KeepsState(node)) return false;
  return node.type.compare(0, 11, "ElementWise") == 0 || def->activation != nullptr;
}

// Nodes that compute a result from one tensor, the last one first.
class TableCone {
 public:
  TableCone(const NodeGraph& graph, size_t last, bool floats)
      : graph_(graph), result_(graph.nodes[last].outputs[0]), floats_(floats) {
    fits_ = Take(last);
  }

  // The most nodes with one source of 8 or 16 bits; none where there are fewer than two.
  std::vector<size_t> Largest(const Tensor** source) {
    std::vector<size_t> best;
    while (fits_) {
      if (nodes_.size() > 1 && open_.size() == 1 && IsCode(*open_[0]) && IsWorthATable(*open_[0]) &&
          IsClosed()) {
        best = nodes_;
        *source = open_[0];
      }
      int next = -1;
      for (const Tensor* t : open_) next = std::max(next, graph_.Producer(t));
      fits_ = next >= 0 && nodes_.size() < kMostTableNodes && Take(static_cast<size_t>(next));
    }
    return best;
  }

 private:
  // What nodes may hand to each other.
  bool MayLieBetween(const Tensor& t) const {
    if (IsFixed(t.dtype)) return t.quantization.per_tensor();
    return t.dtype == QNN_DATATYPE_BOOL_8 || (floats_ && t.dtype == QNN_DATATYPE_FLOAT_32);
  }

  bool Take(size_t at) {
    const Node& node = graph_.nodes[at];
    if (!node.post_ops.empty() || node.outputs.size() != 1 || node.outputs[0] == nullptr ||
        !IsElementWise(node))
      return false;
    const Tensor& out = *node.outputs[0];
    if (!MayLieBetween(out) || out.shape != result_->shape) return false;
    std::vector<const Tensor*> open = open_;
    open.erase(std::remove(open.begin(), open.end(), &out), open.end());
    for (const Tensor* t : node.inputs) {
      if (t == nullptr) return false;
      if (t->is_static() && t->elements() == 1) continue;
      if (t->is_static() || !MayLieBetween(*t) || t->shape != result_->shape) return false;
      if (std::find(open.begin(), open.end(), t) == open.end()) open.push_back(t);
    }
    open_ = std::move(open);
    nodes_.push_back(at);
    return true;
  }

  // Nothing outside needs what lies between the source and the result.
  bool IsClosed() const {
    for (size_t at : nodes_) {
      const Tensor* out = graph_.nodes[at].outputs[0];
      if (out == result_) continue;
      int reads = 0;
      for (size_t reader : nodes_) {
        const auto& inputs = graph_.nodes[reader].inputs;
        reads += static_cast<int>(std::count(inputs.begin(), inputs.end(), out));
      }
      if (out->type != QNN_TENSOR_TYPE_NATIVE || graph_.Uses(out) != reads) return false;
    }
    return true;
  }

  const NodeGraph& graph_;
  const Tensor* const result_;
  const bool floats_;  // may be among them
  std::vector<size_t> nodes_;
  std::vector<const Tensor*> open_;  // what they read from outside
  bool fits_;
};

// What the nodes make of every value of the source.
Result<std::shared_ptr<AlignedBytes>> TableOf(const NodeGraph& graph, const Tensor& source,
                                              const std::vector<size_t>& nodes,
                                              const Threads& threads) {
  const size_t codes = Codes(source);
  std::vector<std::pair<const Tensor*, std::unique_ptr<Tensor>>> known;
  const auto add = [&](const Tensor* t, std::shared_ptr<AlignedBytes> data) {
    auto all = std::make_unique<Tensor>(*t);
    all->shape.assign(t->shape.size(), 1);  // of their rank: constants broadcast to it
    all->shape.back() = static_cast<uint32_t>(codes);
    all->type = data != nullptr ? QNN_TENSOR_TYPE_STATIC : QNN_TENSOR_TYPE_NATIVE;
    all->data = std::move(data);
    known.emplace_back(t, std::move(all));
    return known.back().second.get();
  };
  auto every = AlignedBytes::Make(codes * ElementSize(source.dtype));
  if (every == nullptr) return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for a table");
  for (size_t i = 0; i < codes; ++i) {
    if (codes == 256) {
      static_cast<uint8_t*>(every->data())[i] = static_cast<uint8_t>(i);
    } else {
      static_cast<uint16_t*>(every->data())[i] = static_cast<uint16_t>(i);
    }
  }
  add(&source, std::move(every));
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    Node node = graph.nodes[*at];
    for (const Tensor*& t : node.inputs) {
      for (const auto& [tensor, all] : known) {
        if (tensor == t) t = all.get();
      }
    }
    Tensor* out = add(node.outputs[0], nullptr);
    node.outputs[0] = out;
    std::vector<std::shared_ptr<AlignedBytes>> results;
    QNNRT_RETURN_IF_ERROR(EvaluateNode(node, threads, &results));
    out->type = QNN_TENSOR_TYPE_STATIC;
    out->data = results[0];
  }
  return known.back().second->data;
}

}  // namespace

Status FuseTables(NodeGraph* graph, const Threads& threads, const FloatStorage& floats,
                  int* changes) {
  const bool whole = floats.type == QNN_DATATYPE_FLOAT_32;
  std::vector<bool> dead(graph->nodes.size(), false);
  // Backwards, so that what belongs to a larger function is not made a table before.
  for (size_t i = graph->nodes.size(); i-- > 0;) {
    const Node& last = graph->nodes[i];
    if (dead[i] || last.outputs.size() != 1 || last.outputs[0] == nullptr ||
        !IsCode(*last.outputs[0]))
      continue;
    const Tensor* source = nullptr;
    const std::vector<size_t> nodes = TableCone(*graph, i, whole).Largest(&source);
    if (nodes.empty()) continue;
    QNNRT_ASSIGN_OR_RETURN(auto table, TableOf(*graph, *source, nodes, threads));
    Node fused;
    fused.name = last.name;
    fused.package = last.package;
    fused.type = kTable;
    const bool bytes = ElementSize(last.outputs[0]->dtype) == 1;
    fused.inputs = {
        source,
        graph->NewStatic(last.name + ".table", bytes ? QNN_DATATYPE_UINT_8 : QNN_DATATYPE_UINT_16,
                         {static_cast<uint32_t>(Codes(*source))}, std::move(table))};
    fused.outputs = last.outputs;
    for (size_t at : nodes) dead[at] = at != i;
    for (size_t at : nodes) graph->nodes[at] = Node{};
    graph->nodes[i] = std::move(fused);
    ++*changes;
  }
  graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
