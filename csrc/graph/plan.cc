#include "graph/plan.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "abi/qnn_errors.h"
#include "ir/blocks.h"
#include "ops/constant_reader.h"
#include "support/clock.h"
#include "support/crc32c.h"

namespace qnnrt {
namespace {

// For a node whose output is its input under another shape, where both are client memory and cannot
// be one allocation.
class CopyKernel : public Kernel {
 public:
  explicit CopyKernel(size_t bytes) : bytes_(bytes) {}
  Status Run(const ExecArgs& args) override {
    if (args.in[0] != args.out[0]) std::memcpy(args.out[0], args.in[0], bytes_);
    return Status::Ok();
  }
  const char* Name() const override { return "copy"; }

 private:
  size_t bytes_;
};

}  // namespace

uint64_t PhysicalMemory() {
  static const uint64_t bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

namespace {

// A row times weights from memory waits for a look at the page table for each small page: a token
// of BFLOAT_16 takes 1.16 times as long. Not for fewer bytes than a large last cache has a core.
void JoinPagesOf(const std::vector<PackedWeight>& packed,
                 const std::unordered_set<const AlignedBytes*>& kept) {
  constexpr size_t kLeast = size_t{32} << 20;
  std::vector<std::pair<const void*, size_t>> blocks;
  size_t total = 0;
  const auto add = [&](const AlignedBytes& bytes) {
    if (bytes.data() == nullptr) return;
    blocks.emplace_back(bytes.data(), bytes.size());
    total += bytes.size();
  };
  for (const PackedWeight& weight : packed) add(*weight.bytes);
  for (const AlignedBytes* bytes : kept) add(*bytes);
  if (total >= kLeast) JoinPages(std::move(blocks));
}

// Those that read constants know the next that does: with two threads memory is idle for a fifth of
// a token in 4 bits otherwise, while what is between products runs on one.
void ChainReaders(const std::vector<Step>& steps) {
  const Reader* next = nullptr;
  for (size_t i = steps.size(); i-- > 0;) {
    auto* reader = dynamic_cast<ConstantReader*>(steps[i].kernel);
    if (reader == nullptr) continue;
    reader->Follow(steps[i].in, next);
    next = reader;
  }
}

}  // namespace

Result<std::unique_ptr<Plan>> Plan::Make(NodeGraph graph, const std::vector<const Tensor*>& inputs,
                                         const std::vector<const Tensor*>& outputs,
                                         const PlanOptions& options) {
  std::unique_ptr<Plan> plan(new Plan(std::move(graph), options.kernels.threads));
  plan->owner_ = options.owner;
  plan->weights_counted_ = options.weights_counted;
  plan->shared_arena_ = options.arena;
  plan->check_ = options.check;
  plan->common_ = options.common;
  plan->guarded_ = options.check.has_value() || options.arena != nullptr;
  FreedBlocks freed;
  KernelOptions kernels = options.kernels;
  WeightRecorder recorder(options.scope, plan->threads_);
  GraphWeights* const weights =
      options.packed != nullptr ? static_cast<GraphWeights*>(options.packed) : &recorder;
  kernels.weights = weights;
  kernels.weight_bytes = plan->ConstantBytes();
  plan->ShareConstants(options.scope);
  Layout layout(plan->graph_);
  const std::vector<uint64_t> constants = plan->FirstRead(0, UINT64_MAX);
  const bool keep =
      std::accumulate(constants.begin(), constants.end(), uint64_t{0}) <= options.keep_at_most;
  QNNRT_RETURN_IF_ERROR(plan->MakeKernels(layout, kernels, weights, keep, options.release, &freed));
  if (options.packed != nullptr) {
    QNNRT_RETURN_IF_ERROR(options.packed->Done());
    plan->moved_bytes_ = options.packed->moved_bytes();
    plan->packed_ = options.packed->Take();
  } else {
    plan->packed_ = recorder.Take();
    for (const PackedWeight& packed : plan->packed_) plan->moved_bytes_ += packed.bytes->size();
  }
  QNNRT_RETURN_IF_ERROR(plan->LayOut(std::move(layout), inputs, outputs, options));
  if (plan->threads() > 1 && !kernels.weights_in_cache()) ChainReaders(plan->steps_);
  if (options.packed == nullptr) JoinPagesOf(plan->packed_, plan->kept_);
  if (keep) plan->KeepConstants();
  plan->ReleaseConstants();
  plan->Hold();
  if (plan->persistent_bytes_ != 0)
    plan->early_termination_.emplace(plan->graph_.nodes, plan->step_nodes_);
  return plan;
}

// Constants that passes made, and those of the client that it gives up, until the kernel of their
// last reader has been made: packed, they are of no use any more, and the next ones can have their
// memory.
class Plan::Temporaries {
 public:
  // `keep`: what nodes read stays.
  Temporaries(const NodeGraph& graph, bool keep, const std::vector<Tensor*>* release) {
    for (const auto& tensor : graph.owned) {
      if (tensor->is_static()) made_[tensor.get()] = tensor.get();
    }
    if (release != nullptr) {
      for (Tensor* t : *release) made_[t] = t;
    }
    for (const Node& node : graph.nodes) {
      for (const Tensor* t : node.inputs) left_[t] += made_.count(t);
    }
    if (release != nullptr) {
      for (Tensor* t : *release) {  // what passes have replaced
        if (left_[t] == 0) Free(t);
      }
    }
    if (keep) made_.clear();
  }

  void Done(const Node& node, const Kernel& kernel) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = made_.find(node.inputs[i]);
      if (found == made_.end()) continue;
      if (kernel.ReadsInput(i)) {
        made_.erase(found);
      } else if (--left_[found->first] == 0) {
        Free(found->second);
      }
    }
  }

