// The executable form of a graph: kernels, one arena, and a flat array of steps whose pointers are
// final but for those of the app tensors.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/early_termination.h"
#include "graph/layout.h"
#include "graph/passes/node_graph.h"
#include "graph/planner/planner.h"
#include "graph/weights.h"
#include "ops/op.h"
#include "support/fair_mutex.h"
#include "support/interrupt.h"

namespace qnnrt {

class JsonWriter;

struct Step {
  Kernel* kernel;
  const void* const* in;
  void* const* out;
  void* scratch;
  void* persistent;  // null: the kernel keeps no state
};

// Client memory in which several graphs have their arenas; one of them executes at a time.
struct SharedArena {
  uint8_t* data = nullptr;
  uint64_t size = 0;
  std::shared_ptr<const void> owner;
  std::shared_ptr<FairMutex> mutex;  // held while a graph executes; one for that memory
};

// CRC-32C by several threads, of the copy when there is one to make.
uint32_t Checksum(const uint8_t* data, uint64_t size, const Threads& threads,
                  uint8_t* copy = nullptr);

// Weights that were mapped and not read yet: compared with their checksum before the first run.
struct WeightCheck {
  const uint8_t* data = nullptr;
  uint64_t size = 0;
  uint32_t checksum = 0;
  std::string graph;
  // Errors: 5005, says which graph and what to do.
  Status Check(const Threads& threads) const;
  Status Compare(uint32_t sum) const;
};

// The part of a context binary's weights that several of its graphs read: one for all of those that
// are made together. Thread safe.
class CommonWeights {
 public:
  // `check`: what it is, and its checksum; `owner` null: the client keeps it.
  CommonWeights(WeightCheck check, bool checked, std::shared_ptr<const void> owner)
      : check_(std::move(check)), owner_(std::move(owner)), checked_(checked) {}
  uint64_t size() const { return check_.size; }
  // `size` bytes of it, the same object for all graphs. Null: no memory. They have to lie inside.
  std::shared_ptr<AlignedBytes> At(uint64_t offset, uint64_t size);
  // Once.
  Status Check(const Threads& threads);

 private:
  const WeightCheck check_;
  const std::shared_ptr<const void> owner_;
  std::mutex mutex_;
  bool checked_;
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<AlignedBytes>> bytes_;
};

// Bytes of this machine's memory: no plan takes more.
uint64_t PhysicalMemory();

struct PlanOptions {
  KernelOptions kernels;                   // `weights` is set by the plan
  ShareScope scope;                        // in which constants and packed weights are shared
  WeightReader* packed = nullptr;          // weights that were packed before; null: pack them
  std::optional<WeightCheck> check;        // of those weights
  std::shared_ptr<CommonWeights> common;   // of those weights, where check says to compare them
  std::shared_ptr<const void> owner;       // of those weights; null: the client keeps them
  bool weights_counted = false;            // in a buffer that counts as such
  std::shared_ptr<SharedArena> arena;      // null: an arena of its own
  uint64_t most_bytes = PhysicalMemory();  // of the arena
  bool client_memory = false;  // arena and state are the client's: SetArenaBase, SetPersistentBase
  // Graph inputs and outputs are allocated in the arena with this alignment; 0: in client memory.
  uint64_t io_alignment = 0;
  // The arena plan of a context binary: used if it is valid, else planned anew.
  const ArenaPlan* known_plan = nullptr;
  // Constants of the client to free once they are packed, as those that passes made are.
  const std::vector<Tensor*>* release = nullptr;
  // Constants that nodes read stay beside their packed forms where they take no more than this.
  uint64_t keep_at_most = 0;
  uint32_t plan_milliseconds = 0;  // for a search where the planner finds no smallest arena at once
};

class FreedBlocks;

class Plan {
 public:
  ~Plan();
  // Chooses kernels, plans memory and lays out the steps. `inputs` and `outputs` are the app
  // tensors in the client's order; static data that no kernel reads is released.
  // Errors: 6022 no kernel, 1002 no memory, 1008 the weights given were packed for other kernels,
  // 5005 data that a kernel reads is not among them.
  static Result<std::unique_ptr<Plan>> Make(NodeGraph graph,
                                            const std::vector<const Tensor*>& inputs,
                                            const std::vector<const Tensor*>& outputs,
                                            const PlanOptions& options);

  // Points the steps at an app tensor's memory: input i, or output i - inputs.size().
  void Bind(size_t app_tensor, void* address) {
    for (const Slot& slot : patches_[app_tensor])
      *slot.pointer = static_cast<char*>(address) + slot.offset;
  }

  // Whether results stay right where this input and this output (an app tensor, too) have memory in
  // common: no step reads the input once the output is begun, but, at the very `same` bytes, the
  // one that writes the output and may write over what it reads.
  bool MayShare(size_t input, size_t output, bool same) const;

  // Sets the memory of a plan that has none of its own: arena().peak bytes on a boundary
  // of 64 (and of io_alignment), and persistent_bytes() on one of 64. Allocates nothing. Not while
  // the plan runs.
  void SetArenaBase(void* base);
  void SetPersistentBase(void* base);
  // Where an app tensor lies in the arena, with io_alignment.
  uint64_t IoOffset(size_t app_tensor) const { return arena_plan_.offsets[io_items_[app_tensor]]; }
  void* IoAddress(size_t app_tensor) const { return arena_base_ + IoOffset(app_tensor); }

