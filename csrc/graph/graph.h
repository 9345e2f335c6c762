// One graph from its first tensor to its last execution.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi/qnn_errors.h"
#include "graph/binary/binary.h"
#include "graph/plan.h"
#include "graph/staging.h"
#include "memory/client_pools.h"
#include "memory/mapped_twice.h"
#include "memory/process_domain.h"
#include "memory/registry.h"
#include "memory/writers.h"
#include "ops/package_op.h"
#include "support/clock.h"
#include "support/counter.h"
#include "support/fair_mutex.h"
#include "support/interrupt.h"
#include "support/profile.h"

namespace qnnrt {

enum class Precision : uint8_t { kFloat32, kFloat16, kBFloat16, kFastest };
// With whom a graph has constants and packed weights together that are equal.
enum class ShareWeights : uint8_t { kNobody, kContext, kProcess };

struct GraphOptions {
  int threads = 0;  // 0: as many as this process may use
  bool portable_only = false;
  bool strict = false;  // a RAW tensor that would have to be copied is refused
  // With client memory: inputs and outputs are not allocated in the scratch memory.
  bool exclude_io = false;
  uint32_t plan_milliseconds = 0;             // for a smaller arena than the planner finds at once
  Precision precision = Precision::kFloat32;  // of floats between nodes
  std::vector<std::string> float32_nodes;     // whose floats stay FLOAT_32 whatever the precision
  bool byte_activations = false;   // of products with narrow weights, where that is faster
  bool release_constants = false;  // in Finalize, each once it is packed
  // Beside their packed forms, also in a context binary; nothing: see ConstantsToKeep.
  std::optional<bool> keep_constants;
  ShareWeights share_weights = ShareWeights::kContext;
  bool clamp_half = false;  // what FLOAT_16 cannot hold becomes its largest number, not infinite
};

// What two sets of options make different in a plan.
struct PlanChanges {
  bool kernels;  // what nodes compute, and with what
  bool threads;
  bool borders;  // whether inputs and outputs are in the arena
  bool effort;   // how long the planner searches
  bool any() const { return kernels || threads || borders || effort; }
};
PlanChanges Compare(const GraphOptions& a, const GraphOptions& b);

// What a graph needs from its backend.
struct GraphHost {
  // The accelerator's process domain, against whose limit mappings count; RAW tensors are staged
  // then. Null: the graph uses client memory directly.
  ProcessDomain* domain = nullptr;
  // The scope that ShareWeights::kContext means.
  uint64_t share_scope = kProcessScope;
  // Whether the backend takes this (valid) node; null: every one. Errors: 6005, says what it takes.
  Status (*admit)(const Node& node) = nullptr;
  // The op of a node in a context binary that is of another package than qti.aisw; null: none.
  FindPackageOp find_package_op;
  // A line for the client's log. Called with no lock held.
  std::function<void(const char*)> warn;
  // Scratch and persistent memory are the client's, as are the inputs and outputs that it gives:
  // all of them begin on a multiple of the one alignment and have a multiple of the other's bytes.
  // Powers of two.
  bool client_memory = false;
  uint32_t start_alignment = 64, size_alignment = 16;
};

// What a graph with client memory needs, in bytes: multiples of the size alignment.
struct PoolSizes {
  uint64_t scratch = 0, persistent = 0;
};

struct GraphStats {
  uint64_t executes = 0;
  uint64_t execute_ns = 0;
  StagingStats staging;
};

// Where the weights of a graph from a context binary are, and how it uses memory.
struct LoadOptions {
  const uint8_t* weights = nullptr;  // in the binary or a copy of its weights
  // What the graph has in common with others; null: as it lies in the binary, for this graph alone.
  std::shared_ptr<CommonWeights> common;
  std::shared_ptr<const void> owner;       // of them; null: they outlive the graph
  bool checked = false;                    // they were compared with their checksum
  bool counted = false;                    // they are counted against the process domain already
  std::shared_ptr<SharedArena> arena;      // null: an arena of its own
  uint64_t most_bytes = PhysicalMemory();  // of the arena, and of any tensor
  bool sizes_alone = false;                // the plan is for its sizes: it gets no memory
};

// What graphs of a binary have in common: at `data`, null: as it lies in the binary. Null: nothing.
std::shared_ptr<CommonWeights> CommonOf(const BinaryView& binary, const BinaryGraph& graph,
                                        bool checked, const uint8_t* data,
                                        std::shared_ptr<const void> owner);

// A context binary and the memory that it is in, for graphs that are made from it later.
struct LoadSource {
  BinaryView view;
  std::shared_ptr<const void> owner;      // of what the view is of; null: the client keeps it
  bool checked = false;                   // every graph's weights were compared with their checksum
  std::shared_ptr<CommonWeights> common;  // null: the graphs have nothing in common
};

// What one execution was given, checked and pinned: the graph's inputs, then its outputs. Reused
// from one execution to the next, a binding allocates nothing.
struct Binding {
  struct Entry {
    void* address = nullptr;
    SlotHandle handle = 0;  // 0: RAW memory
  };
  struct Sync {  // CPU access to memory that devices share without coherence
    int fd;
    CpuAccess access;
  };
  std::vector<Entry> entries;
  std::vector<SlotHandle> pinned;
  std::vector<Sync> syncs;
  // With client memory: the client's output tensors, which receive the outputs' addresses; null:
  // not given.
  std::vector<Qnn_Tensor_t*> outputs;
  bool report_outputs = true;  // false: these tensors may be freed before the execution has ended
};

// Options of one execution; with the defaults it takes the fast path.
struct RunOptions {
  ProfileScope* profile = nullptr;
  const Interrupt* interrupt = nullptr;  // asked before every step
};

// Whether a node may write the tensors that are its outputs.
Status CheckOutputs(const Node& node);

struct ReadGraphNodes;

class Graph {
 public:
  // `context` is the id under which the registry knows this graph's context.
  Graph(std::string name, uint64_t context, GraphOptions options, GraphHost host = {});