 private:
  // Without memory for a note that is a few bytes long it stays.
  static void Free(Tensor* tensor) {
    if (tensor->data == nullptr) return;
    if (auto size = AlignedBytes::Absent(tensor->data->size())) tensor->data = std::move(size);
  }

  std::unordered_map<const Tensor*, Tensor*> made_;
  std::unordered_map<const Tensor*, size_t> left_;  // readers without a kernel
};

Status Plan::MakeKernels(const Layout& layout, const KernelOptions& options, GraphWeights* weights,
                         bool keep, const std::vector<Tensor*>* release, FreedBlocks* freed) {
  Temporaries temporaries(graph_, keep, release);
  const std::vector<uint64_t> small = FirstRead(kMappedBlock, kHugePage);
  uint64_t left = std::accumulate(small.begin(), small.end(), uint64_t{0});
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    Node& node = graph_.nodes[i];
    freed->Expect(left);
    left -= small[i];
    if (options.interrupt != nullptr) QNNRT_RETURN_IF_ERROR(options.interrupt->Check());
    layout.Tell(i, &node);
    if (IsAlias(node) || layout.NothingToDo(i)) {
      kernels_.push_back(std::make_unique<CopyKernel>(node.outputs[0]->bytes()));
      continue;
    }
    weights->SetNode(i, node);
    Result<KernelPtr> kernel = MakeKernel(node, options);
    if (!kernel.ok()) {
      return std::move(kernel).status().Within("node '" + node.name + "' (" + node.type + ")");
    }
    kernels_.push_back(std::move(kernel).value());
    temporaries.Done(node, *kernels_.back());
  }
  return Status::Ok();
}

