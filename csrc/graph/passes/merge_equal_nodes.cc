// Of nodes that compute the same from the same, the first one: exporters write out in every layer
// of a network what depends on positions or a mask alone.
#include <unordered_map>

#include "graph/node_text.h"
#include "graph/passes/node_graph.h"
#include "ops/op.h"
#include "support/pointer_map.h"

namespace qnnrt {
namespace {

// What a node computes: equal for two that give the same results.
std::string TextOf(const Node& node, const Threads& threads) {
  ByteWriter out;
  const auto type = [&](const Tensor& tensor) {
    PutElements(tensor, &out);
    PutShape(tensor, &out);
  };
  const auto constant = [&](const Tensor& tensor) {
    type(tensor);
    PutData(tensor, threads, &out);
  };
  PutOp(node, constant, &out);
  out.Put(static_cast<uint32_t>(node.inputs.size()));
  for (const Tensor* tensor : node.inputs) {
    const bool known = tensor != nullptr && tensor->is_static() && tensor->data->there();
    out.Put(static_cast<uint8_t>(known));
    if (known) {
      constant(*tensor);
    } else {
      out.Put(reinterpret_cast<uintptr_t>(tensor));
    }
  }
  for (const Tensor* tensor : node.outputs) {
    out.Put(static_cast<uint8_t>(tensor != nullptr));
    if (tensor != nullptr) type(*tensor);
  }
  for (const PostOp& op : node.post_ops) {
    out.Put(static_cast<uint8_t>(op.kind));
    out.Put(static_cast<uint8_t>(op.activation));
    out.Put(op.alpha);
    out.Put(op.beta);
    out.Put(op.input);
  }
  const std::vector<uint8_t> bytes = out.Take();
  return {bytes.begin(), bytes.end()};
}

// Not those whose results a client sees, nor what depends on more than a node's inputs.
bool MayGo(const NodeGraph& graph, size_t at, const std::unordered_set<const Tensor*>& kept) {
  const Node& node = graph.nodes[at];
  if (node.package_op != nullptr || node.inputs.empty() || KeepsState(node)) return false;
  for (const Tensor* t : node.outputs) {
    if (t == nullptr) continue;
    if (t->type != QNN_TENSOR_TYPE_NATIVE || graph.Producer(t) != static_cast<int>(at) ||
        kept.count(t) != 0)
      return false;
  }
  return true;
}

}  // namespace

Status MergeEqualNodes(NodeGraph* graph, const Threads& threads, const KeptFloats* kept,
                       int* changes) {
  std::unordered_set<const Tensor*> floats;  // that stay FLOAT_32
  if (kept != nullptr) floats.insert(kept->tensors.begin(), kept->tensors.end());
  std::unordered_map<std::string, size_t> first;
  PointerMap<const Tensor*> instead;  // of results of nodes that go
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    Node& node = graph->nodes[i];
    for (const Tensor*& t : node.inputs) {
      if (const Tensor* const* found = instead.Find(t)) t = *found;
    }
    if (!MayGo(*graph, i, floats)) continue;
    const auto [same, is_first] = first.emplace(TextOf(node, threads), i);
    if (is_first) continue;
    const std::vector<const Tensor*>& results = graph->nodes[same->second].outputs;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] != nullptr) instead[node.outputs[o]] = results[o];
    }
    dead[i] = true;
    ++*changes;
  }
  if (*changes > 0) graph->Erase(dead);
  return Status::Ok();
}

}  // namespace qnnrt