  Status Run() {
    if (guarded_) return RunWatched(nullptr, nullptr);
    const Executing executing;
    for (const Step& step : steps_) {
      Status status =
          step.kernel->Run({step.in, step.out, step.scratch, threads_, step.persistent});
      if (!status.ok()) return Stopped(step, std::move(status));
    }
    return Status::Ok();
  }
  // The same, with the time of each step in nanoseconds (times has room for steps().size(), or is
  // null), and stopping before a step when the interrupt (which may be null) says so.
  Status RunWatched(uint64_t* times, const Interrupt* interrupt);

  const std::vector<Step>& steps() const { return steps_; }
  const Node& node(size_t step) const { return graph_.nodes[step_nodes_[step]]; }
  const ArenaPlan& arena() const { return arena_plan_; }
  // The arena plan without inputs and outputs, as if these were in client memory: what is written
  // into a context binary, which every backend reads.
  ArenaPlan ArenaWithoutIo() const;
  const std::vector<ArenaItem>& arena_items() const { return arena_items_; }
  const std::vector<ArenaUse>& arena_uses() const { return arena_uses_; }  // of each item
  uint64_t weight_bytes() const { return weight_bytes_; }
  // Of those, the ones that plans of other graphs read, too, at the moment.
  uint64_t shared_weight_bytes() const;
  // Constants that steps read and packed weights: each object once.
  const std::vector<SharedBytes>& held() const { return held_; }
  // State that survives executions: every kernel's own part, one behind the other.
  uint64_t persistent_bytes() const { return persistent_bytes_; }
  // All state is as before the first execution. Not while the plan runs.
  void ResetState();
  // States whose new value is computed elsewhere and copied into them in every execution.
  const std::vector<const Tensor*>& copied_states() const { return copied_states_; }
  int threads() const { return threads_.limit(); }
  const std::vector<Node>& nodes() const { return graph_.nodes; }
  // What kernels packed, in the order in which they were made.
  const std::vector<PackedWeight>& packed() const { return packed_; }
  // Compares mapped weights with their checksum, once; not while the plan runs.
  Status CheckWeights();
  // What counts against a process domain: not the parts that lie in buffers of the client's, which
  // are counted as such; weights that were moved for other threads do not lie there.
  uint64_t own_weight_bytes() const { return weights_counted_ ? moved_bytes_ : weight_bytes_; }
  uint64_t own_arena_bytes() const { return shared_arena_ != nullptr ? 0 : arena_plan_.peak; }
  // True when a step still reads this static data in place.
  bool Reads(const AlignedBytes* data) const { return kept_.count(data) != 0; }
  std::string Describe(const std::vector<PassReport>& passes) const;  // JSON

 private:
  Qnn_DataType_t StoredFloats() const;
  explicit Plan(NodeGraph graph, int threads) : graph_(std::move(graph)), threads_(threads) {}
  class Temporaries;
  Status MakeKernels(const Layout& layout, const KernelOptions& options, GraphWeights* weights,
                     bool keep, const std::vector<Tensor*>* release, FreedBlocks* freed);
  Status LayOut(Layout layout, const std::vector<const Tensor*>& inputs,
                const std::vector<const Tensor*>& outputs, const PlanOptions& options);
  void PointSteps(const Layout& layout);
  Status AllocateArena(uint64_t most_bytes);
  Status AllocatePersistent(uint64_t most_bytes);
  Status KeepStatic(const Node& node, const Tensor& tensor);
  uint64_t ConstantBytes() const;
  std::vector<uint64_t> FirstRead(uint64_t least, uint64_t most) const;
  void KeepConstants();
  void ShareConstants(const ShareScope& scope);
  uint64_t OwnWeights(size_t node, uint64_t bytes);
  void Hold();
  void ReleaseConstants();
  void DescribeItems(JsonWriter* json) const;
  Status Stopped(const Step& step, Status status);
  Status Failed(const Step& step, Status status) const;

  NodeGraph graph_;
  Threads threads_;
  std::vector<KernelPtr> kernels_;
  std::vector<Step> steps_;
  std::vector<size_t> step_nodes_;  // a step's node: aliases with nothing to do have no step
  std::vector<void*> pointers_;     // every step's in and out arrays, back to back
  struct Slot {
    void** pointer;
    uint64_t offset;
  };
  std::vector<std::vector<Slot>> patches_;  // for each app tensor the slots that point into it
  std::unordered_set<const AlignedBytes*> kept_;
  std::unordered_set<const AlignedBytes*> counted_;  // in weight_bytes_
  size_t next_packed_ = 0;
  std::vector<SharedBytes> held_;
  ArenaPlan arena_plan_;
  std::vector<ArenaItem> arena_items_;
  std::vector<ArenaUse> arena_uses_;
  std::string arena_order_;  // what arena_plan_.order points at, in a plan from a binary
  std::shared_ptr<AlignedBytes> arena_;
  std::shared_ptr<SharedArena> shared_arena_;
  char* arena_base_ = nullptr;
  std::shared_ptr<AlignedBytes> persistent_;
  char* persistent_base_ = nullptr;
  uint64_t persistent_bytes_ = 0;
  std::optional<EarlyTermination> early_termination_;  // of a plan that keeps state
  std::vector<PackedWeight> packed_;
  std::shared_ptr<const void> owner_;
  std::optional<WeightCheck> check_;
  std::shared_ptr<CommonWeights> common_;
  bool weights_counted_ = false;
  uint64_t moved_bytes_ = 0;
  // Of a plan with client_memory: every pointer into the arena, and every kernel's state.
  std::vector<Slot> arena_slots_, persistent_slots_;
  std::vector<size_t> io_items_;  // of each app tensor in the arena; empty: they are not in it
  std::vector<const Tensor*> copied_states_;
  bool guarded_ = false;  // Run takes the slow path: weights not checked yet, or a shared arena
  uint64_t weight_bytes_ = 0;
};

}  // namespace qnnrt