Status Plan::LayOut(Layout layout, const std::vector<const Tensor*>& inputs,
                    const std::vector<const Tensor*>& outputs, const PlanOptions& options) {
  if (options.io_alignment != 0) {
    for (const auto* tensors : {&inputs, &outputs}) {
      for (const Tensor* t : *tensors) {
        if (t->updates == nullptr) layout.AddIo(t, options.io_alignment);
      }
    }
  }
  QNNRT_ASSIGN_OR_RETURN(
      arena_plan_, layout.PlanMemory(kernels_, options.known_plan,
                                     {options.plan_milliseconds, 0, options.kernels.interrupt}));
  arena_items_ = layout.items();
  arena_uses_ = layout.uses();
  arena_order_ = arena_plan_.order;
  arena_plan_.order = arena_order_.c_str();
  for (const KernelPtr& kernel : kernels_)
    persistent_bytes_ += ScratchRoom(kernel->PersistentBytes());
  if (!options.client_memory) {
    QNNRT_RETURN_IF_ERROR(AllocateArena(options.most_bytes));
    QNNRT_RETURN_IF_ERROR(AllocatePersistent(options.most_bytes));
  }

  size_t count = 0;
  for (const Node& node : graph_.nodes) count += node.inputs.size() + node.outputs.size();
  pointers_.assign(count, nullptr);
  patches_.resize(inputs.size() + outputs.size());
  std::unordered_map<const Tensor*, size_t> app;
  for (size_t i = 0; i < inputs.size(); ++i) app[inputs[i]] = i;
  for (size_t i = 0; i < outputs.size(); ++i) app[outputs[i]] = inputs.size() + i;

  void** next = pointers_.data();
  auto add_pointer = [&](const Tensor* t) {
    void** slot = next++;
    if (t == nullptr) return;
    const Place place = layout.PlaceOf(t);
    const Tensor* root = place.root;
    if (root->is_static()) {
      *slot = root->data->data();  // null: packed, and of no use to this node (KeepStatic)
    } else if (layout.InArena(root)) {
      arena_slots_.push_back({slot, arena_plan_.offsets[layout.Item(root)] + place.offset});
    } else {
      patches_[app.at(root)].push_back({slot, place.offset});
    }
  };
  for (size_t s = 0; s < graph_.nodes.size(); ++s) {
    const Node& node = graph_.nodes[s];
    if (layout.NothingToDo(s)) continue;
    if (IsAlias(node) && node.outputs[0]->updates != nullptr)
      copied_states_.push_back(node.outputs[0]->updates);
    void** in = next;
    weight_bytes_ += OwnWeights(s, kernels_[s]->WeightBytes());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor* t = node.inputs[i];
      const Tensor* root = t == nullptr ? nullptr : layout.Root(t);
      if (root != nullptr && root->is_static() && kernels_[s]->ReadsInput(i))
        QNNRT_RETURN_IF_ERROR(KeepStatic(node, *root));
      add_pointer(t);
    }
    void** out = next;
    for (const Tensor* t : node.outputs) add_pointer(t);
    steps_.push_back({kernels_[s].get(), in, out, nullptr, nullptr});
    step_nodes_.push_back(s);
  }
  PointSteps(layout);
  for (const auto* tensors : {&inputs, &outputs}) {
    if (options.io_alignment == 0) break;
    for (const Tensor* t : *tensors) io_items_.push_back(layout.Item(layout.Root(t)));
  }
  if (options.client_memory) return Status::Ok();
  SetArenaBase(arena_base_);
  SetPersistentBase(persistent_base_);
  arena_slots_ = {};
  persistent_slots_ = {};
  return Status::Ok();
}

// When steps_ does not grow any more.
void Plan::PointSteps(const Layout& layout) {
  uint64_t state = 0;  // offset of the next kernel's part
  for (size_t i = 0; i < steps_.size(); ++i) {
    const size_t s = step_nodes_[i];
    arena_slots_.push_back({&steps_[i].scratch, arena_plan_.offsets[layout.ScratchItem(s)]});
    const uint64_t bytes = kernels_[s]->PersistentBytes();
    if (bytes != 0) persistent_slots_.push_back({&steps_[i].persistent, state});
    state += ScratchRoom(bytes);
  }
}

void Plan::SetArenaBase(void* base) {
  arena_base_ = static_cast<char*>(base);
  for (const Slot& slot : arena_slots_)
    *slot.pointer = base == nullptr ? nullptr : arena_base_ + slot.offset;
}

void Plan::SetPersistentBase(void* base) {
  persistent_base_ = static_cast<char*>(base);
  for (const Slot& slot : persistent_slots_) *slot.pointer = persistent_base_ + slot.offset;
}

ArenaPlan Plan::ArenaWithoutIo() const {
  if (io_items_.empty()) return arena_plan_;
  Result<ArenaPlan> plan = Layout(graph_).PlanMemory(kernels_, nullptr, {});
  return plan.ok() ? std::move(plan).value() : arena_plan_;  // which its reader will not take
}

Status Plan::AllocateArena(uint64_t most_bytes) {
  const uint64_t bytes = arena_plan_.peak;
  if (shared_arena_ != nullptr) {
    if (shared_arena_->size < bytes) {
      return Error(QNN_GRAPH_ERROR_MEM_ALLOC,
                   "the spill-fill buffer has %" PRIu64 " bytes, but this graph needs %" PRIu64
                   ": ask the context for MAX_SPILLFILL_BUFFER_SIZE",
                   shared_arena_->size, bytes);
    }
    arena_base_ = reinterpret_cast<char*>(shared_arena_->data);
    return Status::Ok();
  }
  // The kernel overcommits: more than the machine has would be allocated, and fail when it is used.
  if (bytes <= most_bytes) arena_ = AlignedBytes::Make(bytes);
  if (arena_ == nullptr) {
    return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory: the arena needs %" PRIu64 " bytes",
                 bytes);
  }
  arena_base_ = static_cast<char*>(arena_->data());
  return Status::Ok();
}

