// Which tensors of a graph share memory, and what its arena has to hold when.
#pragma once

#include <cstdint>
#include <optional>
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

// Where a tensor lies: at a byte of its root, the tensor whose memory it uses.
struct Place {
  const Tensor* root;
  uint64_t offset = 0;
  // Bytes: rows of `row`, each `pitch` behind the last. 0: the tensor is dense.
  uint64_t row = 0, pitch = 0;
};

// Decides which tensors share memory, then asks the planner for offsets. Graph inputs, outputs and
// static tensors are always their own roots. Knows nothing of kernels until PlanMemory: what it
// decides is theirs to go by.
class Layout {
 public:
  explicit Layout(const NodeGraph& graph);

  Place PlaceOf(const Tensor* tensor) const;
  const Tensor* Root(const Tensor* tensor) const { return PlaceOf(tensor).root; }
  // Whether no work is left for a node, since its outputs lie where its inputs do.
  bool NothingToDo(size_t node) const;
  // What its kernel has to know: Node::pitches and Node::in_place.
  void Tell(size_t index, Node* node) const;
  // Whether this root's memory is in the arena and nowhere else.
  bool InArena(const Tensor* root) const {
    return root->type == QNN_TENSOR_TYPE_NATIVE && !root->is_static();
  }

  // Adds a graph input or output to the arena: an input from the first step to its last
  // reader, an output from its producer to the last step. Before PlanMemory.
  void AddIo(const Tensor* tensor, uint64_t alignment);

  // A `known` plan, from a file, is verified and taken if it is valid; null: none. Else the planner
  // makes one within the budget. Kernels: one for each node.
  Result<ArenaPlan> PlanMemory(const std::vector<KernelPtr>& kernels, const ArenaPlan* known,
                               const ArenaBudget& budget);

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
  void Share(const Tensor* tensor, const Place& place);
  Life Joined(const Tensor* a, const Tensor* b) const;
  void ShareAliases();
  // New values of states are computed in the states' memory where no node reads the old value any
  // more: layout_states.cc.
  void ShareStates();
  bool ComputeIn(const Tensor* value, const Tensor* state);
  const Tensor* Overwritten(size_t index, size_t i);
  void ShareInPlace();
  // Outputs lie where what a post op adds to them does, where nobody reads that any more and the
  // kernel adds what is there: then it reads no such input. layout_sums.cc.
  void ShareSums();
  std::optional<size_t> OverwritableAddend(size_t index) const;
  void PartSums(const std::vector<KernelPtr>& kernels);
  // Inputs of a Concat are computed inside of its output, outputs of a Split lie inside of its
  // input, where producers and consumers take them so and the arena needs no more for it:
  // layout_parts.cc.
  void ShareParts();
  bool SharePart(size_t node, const Parts& parts, size_t part);
  bool AllTakePitch(const Tensor* part, uint64_t row) const;
  bool Affordable(const Tensor* part, const Tensor* whole);
  void FindTouched();
  // Post ops read their operand after the node has written: it must still be what it was.
  bool ReadByPostOp(const Node& node, const Tensor* root) const;
  void AddItem(const ArenaItem& item, const ArenaUse& use);

  // A port of a node.
  struct Use {
    size_t node;
    bool output;
    size_t port;
  };

  const NodeGraph& graph_;
  std::unordered_map<const Tensor*, Place> root_;           // of those that are not their own
  std::unordered_map<size_t, std::vector<bool>> in_place_;  // of nodes with parts
  std::unordered_map<size_t, size_t> sums_;  // of nodes that add in place: which input
  std::unordered_map<const Tensor*, std::vector<Use>> touched_;  // of a root: who uses its memory
  std::vector<uint64_t> alive_;                                  // bytes in the arena at each node
  uint64_t most_alive_ = 0;
  std::unordered_map<const Tensor*, Life> life_;
  std::unordered_map<const Tensor*, size_t> item_;
  std::vector<size_t> scratch_;
  std::vector<Io> io_;
  std::vector<ArenaItem> items_;
  std::vector<ArenaUse> uses_;
};

}  // namespace qnnrt