  const std::string& name() const { return name_; }
  bool finalized() const { return plan_ != nullptr; }
  bool prepared() const { return AnyPlan() != nullptr; }  // under Lock(), as what follows
  // Nothing until the graph is prepared, or where its memory is the runtime's own.
  std::optional<PoolSizes> pool_sizes() const;
  bool client_memory() const { return pools_ != nullptr; }
  // Under Lock(). Errors: 6024 threads and kernels, once finalized, and the kernels of a binary's
  // graph; 6000 exclude_io, once prepared.
  Status CheckOptions(const GraphOptions& options) const;
  // Under Lock(), after CheckOptions. Threads, kernels and exclude_io take effect in Finalize,
  // strict from the next Bind on.
  void set_options(const GraphOptions& options);
  const GraphOptions& options() const { return options_; }
  int ThreadsToMake() const {
    return options_.threads > 0 ? options_.threads : Threads::DefaultLimit();
  }

  // Where constants and packed weights are looked for.
  ShareScope Scope() const {
    if (options_.share_weights == ShareWeights::kNobody) return {};
    return options_.share_weights == ShareWeights::kProcess ? kProcessScope : host_.share_scope;
  }

  // Ids count from 1 in every graph. Errors: 6024 after finalize, 7003 the
  // name is taken, 7004 no element type or shape that a tensor can have.
  Status AddTensor(Tensor tensor, uint32_t* id);
  // Null when this graph has no tensor of that id.
  Tensor* FindTensor(uint32_t id);
  // `node` points at tensors of this graph. Errors: 6005 with the op, the tensor and the rule.
  Status AddNode(Node node);

  // Errors: 6024 twice, 6007 a tensor that nothing produces, 6022 no kernel, 1002 no memory, or
  // none left in the process domain for weights and arena, 8003 none left there for staging.
  // Interrupted, it changes nothing. With release_constants a failure may leave the graph without
  // its constants: it is of no use then, 6023.
  Status Finalize(ProfileScope* profile, Interrupt* interrupt = nullptr);

  // ---- compiling elsewhere (graph_lower.cc) ----

  // The graph as it would be compiled, as JSON, with the addresses of its constants; the graph does
  // not change. Valid until the next call, ReleaseConstants, or the end of the graph. Errors: 6024
  // finalized, 6007 a tensor that nothing produces, what folding constants gives.
  Result<const char*> Lower(PassLevel level);
  // Another backend has compiled it: it takes no more tensors and nodes. Frees its constants but
  // for those at these addresses, which are freed with the graph. Errors: 6024 finalized.
  Status ReleaseConstants(const void* const* kept, uint64_t count);

  // ---- client memory (graph_pools.cc) ----
  // Errors of all of these: 1000 the memory of this graph is the runtime's own.

