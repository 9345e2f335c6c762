// States, which a graph reads and writes: nodes that read the old value come before those that
// overwrite it, and the new value is stored at the end where it does not lie there already.
#include <algorithm>
#include <queue>

#include "abi/qnn_op_names.h"
#include "graph/layout.h"
#include "graph/passes/node_graph.h"
#include "ops/encoding.h"

namespace qnnrt {
namespace {

// A node that writes where one of its inputs lies.
struct Writer {
  size_t node;
  const Tensor* over;
};

class Order {
 public:
  explicit Order(const NodeGraph& graph)
      : graph_(graph), before_(graph.nodes.size()), readers_(Readers()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const Tensor* t : graph.nodes[i].inputs) {
        if (const int at = graph.Producer(t); at >= 0)
          before_[static_cast<size_t>(at)].push_back(i);
      }
    }
  }

  // Readers of a state's old values before the nodes that write over them, unless those wait for
  // one of these.
  void Add(const Tensor* state, const Tensor* value) {
    std::vector<Writer> writers;
    std::unordered_set<const Tensor*> seen;
    if (!Updates(value, state, &seen, &writers)) {
      const int at = graph_.Producer(Source(value));
      if (at < 0) return;
      writers = {{static_cast<size_t>(at), state}};
    }
    std::vector<std::pair<size_t, size_t>> edges;
    for (const Writer& writer : writers) {
      const std::vector<bool> later = After(writer.node);
      for (size_t reader : ReadersOf(Source(writer.over))) {
        if (reader == writer.node) continue;
        if (later[reader] || IsStore(reader)) return;
        edges.emplace_back(reader, writer.node);
      }
    }
    for (const auto& [reader, writer] : edges) before_[reader].push_back(writer);
  }

  // The nodes' order, the one there is where that holds.
  std::vector<size_t> Sorted() const {
    std::vector<size_t> missing(before_.size(), 0), order;
    for (const auto& after : before_) {
      for (size_t node : after) ++missing[node];
    }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < missing.size(); ++i) {
      if (missing[i] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const size_t node = ready.top();
      ready.pop();
      order.push_back(node);
      for (size_t next : before_[node]) {
        if (--missing[next] == 0) ready.push(next);
      }
    }
    return order;
  }

 private:
  std::unordered_map<const Tensor*, std::vector<size_t>> Readers() const {
    std::unordered_map<const Tensor*, std::vector<size_t>> readers;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const Tensor* t : graph_.nodes[i].inputs) {
        if (t != nullptr) readers[t].push_back(i);
      }
    }
    return readers;
  }

  bool IsStore(size_t node) const {
    const auto& outputs = graph_.nodes[node].outputs;
    return !outputs.empty() && outputs[0] != nullptr && outputs[0]->updates != nullptr;
  }

  // What a tensor is another shape of.
  const Tensor* Source(const Tensor* tensor) const {
    for (int at = graph_.Producer(tensor); at >= 0; at = graph_.Producer(tensor)) {
      const Node& node = graph_.nodes[static_cast<size_t>(at)];
      if (!IsAlias(node)) break;
      tensor = node.inputs[0];
    }
    return tensor;
  }

  // The nodes that make `value` of `state` by writing over it, the last one last.
  bool Updates(const Tensor* value, const Tensor* state, std::unordered_set<const Tensor*>* seen,
               std::vector<Writer>* writers) const {
    value = Source(value);
    if (value == state) return true;
    const int at = graph_.Producer(value);
    if (at < 0 || !seen->insert(value).second) return false;
    const Node& node = graph_.nodes[static_cast<size_t>(at)];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == nullptr || !MayOverwrite(node, i)) continue;
      if (!Updates(node.inputs[i], state, seen, writers)) continue;
      writers->push_back({static_cast<size_t>(at), node.inputs[i]});
      return true;
    }
    return false;
  }

  // Of a tensor under all of its shapes. An alias that is another state's new value copies it.
  std::vector<size_t> ReadersOf(const Tensor* tensor) const {
    std::vector<size_t> all;
    const auto found = readers_.find(tensor);
    if (found == readers_.end()) return all;
    for (size_t reader : found->second) {
      all.push_back(reader);
      const Node& node = graph_.nodes[reader];
      if (!IsAlias(node) || IsStore(reader)) continue;
      for (size_t further : ReadersOf(node.outputs[0])) {
        if (!IsStore(further)) all.push_back(further);
      }
    }
    return all;
  }

  std::vector<bool> After(size_t node) const {
    std::vector<bool> after(before_.size(), false);
    std::vector<size_t> left = {node};
    while (!left.empty()) {
      const size_t at = left.back();
      left.pop_back();
      for (size_t next : before_[at]) {
        if (!after[next]) left.push_back(next);
        after[next] = true;
      }
    }
    return after;
  }

  const NodeGraph& graph_;
  std::vector<std::vector<size_t>> before_;  // of each node: those that come after it
  const std::unordered_map<const Tensor*, std::vector<size_t>> readers_;
};

}  // namespace

bool MayOverwrite(const Node& node, size_t i) {
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || node.outputs.size() != 1 || node.outputs[0] == nullptr) return false;
  const Tensor &in = *node.inputs[i], &out = *node.outputs[0];
  // Elements of another size would be overwritten before they are read.
  if (in.bytes() != out.bytes() || in.elements() != out.elements()) return false;
  if ((def->flags & OpDef::kInPlace) != 0) return true;
  if ((def->flags & OpDef::kUpdates) == 0 || i != 0 || !SameStored(in, out)) return false;
  for (size_t j = 1; j < node.inputs.size(); ++j) {
    const Tensor* other = node.inputs[j];
    if (other == &in) return false;
    // A conversion on the way would be one of all elements.
    if (other != nullptr && IsFixed(other->dtype) && !SameEncoding(*other, out)) return false;
  }
  return true;
}

int OrderStates(NodeGraph* graph, const std::vector<const Tensor*>& outputs) {
  std::vector<std::pair<const Tensor*, const Tensor*>> states;  // and their new values
  for (const Tensor* stored : outputs) {
    if (stored->updates == nullptr) continue;
    Tensor* value = graph->NewTensor(*stored);
    for (Node& node : graph->nodes) {
      for (auto* ports : {&node.inputs, &node.outputs})
        std::replace(ports->begin(), ports->end(), stored, static_cast<const Tensor*>(value));
    }
    states.emplace_back(stored->updates, value);
  }
  if (states.empty()) return 0;
  size_t next = 0;
  for (const Tensor* stored : outputs) {
    if (stored->updates == nullptr) continue;
    Node store;
    store.name = stored->name + ":store";
    store.package = QNN_OP_PACKAGE_NAME_QTI_AISW;
    store.type = QNN_OP_RESHAPE;
    store.inputs = {states[next++].second};
    store.outputs = {stored};
    graph->nodes.push_back(std::move(store));
  }
  graph->Index();
  Order order(*graph);
  for (const auto& [state, value] : states) order.Add(state, value);
  std::vector<Node> sorted;
  sorted.reserve(graph->nodes.size());
  for (size_t i : order.Sorted()) sorted.push_back(std::move(graph->nodes[i]));
  graph->nodes = std::move(sorted);
  graph->Index();
  return static_cast<int>(states.size());
}

}  // namespace qnnrt
