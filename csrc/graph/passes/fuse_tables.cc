// Element-wise nodes on fixed-point numbers that together are a function of one 8-bit tensor become
// its table: Gelu, hard-swish or whatever a quantized model writes as arithmetic. Every value is
// computed by the nodes' own kernels, so results are the same to the bit.
#include <algorithm>
#include <cstring>

#include "abi/qnn_errors.h"
#include "graph/passes/node_graph.h"
#include "ops/elementwise/elementwise.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

constexpr size_t kMostNodes = 12, kLeastElements = 256;

bool IsByte(const Tensor& t) {
  return IsFixed(t.dtype) && ElementSize(t.dtype) == 1 && t.quantization.per_tensor();
}

bool IsElementWise(const Node& node) {
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || (def->flags & OpDef::kInPlace) == 0 || KeepsState(node)) return false;
  return node.type.compare(0, 11, "ElementWise") == 0 || def->activation != nullptr;
}

// Nodes that compute a result from one tensor, the last one first.
class Cone {
 public:
  Cone(const NodeGraph& graph, size_t last) : graph_(graph), result_(graph.nodes[last].outputs[0]) {
    fits_ = Take(last);
  }

  // The most nodes with one 8-bit source; none where there are fewer than two.
  std::vector<size_t> Largest(const Tensor** source) {
    std::vector<size_t> best;
    while (fits_) {
      if (nodes_.size() > 1 && open_.size() == 1 && IsByte(*open_[0]) && IsClosed()) {
        best = nodes_;
        *source = open_[0];
      }
      int next = -1;
      for (const Tensor* t : open_) next = std::max(next, graph_.Producer(t));
      fits_ = next >= 0 && nodes_.size() < kMostNodes && Take(static_cast<size_t>(next));
    }
    return best;
  }

 private:
  bool Take(size_t at) {
    const Node& node = graph_.nodes[at];
    if (!node.post_ops.empty() || node.outputs.size() != 1 || node.outputs[0] == nullptr ||
        !IsElementWise(node))
      return false;
    const Tensor& out = *node.outputs[0];
    if (!IsFixed(out.dtype) || !out.quantization.per_tensor() || out.shape != result_->shape)
      return false;
    std::vector<const Tensor*> open = open_;
    open.erase(std::remove(open.begin(), open.end(), &out), open.end());
    for (const Tensor* t : node.inputs) {
      if (t == nullptr) return false;
      if (t->is_static() && t->elements() == 1) continue;
      if (t->is_static() || !IsFixed(t->dtype) || !t->quantization.per_tensor() ||
          t->shape != result_->shape)
        return false;
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
  std::vector<size_t> nodes_;
  std::vector<const Tensor*> open_;  // what they read from outside
  bool fits_;
};

// What the nodes make of every byte of the source.
Result<std::shared_ptr<AlignedBytes>> TableOf(const NodeGraph& graph, const Tensor& source,
                                              const std::vector<size_t>& nodes,
                                              const Threads& threads) {
  std::vector<std::pair<const Tensor*, std::unique_ptr<Tensor>>> known;
  const auto add = [&](const Tensor* t, std::shared_ptr<AlignedBytes> data) {
    auto all = std::make_unique<Tensor>(*t);
    all->shape.assign(t->shape.size(), 1);  // of their rank: constants broadcast to it
    all->shape.back() = 256;
    all->type = data != nullptr ? QNN_TENSOR_TYPE_STATIC : QNN_TENSOR_TYPE_NATIVE;
    all->data = std::move(data);
    known.emplace_back(t, std::move(all));
    return known.back().second.get();
  };
  auto bytes = AlignedBytes::Make(256);
  if (bytes == nullptr) return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for a table");
  for (size_t i = 0; i < 256; ++i)
    static_cast<uint8_t*>(bytes->data())[i] = static_cast<uint8_t>(i);
  add(&source, bytes);
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

Status FuseTables(NodeGraph* graph, const Threads& threads, int* changes) {
  std::vector<bool> dead(graph->nodes.size(), false);
  // Backwards, so that what belongs to a larger function is not made a table before.
  for (size_t i = graph->nodes.size(); i-- > 0;) {
    const Node& last = graph->nodes[i];
    if (dead[i] || last.outputs.size() != 1 || last.outputs[0] == nullptr ||
        !IsByte(*last.outputs[0]) || last.outputs[0]->elements() < kLeastElements)
      continue;
    const Tensor* source = nullptr;
    const std::vector<size_t> nodes = Cone(*graph, i).Largest(&source);
    if (nodes.empty()) continue;
    QNNRT_ASSIGN_OR_RETURN(auto table, TableOf(*graph, *source, nodes, threads));
    Node fused;
    fused.name = last.name;
    fused.package = last.package;
    fused.type = kByteTable;
    fused.inputs = {source, graph->NewStatic(last.name + ".table", QNN_DATATYPE_UINT_8, {256},
                                             std::move(table))};
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
