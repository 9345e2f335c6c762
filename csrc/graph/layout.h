// Which tensors of a graph share memory, and what its arena has to hold when.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graph/passes/node_graph.h"
#include "graph/planner/planner.h"
#include "ops/op.h"

namespace qnnrt {

// Whether the node's output is its input under another shape, so that no work is left when the two
// share memory.
bool IsAlias(const Node& node);

// Who an item of the arena is for.
struct ArenaUse {
  const Tensor* tensor;  // null: scratch of a kernel
  size_t node;           // in the graph: of that kernel; the tensor's producer (a graph input: 0)
  std::vector<const Tensor*> shared{};  // other tensors whose memory this is
};

// Decides which tensors share memory, then asks the planner for offsets. A tensor's root is the
// tensor whose memory it uses; graph inputs, outputs and static ones are always their own
// roots.
class Layout {
 public:
  Layout(const NodeGraph& graph, const std::vector<KernelPtr>& kernels);

  const Tensor* Root(const Tensor* tensor) const;
  // Whether this root's memory is in the arena and nowhere else.
  bool InArena(const Tensor* root) const {
    return root->type == QNN_TENSOR_TYPE_NATIVE && !root->is_static();
  }

  // Adds a graph input or output to the arena: an input from the first step to its last
  // reader, an output from its producer to the last step. Before PlanMemory.
  void AddIo(const Tensor* tensor, uint64_t alignment);

  // A `known` plan, from a file, is verified and taken if it is valid; null: none. Else the planner
  // makes one within the budget.
  Result<ArenaPlan> PlanMemory(const ArenaPlan* known, const ArenaBudget& budget);

  // Their numbers in the plan, after PlanMemory: those of inputs and outputs come last.
  size_t Item(const Tensor* root) const { return item_.at(root); }
  size_t ScratchItem(size_t step) const { return scratch_[step]; }
  const std::vector<ArenaItem>& items() const { return items_; }
  const std::vector<ArenaUse>& uses() const { return uses_; }  // one for each item

 private:
  static constexpr int kNever = -1;
  struct Life {
    int first = kNever, last = kNever;
  };
  struct Io {
    const Tensor* tensor;
    uint64_t alignment;
  };

  void Lifetimes();
  // `tensor` uses `root`'s memory from here on, whose lifetime becomes that of both.
  void Share(const Tensor* tensor, const Tensor* root);
  void ShareAliases();
  void ShareInPlace();
  // Post ops read their operand after the node has written: it must still be what it was.
  bool ReadByPostOp(const Node& node, const Tensor* root) const;
  void AddItem(const ArenaItem& item, const ArenaUse& use);

  const NodeGraph& graph_;
  const std::vector<KernelPtr>& kernels_;
  std::unordered_map<const Tensor*, const Tensor*> root_;
  std::unordered_map<const Tensor*, Life> life_;
  std::unordered_map<const Tensor*, size_t> item_;
  std::vector<size_t> scratch_;
  std::vector<Io> io_;
  std::vector<ArenaItem> items_;
  std::vector<ArenaUse> uses_;
};

}  // namespace qnnrt