Status Plan::AllocatePersistent(uint64_t most_bytes) {
  if (persistent_bytes_ == 0) return Status::Ok();
  if (persistent_bytes_ <= most_bytes) persistent_ = AlignedBytes::Make(persistent_bytes_);
  if (persistent_ == nullptr) {
    return Error(QNN_GRAPH_ERROR_MEM_ALLOC,
                 "out of memory: the state of the graph needs %" PRIu64 " bytes",
                 persistent_bytes_);
  }
  persistent_base_ = static_cast<char*>(persistent_->data());
  ResetState();
  return Status::Ok();
}

void Plan::ResetState() {
  if (persistent_base_ != nullptr) std::memset(persistent_base_, 0, persistent_bytes_);
}

// A step reads this static data in place.
Status Plan::KeepStatic(const Node& node, const Tensor& tensor) {
  if (!tensor.data->there()) {
    return Error(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY,
                 "node '%s' reads the data of tensor '%s', which the context binary does not have: "
                 "prepare the model again",
                 node.name.c_str(), tensor.name.c_str());
  }
  (void)tensor.data->data();  // they are read from here on
  kept_.insert(tensor.data.get());
  if (counted_.insert(&tensor.data->origin()).second) weight_bytes_ += tensor.data->size();
  return Status::Ok();
}

// Bytes of the constants that each node is the first to read, of those below `most` bytes from
// `least` on.
std::vector<uint64_t> Plan::FirstRead(uint64_t least, uint64_t most) const {
  std::unordered_set<const AlignedBytes*> seen;
  std::vector<uint64_t> bytes(graph_.nodes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const Tensor* tensor : graph_.nodes[i].inputs) {
      if (tensor == nullptr || !tensor->is_static() || tensor->data == nullptr) continue;
      const uint64_t size = tensor->data->size();
      if (size >= least && size < most && seen.insert(tensor->data.get()).second) bytes[i] += size;
    }
  }
  return bytes;
}

// By shapes, which a context binary has, too, and bounds that no machine changes: a graph has the
// same kernels wherever it was prepared.
uint64_t Plan::ConstantBytes() const {
  std::unordered_set<const Tensor*> seen;
  uint64_t bytes = 0;
  for (const Node& node : graph_.nodes) {
    for (const Tensor* tensor : node.inputs) {
      if (tensor != nullptr && tensor->is_static() && seen.insert(tensor).second)
        bytes += tensor->bytes();
    }
  }
  return bytes;
}

// What nodes read is not released, though their kernels may not read it any more.
void Plan::KeepConstants() {
  for (const Node& node : graph_.nodes) {
    for (const Tensor* tensor : node.inputs) {
      if (tensor == nullptr || !tensor->is_static()) continue;
      (void)tensor->data->data();
      kept_.insert(tensor->data.get());
    }
  }
}

// Those that passes made; the client's were looked for when they came.
void Plan::ShareConstants(const ShareScope& scope) {
  if (!scope) return;
  std::unordered_set<const Tensor*> read;
  for (const Node& node : graph_.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  for (const auto& tensor : graph_.owned) {
    if (tensor->is_static() && read.count(tensor.get()) != 0)
      tensor->data = Shared(scope, std::move(tensor->data), threads_);
  }
}

// What a kernel keeps beside what other kernels of the graph have, too.
uint64_t Plan::OwnWeights(size_t node, uint64_t bytes) {
  for (; next_packed_ < packed_.size() && packed_[next_packed_].node <= node; ++next_packed_) {
    const AlignedBytes* packed = packed_[next_packed_].bytes.get();
    if (!counted_.insert(&packed->origin()).second) bytes -= std::min(bytes, packed->size());
  }
  return bytes;
}

void Plan::Hold() {
  std::unordered_set<const AlignedBytes*> seen;
  const auto hold = [&](const SharedBytes& bytes) {
    if (!seen.insert(&bytes->origin()).second) return;
    held_.push_back(bytes);
    bytes->origin().users().fetch_add(1);
  };
  for (const PackedWeight& packed : packed_) hold(packed.bytes);
  for (const Node& node : graph_.nodes) {
    for (const Tensor* tensor : node.inputs) {
      if (tensor != nullptr && tensor->is_static() && Reads(tensor->data.get())) hold(tensor->data);
    }
  }
}

Plan::~Plan() {
  for (const SharedBytes& bytes : held_) bytes->origin().users().fetch_sub(1);
}

uint64_t Plan::shared_weight_bytes() const {
  uint64_t bytes = 0;
  for (const SharedBytes& held : held_) {
    if (held->origin().users().load() > 1) bytes += held->size();
  }
  return bytes;
}

// Releases constants that were folded into other tensors or packed by kernels.
void Plan::ReleaseConstants() {
  for (auto& tensor : graph_.owned) {
    if (tensor->is_static() && !Reads(tensor->data.get())) tensor->data = nullptr;
  }
}

uint32_t Checksum(const uint8_t* data, uint64_t size, const Threads& threads, uint8_t* copy) {
  // Pieces for the threads, on the stack: this may be a client's first execution.
  constexpr size_t kMostPieces = 64;
  constexpr uint64_t kLeastPiece = uint64_t{1} << 20;
  const uint64_t pieces = std::clamp<uint64_t>(
      std::min<uint64_t>(static_cast<uint64_t>(threads.limit()) * 8, size / kLeastPiece), 1,
      kMostPieces);
  const uint64_t piece = (size + pieces - 1) / pieces;
  uint32_t sums[kMostPieces];
  const auto begin_of = [&](uint64_t i) { return std::min(size, i * piece); };
  threads.For(pieces, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const uint64_t at = begin_of(i), bytes = begin_of(i + 1) - at;
      if (copy != nullptr) std::memcpy(copy + at, data + at, bytes);
      sums[i] = Crc32c((copy != nullptr ? copy : data) + at, bytes);
    }
  });
  uint32_t sum = sums[0];
  for (uint64_t i = 1; i < pieces; ++i)
    sum = Crc32cCombine(sum, sums[i], begin_of(i + 1) - begin_of(i));
  return sum;
}