  // Makes the plan, if there is none, and returns how much memory it needs. Adding a tensor or node
  // drops the plan. Errors: as Finalize.
  Result<PoolSizes> Prepare();
  // Before or after Finalize; null removes it. Waits for a running execution; the contents of the
  // scratch memory are not preserved. Nothing is written beyond the size that Prepare returns.
  // Errors: 6000 too small, on no boundary, of no whole size, or in memory that another pool has;
  // 1005 memory that this forked process shares with its parent.
  Status SetScratch(void* address, uint64_t size);
  // Before Finalize only, which zeroes it; in use until the graph is freed. Errors: as above, 6024.
  Status SetPersistent(void* address, uint64_t size);
  // Where a graph input or output lies in the scratch memory: an input is to be written there
  // before each execution, an output is valid until the next one. The address changes when the
  // scratch memory is replaced. Errors: 6023 before Prepare, 6000 no scratch memory, 6004 no such
  // tensor.
  Result<void*> IoAddress(uint32_t id);

  // On every backend: what kernels keep from one execution to the next is as before the first one.
  // Waits for a running execution. Errors: 6023 before Finalize.
  Status ResetState();

  // A graph of a context binary: its inputs and outputs now, with the ids that they had; the rest
  // by Load. It takes no tensors and nodes of a client's. On a graph without tensors.
  Status Declare(const BinaryGraph& described);
  // Makes a declared graph ready, as Finalize does, without reading its weights. Errors: 5005
  // damaged, 1008 prepared for other kernels, 6022, 1002 no memory.
  Status Load(const BinaryView& binary, const BinaryGraph& described, const LoadOptions& options);
  // Bytes of the arena that Load would need: what the binary says, or with another number of
  // threads what a plan for these has. Errors: as Load's.
  Result<uint64_t> ArenaToLoad(const BinaryView& binary, const BinaryGraph& described);
  // What Prepare of a declared graph with client memory reads, once its nodes are sound and
  // admitted by the host. Errors: as Load's, 6005.
  Status Defer(std::shared_ptr<const LoadSource> source);
  // Before a loaded graph is written into a binary again: compares weights that were not read yet
  // with their checksum. Under Lock(). Errors: 5005.
  Status CheckWeights() { return plan_ == nullptr ? NotFinalized() : plan_->CheckWeights(); }

  // Bind, Run and Release in one, on a binding of the graph's own. Executions of one graph queue.
  Status Execute(const Qnn_Tensor_t* inputs, uint32_t num_inputs, const Qnn_Tensor_t* outputs,
                 uint32_t num_outputs, const RunOptions& options);

  // Checks what an execution is given and pins its memory handles until Release. Bound by tensor
  // id. A RAW tensor is used where it is, or staged in Run; a handle must have been registered in
  // this graph's context with the tensor's shape and type. Waits for no execution. After an error
  // nothing is pinned. Errors: 6023 before finalize, 6000 null arrays, 6004 with the tensor's name
  // and what was wrong.
  // With client memory a RAW tensor without an address, and all of them where none are given, are
  // those in the scratch memory; an execution then writes into `outputs` where they lie.
  Status Bind(const Qnn_Tensor_t* inputs, uint32_t num_inputs, const Qnn_Tensor_t* outputs,
              uint32_t num_outputs, Binding* binding) const;
  // The same for memory handles of some of the inputs and outputs, which stay pinned.
  Status BindHandles(const Qnn_Tensor_t* inputs, uint32_t num_inputs, const Qnn_Tensor_t* outputs,
                     uint32_t num_outputs, Binding* binding) const;
  // Errors: what kernels and the interrupt say; 8003 and 1002 when no staging memory can be
  // allocated. Outputs are untouched then.
  Status Run(const Binding& binding, const RunOptions& options);
  static void Release(Binding* binding);

  // Waits for a running execution; no other one begins while the guard is held.
  std::unique_lock<FairMutex> Lock() { return std::unique_lock<FairMutex>(mutex_); }
  // For what is constant once the graph is finalized: waits for nothing then, holds nothing.
  std::unique_lock<FairMutex> LockUnlessReady() {
    return Ready() ? std::unique_lock<FairMutex>() : Lock();
  }

  // The staging slot of a graph input or output; its memory is allocated now if it was not, and
  // freed with the graph. A RAW tensor at that very address is used in place. Errors: 6023 before
  // finalize, 6004 no such tensor, 1000 a graph that stages nothing, 8003 and 1002 as Run.
  Result<void*> StagingAddress(uint32_t id);

  // Beside a running execution, too; that one is not in them yet.
  GraphStats stats();
  std::vector<CopyRecord> Copies();
  void ResetStats();
  bool Ready() const { return ready_.load(std::memory_order_acquire); }
  const Plan* plan() const { return plan_.get(); }
  const std::string& Describe();  // JSON; empty before Finalize
  const std::vector<PassReport>& passes() const { return passes_; }
  const std::vector<const Tensor*>& inputs() const { return inputs_; }
  const std::vector<const Tensor*>& outputs() const { return outputs_; }

