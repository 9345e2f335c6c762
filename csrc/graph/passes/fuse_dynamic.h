// What the two halves of the pass have in common.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/passes/node_graph.h"

namespace qnnrt {

// A graph in which nodes are replaced; indices stay until Apply.
class Rewriter {
 public:
  explicit Rewriter(NodeGraph* graph)
      : graph_(graph), dead_(graph->nodes.size(), false), before_(graph->nodes.size()) {}

  size_t size() const { return dead_.size(); }
  NodeGraph* graph() { return graph_; }
  Node& node(size_t i) { return graph_->nodes[i]; }
  // The node of this type (null: of any) that writes a tensor; null: another one does, or it has
  // post ops.
  const Node* Maker(const Tensor* t, const char* type) const;
  // Where the node is that writes a tensor, which one does.
  size_t IndexOf(const Tensor* t) const { return static_cast<size_t>(graph_->Producer(t)); }
  // A tensor of one element as it was before it got another shape; others as they are.
  const Tensor* Number(const Tensor* t) const;

  void Drop(size_t i) { dead_[i] = true; }
  bool dropped(size_t i) const { return dead_[i]; }
  void Insert(size_t before, Node node) { before_[before].push_back(std::move(node)); }
  void Apply();

 private:
  NodeGraph* graph_;
  std::vector<bool> dead_;
  std::vector<std::vector<Node>> before_;
};

// A static float tensor that is this one number.
bool IsNumber(const Tensor* t, float value);
// The other input of a binary node, or null, of which one input is this number.
const Tensor* Beside(const Node* node, float number);

// A zero point -> the same as INT_32.
using ZeroPoints = std::unordered_map<const Tensor*, const Tensor*>;

// Returns how many products it found.
int FuseIntegerProducts(NodeGraph* graph, ZeroPoints* zeros);

}  // namespace qnnrt