Status WeightCheck::Check(const Threads& threads) const {
  return Compare(Checksum(data, size, threads));
}

Status WeightCheck::Compare(uint32_t sum) const {
  if (sum == checksum) return Status::Ok();
  return Error(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY,
               "the weights of graph '%s' in the context binary do not have their checksum (%08x, "
               "not %08x): the file was altered after it was written; prepare the model again",
               graph.c_str(), sum, checksum);
}

std::shared_ptr<AlignedBytes> CommonWeights::At(uint64_t offset, uint64_t size) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::weak_ptr<AlignedBytes>& known = bytes_[{offset, size}];
  std::shared_ptr<AlignedBytes> bytes = known.lock();
  if (bytes == nullptr) {
    bytes = AlignedBytes::Foreign(check_.data + offset, size, owner_);
    known = bytes;
  }
  return bytes;
}

Status CommonWeights::Check(const Threads& threads) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (checked_) return Status::Ok();
  QNNRT_RETURN_IF_ERROR(check_.Check(threads));
  checked_ = true;
  return Status::Ok();
}

Status Plan::CheckWeights() {
  if (!check_) return Status::Ok();
  QNNRT_RETURN_IF_ERROR(check_->Check(threads_));
  if (common_ != nullptr) QNNRT_RETURN_IF_ERROR(common_->Check(threads_));
  check_.reset();
  guarded_ = shared_arena_ != nullptr;
  return Status::Ok();
}

Status Plan::RunWatched(uint64_t* times, const Interrupt* interrupt) {
  const Executing executing;
  if (check_) QNNRT_RETURN_IF_ERROR(CheckWeights());
  std::unique_lock<FairMutex> alone;
  if (shared_arena_ != nullptr) alone = std::unique_lock<FairMutex>(*shared_arena_->mutex);
  uint64_t before = times == nullptr ? 0 : MonotonicNanoseconds();
  for (const Step& step : steps_) {
    if (interrupt != nullptr) QNNRT_RETURN_IF_ERROR(interrupt->Check());
    Status status = step.kernel->Run({step.in, step.out, step.scratch, threads_, step.persistent});
    if (!status.ok()) return Stopped(step, std::move(status));
    if (times == nullptr) continue;
    uint64_t now = MonotonicNanoseconds();
    *times++ = now - before;
    before = now;
  }
  return Status::Ok();
}

Status Plan::Stopped(const Step& step, Status status) {
  if (status.code() != QNN_GRAPH_ERROR_EARLY_TERMINATION || !early_termination_)
    return Failed(step, std::move(status));
  return early_termination_->Finish(static_cast<size_t>(&step - steps_.data()), [this](size_t i) {
    const Step& s = steps_[i];
    Status ran = s.kernel->Run({s.in, s.out, s.scratch, threads_, s.persistent});
    const bool early = ran.code() == QNN_GRAPH_ERROR_EARLY_TERMINATION;
    return ran.ok() || early ? std::move(ran) : Failed(s, std::move(ran));
  });
}

Status Plan::Failed(const Step& step, Status status) const {
  const Node& n = node(static_cast<size_t>(&step - steps_.data()));
  return std::move(status).Within("node '" + n.name + "' (" + n.type + ")");
}

}  // namespace qnnrt