 private:
  // What every execution checks of a graph input or output. Constant once the graph is finalized.
  struct AppTensor {
    const Tensor* tensor;
    uint64_t bytes;
    uintptr_t misaligned;      // address bits that have to be zero for its elements
    uintptr_t raw_misaligned;  // the same for RAW memory: none where that is copied
    uint32_t odd_bytes;        // size bits that have to be zero in RAW memory of another size
  };

  // An APP_READWRITE tensor that nodes write, as the input and the output that it is.
  struct State {
    size_t input, output;  // app tensors
  };

  Status NotFinalized() const;
  Status CheckOpen(const char* what) const;
  Status CheckNew(const Tensor& tensor) const;
  Status Add(Tensor tensor);
  // A plan that was made and is not the graph's yet.
  struct Prepared {
    std::unique_ptr<Plan> plan;
    std::vector<PassReport> passes;
    uint64_t start = 0, optimized = 0, end = 0;  // timestamps, nanoseconds
  };
  struct Lowered {
    NodeGraph graph;
    std::string json;
  };
  struct Pools {  // of a graph with client memory
    ClientPool scratch, persistent;
    struct Reported {  // an output whose address was written into the client's tensor
      const Qnn_Tensor_t* tensor = nullptr;
      const void* address = nullptr;
    };
    std::vector<Reported> reported;
  };
  // Frees the data of `release` once kernels have packed it.
  Status MakePlan(Interrupt* interrupt, const std::vector<Tensor*>& release, Prepared* made) const;
  Status FinalizeLocked(ProfileScope* profile, Interrupt* interrupt);
  Status Spent() const;
  Status CheckDeclared() const;
  Result<ReadGraphNodes> ReadDescribed(const BinaryView& binary, const BinaryGraph& described,
                                       const LoadOptions& load) const;
  Status MakePlanFrom(const BinaryView& binary, const BinaryGraph& described,
                      const LoadOptions& load, Prepared* made) const;
  void UseClientMemory(PlanOptions* options) const;
  // graph_pools.cc
  Status MakeDeferred(Prepared* made) const;
  Status NeedsClientMemory() const;
  PoolSizes SizesOf(const Plan& plan) const;
  const Plan* AnyPlan() const { return plan_ != nullptr ? plan_.get() : prepared_.plan.get(); }
  Status CheckPool(const char* what, const void* address, uint64_t size, uint64_t needed) const;
  Status CheckPools(const Plan& plan) const;
  void PointAtPools(Plan* plan) const;
  Status CheckScratch() const;
  Status CheckInPools(const Binding& binding) const;
  bool InScratch(const Binding& binding, size_t app_tensor) const;
  void ApplyInPools(const Binding& binding);
  void ReportOutputs(const Binding& binding);
  // The end of Finalize and Load: the graph is ready, or nothing has changed. `note` adds profile
  // events, as the last step that may run out of memory.
  Status Install(Prepared* made, FunctionRef<void(const Staging*)> note);
  Status UnpackInputs(const Node& node);
  void TakeValues(Node* node);
  const Tensor* NewState(const Tensor* state, Node* node);
  Status CheckInPlace(const Plan& plan) const;
  Status CheckConnected(std::vector<Node>* ordered) const;
  Status BindBoth(const Qnn_Tensor_t* inputs, uint32_t num_inputs, const Qnn_Tensor_t* outputs,
                  uint32_t num_outputs, Binding* binding) const;
  Status BindAll(const Qnn_Tensor_t* given, uint32_t count, size_t first, size_t end,
                 Binding* binding) const;
  Status BindOne(const Qnn_Tensor_t& given, size_t app_tensor, Binding* binding) const;
  Status BindSome(const Qnn_Tensor_t* given, uint32_t count, size_t first, size_t end,
                  Binding* binding) const;
  Status BindHandle(Qnn_MemHandle_t handle, size_t app_tensor, Binding* binding) const;
  Status WrongTensor(const Qnn_TensorV1_t& given, const Tensor& expected) const;
  Status WrongAlignment(const Qnn_TensorV1_t& given, const AppTensor& expected) const;
  bool MayBeInScratch(const Qnn_TensorV1_t& given) const {
    return pools_ != nullptr && !options_.exclude_io && given.memType == QNN_TENSORMEMTYPE_RAW;
  }
  Status WrongBuffer(const Qnn_TensorV1_t& given, const AppTensor& expected) const;
  void Apply(const Binding& binding);
  Status RunBound(const Binding& binding, const RunOptions& options);
  void Patch(size_t app_tensor, void* address) {
    if (patched_[app_tensor] == address) return;
    patched_[app_tensor] = address;
    moved_ = true;
    plan_->Bind(app_tensor, address);
  }
  // graph_overlaps.cc. Errors: 6004 an output lies where results would be wrong.
  Status CheckMoved(const Binding& binding) {
    const uint64_t mapped_twice = FilesMappedTwice().load(std::memory_order_relaxed);
    if (!moved_ && mapped_twice == compared_with_) return Status::Ok();
    return CheckOverlaps(binding, mapped_twice);
  }
  Status CheckOverlaps(const Binding& binding, uint64_t mapped_twice);
  Status CheckAddresses();
  Status CheckFiles(const Binding& binding);
  bool MayOverlap(size_t a, size_t b, bool same) const;
  Status InCommon(size_t a, size_t b, uint64_t bytes, const std::string& where) const;
  Status RunLocked(const Binding& binding, const RunOptions& options);
  Status CheckStates(const Binding& binding) const;
  Status RunAlone(const Binding& binding, const RunOptions& options);
  size_t StateOf(size_t output) const;
  // graph_staged.cc
  Status CheckStrict(const Binding& binding) const;
  Status RunStaged(const Binding& binding, const RunOptions& options);
  Status StageIn(const Binding& binding);
  void StageOut(const Binding& binding);
  void AddCopyEvents(const StagingStats& before, bool input, uint64_t start, uint64_t end,
                     ProfileScope* profile, int top) const;
  void LogCopies();
  // True also of an execution that terminated early: it changed the graph's state.
  static bool Executed(const Status& status) {
    return status.ok() || status.code() == QNN_GRAPH_ERROR_EARLY_TERMINATION;
  }
  void Count(uint64_t first_tick) {
    executes_.Add(1);
    execute_ticks_.Add(Ticks::Now() - first_tick);
  }

  const std::string name_;
  const uint64_t context_;
  const GraphHost host_;
  GraphOptions options_;
  FairMutex mutex_;
  std::deque<Tensor> tensors_;
  std::unordered_map<uint32_t, Tensor*> by_id_;
  std::unordered_map<std::string, Tensor*> by_name_;
  std::vector<Node> nodes_;
  std::vector<const Tensor*> inputs_, outputs_;
  struct Value {
    const Tensor* tensor;  // that the plan knows it by
    bool read;
  };
  std::unordered_map<const Tensor*, Value> values_;  // of NATIVE tensors: the last that was written
  std::unique_ptr<Plan> plan_;
  Prepared prepared_;
  bool declared_ = false;            // comes from a context binary
  bool spent_ = false;               // a Finalize that failed has freed constants
  bool compiled_elsewhere_ = false;  // by another backend
  std::unique_ptr<Lowered> lowered_;
  std::vector<std::shared_ptr<AlignedBytes>> kept_;  // constants that the other backend reads
  std::shared_ptr<const LoadSource> source_;         // of a declared graph until it is finalized
  const std::unique_ptr<Pools> pools_;               // null: memory is the runtime's own
  ProcessDomain::Share arena_share_;
  std::vector<std::shared_ptr<const void>> weights_shares_;  // its own, and those of shared bytes
  std::unique_ptr<Staging> staging_;  // constant once the graph is finalized; null: stages nothing
  std::vector<size_t> unstaged_;      // of StageIn: tensors without a staging slot
  std::vector<PassReport> passes_;
  std::vector<AppTensor> app_;  // inputs, then outputs
  std::vector<State> states_;
  WrittenMemory written_;           // theirs
  std::atomic<bool> ready_{false};  // plan_, app_ and staging_ are set and constant
  Binding own_binding_;             // of Execute
  std::vector<void*> patched_;      // the address of each app tensor in the steps
  std::vector<size_t> by_address_;  // app tensors, in the order of those
  struct Place {                    // of an app tensor in a file
    FileId id;
    uint64_t begin;
    size_t app_tensor;
  };
  std::vector<Place> places_;   // of those that CheckFiles compares
  bool moved_ = false;          // since they were compared with each other
  uint64_t compared_with_ = 0;  // FilesMappedTwice then
  std::vector<uint64_t> step_times_;
  std::string description_;
  Counter executes_, execute_ticks_;
};

}  // namespace qnnrt
