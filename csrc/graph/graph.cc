#include "graph/graph.h"

#include <algorithm>
#include <cinttypes>
#include <numeric>
#include <unordered_set>
#include <utility>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "abi/qnn_errors.h"
#include "abi/qnn_objects.h"
#include "memory/descriptor.h"
#include "memory/memory.h"
#include "ops/encoding.h"
#include "ops/fixed/bias_scale.h"
#include "ops/onednn_state.h"
#include "support/clock.h"
#include "support/cpu.h"
#include "support/guard.h"
#include "support/pointer_map.h"

namespace qnnrt {
namespace {

// Of scales and offsets of blocks. They come from the C library, which keeps what it gets back
// where smaller things that stay lie behind it.
constexpr size_t kManyPairs = size_t{1} << 20;

void ReturnFreedMemory() {
#if defined(__GLIBC__)
  (void)malloc_trim(0);
#endif
}

}  // namespace

Status Graph::Spent() const {
  return Error(QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED,
               "graph '%s': its graphFinalize has failed after constants had been freed "
               "(RELEASE_CONSTANTS): free the context and compose it again",
               name_.c_str());
}

Status Graph::CheckOpen(const char* what) const {
  if (spent_) return Spent();
  if (finalized() || compiled_elsewhere_) {
    return Error(QNN_GRAPH_ERROR_GRAPH_FINALIZED, "graph '%s' is finalized: it takes no more %s",
                 name_.c_str(), what);
  }
  if (declared_) {
    return Error(QNN_GRAPH_ERROR_GRAPH_FINALIZED,
                 "graph '%s' comes from a context binary: it takes no more %s", name_.c_str(),
                 what);
  }
  return Status::Ok();
}

Status Graph::CheckNew(const Tensor& tensor) const {
  const char* name = tensor.name.c_str();
  if (by_name_.count(tensor.name) != 0) {
    return Error(QNN_TENSOR_ERROR_ALREADY_EXISTS, "graph '%s' has a tensor '%s' already",
                 name_.c_str(), name);
  }
  uint64_t count;
  if (!ElementCount(tensor.shape, &count) || count > (uint64_t{1} << 48)) {
    return Error(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM,
                 "tensor '%s': shape %s has more elements than memory can hold", name,
                 ShapeText(tensor.shape).c_str());
  }
  return CheckTensor(tensor);
}

Status Graph::Add(Tensor tensor) {
  QNNRT_RETURN_IF_ERROR(CheckNew(tensor));
  tensors_.push_back(std::move(tensor));
  Tensor* added = &tensors_.back();
  by_id_[added->id] = added;
  by_name_[added->name] = added;
  if (added->is_input()) inputs_.push_back(added);
  if (added->is_output()) outputs_.push_back(added);
  return Status::Ok();
}

Status Graph::AddTensor(Tensor tensor, uint32_t* id) {
  auto lock = Lock();
  // A name that is taken is told even then, as by the vendor's library: whoever composes a graph
  // twice hears of that.
  if (by_name_.count(tensor.name) == 0) QNNRT_RETURN_IF_ERROR(CheckOpen("tensors"));
  tensor.id = static_cast<uint32_t>(tensors_.size()) + 1;
  QNNRT_RETURN_IF_ERROR(Add(std::move(tensor)));
  prepared_ = Prepared();
  *id = static_cast<uint32_t>(tensors_.size());
  return Status::Ok();
}

Tensor* Graph::FindTensor(uint32_t id) {
  auto lock = Lock();
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

// An op of a package has its constants before any pass has run.
Status Graph::UnpackInputs(const Node& node) {
  for (const Tensor* t : node.inputs) {
    if (t == nullptr || !t->two_in_byte) continue;
    Tensor* tensor = by_id_.at(t->id);
    std::shared_ptr<AlignedBytes> bytes = Unpacked(*tensor);
    if (bytes == nullptr) {
      return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory for tensor '%s' in bytes",
                   tensor->name.c_str());
    }
    tensor->data = std::move(bytes);
    tensor->two_in_byte = false;
  }
  return Status::Ok();
}

Status CheckOutputs(const Node& node) {
  for (const Tensor* t : node.outputs) {
    if (t == nullptr) continue;
    const bool is_static = t->type == QNN_TENSOR_TYPE_STATIC;
    if (is_static || (t->is_input() && !t->is_state())) {
      return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                   "node '%s': output '%s' is %s and cannot be written", node.name.c_str(),
                   t->name.c_str(), is_static ? "static" : "a graph input");
    }
  }
  return Status::Ok();
}

Status Graph::AddNode(Node node) {
  auto lock = Lock();
  QNNRT_RETURN_IF_ERROR(CheckOpen("nodes"));
  if (node.package_op != nullptr) QNNRT_RETURN_IF_ERROR(UnpackInputs(node));
  std::optional<Tensor> bias = BiasOfProducts(node);
  if (bias) node.inputs[2] = &*bias;
  Status valid = ValidateClientNode(&node);
  if (!valid.ok()) return std::move(valid).WithCode(QNN_GRAPH_ERROR_INVALID_OP_CONFIG);
  if (host_.admit != nullptr)
    QNNRT_RETURN_IF_ERROR(host_.admit(node).WithCode(QNN_GRAPH_ERROR_INVALID_OP_CONFIG));
  QNNRT_RETURN_IF_ERROR(CheckOutputs(node));
  if (bias) {
    bias->id = static_cast<uint32_t>(tensors_.size()) + 1;
    tensors_.push_back(std::move(*bias));
    node.inputs[2] = &tensors_.back();
  }
  TakeValues(&node);
  nodes_.push_back(std::move(node));
  prepared_ = Prepared();
  return Status::Ok();
}

// A NATIVE tensor whose value a node has read may be written again, as on the vendor's library. The
// new value is that of the nodes that are added later, and gets a tensor of its own.
// So may an APP_READWRITE tensor: what was written last is its new value.
void Graph::TakeValues(Node* node) {
  for (const Tensor*& t : node->inputs) {
    auto found = values_.find(t);
    if (found == values_.end()) continue;
    t = found->second.tensor;
    found->second.read = true;
  }
  for (const Tensor*& t : node->outputs) {
    if (t != nullptr && t->is_state()) t = NewState(t, node);
    if (t == nullptr || t->type != QNN_TENSOR_TYPE_NATIVE) continue;
    auto [found, first] = values_.emplace(t, Value{t, false});
    if (!first && found->second.read) {
      Tensor value = *t;
      value.id = static_cast<uint32_t>(tensors_.size()) + 1;
      value.name += "~" + std::to_string(value.id);
      tensors_.push_back(std::move(value));
      found->second = {&tensors_.back(), false};
    }
    t = found->second.tensor;
  }
}

// The graph output that a node writes as the new value of a state. What an earlier node wrote then
// becomes a tensor between nodes.
const Tensor* Graph::NewState(const Tensor* state, Node* node) {
  const auto found = values_.find(state);
  if (found == values_.end()) {
    Tensor value = *state;
    value.type = QNN_TENSOR_TYPE_APP_READ;
    value.updates = state;
    tensors_.push_back(std::move(value));
    outputs_.push_back(&tensors_.back());
    values_.emplace(state, Value{&tensors_.back(), false});
    return &tensors_.back();
  }
  const Tensor* written = found->second.tensor;
  Tensor before = *state;
  before.type = QNN_TENSOR_TYPE_NATIVE;
  before.id = static_cast<uint32_t>(tensors_.size()) + 1;
  before.name += "~" + std::to_string(before.id);
  tensors_.push_back(std::move(before));
  const auto replace = [&](Node* n) {
    std::replace(n->inputs.begin(), n->inputs.end(), written, &std::as_const(tensors_.back()));
    std::replace(n->outputs.begin(), n->outputs.end(), written, &std::as_const(tensors_.back()));
  };
  for (Node& n : nodes_) replace(&n);
  replace(node);
  return written;
}

// Nodes in an order in which producers come first: the client's own order where that holds.
Status Graph::CheckConnected(std::vector<Node>* ordered) const {
  PointerMap<size_t> producer;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const Tensor* t : nodes_[i].outputs) {
      if (t == nullptr) continue;
      const auto [first, is_new] = producer.Insert(t);
      if (!is_new) {
        return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
                     "tensor '%s' is written by two nodes: '%s' and '%s'", t->name.c_str(),
                     nodes_[*first].name.c_str(), nodes_[i].name.c_str());
      }
      *first = i;
    }
  }
  std::vector<uint32_t> missing(nodes_.size(), 0);
  std::vector<std::vector<size_t>> readers(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const Tensor* t : nodes_[i].inputs) {
      if (t == nullptr || t->is_input() || t->is_static()) continue;
      const size_t* found = producer.Find(t);
      if (found == nullptr) {
        return Error(QNN_GRAPH_ERROR_UNCONNECTED_NODE, "node '%s' reads '%s', which no node writes",
                     nodes_[i].name.c_str(), t->name.c_str());
      }
      ++missing[i];
      readers[*found].push_back(i);
    }
  }
  for (const Tensor* t : outputs_) {
    if (producer.Find(t) == nullptr) {
      return Error(QNN_GRAPH_ERROR_UNCONNECTED_NODE, "graph output '%s' is written by no node",
                   t->name.c_str());
    }
  }
  // Sweeps over the client's order, each of which takes what no longer waits: one where that order
  // is right already. A node is of the sweep of the last of its producers, or of the next one where
  // that comes behind it.
  std::vector<size_t> sweep(nodes_.size(), 0), ready;
  ready.reserve(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (missing[i] == 0) ready.push_back(i);
  }
  for (size_t at = 0; at < ready.size(); ++at) {
    const size_t i = ready[at];
    for (size_t reader : readers[i]) {
      sweep[reader] = std::max(sweep[reader], sweep[i] + (i > reader ? 1 : 0));
      if (--missing[reader] == 0) ready.push_back(reader);
    }
  }
  if (ready.size() != nodes_.size()) {
    return Error(QNN_GRAPH_ERROR_UNCONNECTED_NODE,
                 "graph '%s': %zu nodes wait for each other in a cycle", name_.c_str(),
                 nodes_.size() - ready.size());
  }
  std::sort(ready.begin(), ready.end(), [&](size_t a, size_t b) {
    return std::make_pair(sweep[a], a) < std::make_pair(sweep[b], b);
  });
  ordered->reserve(nodes_.size());
  for (size_t i : ready) ordered->push_back(nodes_[i]);
  return Status::Ok();
}

namespace {

Qnn_DataType_t StoredFloats(Precision precision) {
  switch (precision) {
    case Precision::kFloat16:
      return QNN_DATATYPE_FLOAT_16;
    case Precision::kBFloat16:
      return QNN_DATATYPE_BFLOAT_16;
    case Precision::kFastest:
      return CpuMultipliesBfloat16() ? QNN_DATATYPE_BFLOAT_16 : QNN_DATATYPE_FLOAT_32;
    default:
      return QNN_DATATYPE_FLOAT_32;
  }
}

}  // namespace

Status Graph::MakePlan(Interrupt* interrupt, const std::vector<Tensor*>& release,
                       Prepared* made) const {
  Prepared prepared;
  prepared.start = MonotonicNanoseconds();
  std::vector<Node> ordered;
  QNNRT_RETURN_IF_ERROR(CheckConnected(&ordered));
  PlanOptions options;
  options.kernels.portable_only = options_.portable_only;
  options.kernels.threads = ThreadsToMake();
  options.kernels.interrupt = interrupt;
  options.plan_milliseconds = options_.plan_milliseconds;
  options.scope = Scope();
  options.release = &release;
  QNNRT_ASSIGN_OR_RETURN(options.keep_at_most,
                         ConstantsToKeep(options_.keep_constants, options_.release_constants));
  UseClientMemory(&options);
  NodeGraph graph(std::move(ordered));
  graph.scope = options.scope;
  graph.MayRelease(release);
  QNNRT_ASSIGN_OR_RETURN(const KeptFloats kept, FindKeptFloats(graph, options_.float32_nodes));
  const Qnn_DataType_t stored = StoredFloats(options_.precision);
  QNNRT_RETURN_IF_ERROR(RunPasses(&graph, Threads(options.kernels.threads), &prepared.passes,
                                  interrupt, PassLevel::kAll,
                                  {stored, &kept, options_.byte_activations}));
  if (stored != QNN_DATATYPE_FLOAT_32) {
    int changes = 0;
    QNNRT_RETURN_IF_ERROR(LowerPrecision(&graph, stored, kept, &changes));
    prepared.passes.push_back({std::string("store floats as ") + DataTypeName(stored), changes});
  }
  if (options_.clamp_half) {
    int changes = 0;
    QNNRT_RETURN_IF_ERROR(ClampHalf(&graph, &changes));
    if (changes > 0) prepared.passes.push_back({"clamp FLOAT_16", changes});
  }
  if (const int states = OrderStates(&graph, outputs_); states > 0)
    prepared.passes.push_back({"order states", states});
  prepared.optimized = MonotonicNanoseconds();
  QNNRT_ASSIGN_OR_RETURN(prepared.plan, Plan::Make(std::move(graph), inputs_, outputs_, options));
  if (options_.strict) QNNRT_RETURN_IF_ERROR(CheckInPlace(*prepared.plan));
  prepared.end = MonotonicNanoseconds();
  *made = std::move(prepared);
  return Status::Ok();
}

Status Graph::Finalize(ProfileScope* profile, Interrupt* interrupt) {
  auto lock = Lock();
  if (spent_) return Spent();
  Status status = Contained([&] { return FinalizeLocked(profile, interrupt); },
                            [](Status&& thrown) { return std::move(thrown); });
  if (status.ok() || finalized()) return status;
  for (const Tensor& t : tensors_) {
    if (t.is_static() && t.data->size() != 0 && !t.data->there()) spent_ = true;
  }
  return status;
}

Status Graph::FinalizeLocked(ProfileScope* profile, Interrupt* interrupt) {
  if (finalized() || compiled_elsewhere_)
    return Error(QNN_GRAPH_ERROR_GRAPH_FINALIZED, "graph '%s' is finalized already", name_.c_str());
  if (declared_ && pools_ == nullptr) {
    return Error(QNN_GRAPH_ERROR_GRAPH_FINALIZED,
                 "graph '%s' comes from a context binary whose graphs are deferred: "
                 "contextFinalize makes it ready",
                 name_.c_str());
  }
  uint64_t begin = MonotonicNanoseconds();
  // Loads the fast kernels if nothing has yet: initialization, not this graph's own work. Where
  // nobody asks what takes how long, the first node that they are faster for loads them.
  const bool asked = profile != nullptr || OneDnnChosen();
  const char* library = options_.portable_only || !asked ? nullptr : OneDnnVersion();
  uint64_t start = MonotonicNanoseconds();
  Prepared own;
  Prepared* made = pools_ == nullptr ? &own : &prepared_;
  std::vector<Tensor*> release;
  if (options_.release_constants && pools_ == nullptr) {
    for (Tensor& t : tensors_) {
      if (t.is_static()) release.push_back(&t);
    }
  }
  if (made->plan == nullptr)
    QNNRT_RETURN_IF_ERROR(declared_ ? MakeDeferred(made) : MakePlan(interrupt, release, made));
  if (pools_ != nullptr) QNNRT_RETURN_IF_ERROR(CheckPools(*made->plan));
  if (interrupt != nullptr) QNNRT_RETURN_IF_ERROR(interrupt->Conclude());
  const auto note = [&](const Staging* staging) {
    if (profile == nullptr) return;
    uint64_t end = MonotonicNanoseconds();
    profile->Add(QNN_PROFILE_EVENTTYPE_INIT, QNN_PROFILE_EVENTUNIT_MICROSEC, (start - begin) / 1000,
                 begin / 1000,
                 library == nullptr ? "init: portable kernels" : std::string("init: ") + library);
    int top = profile->Add(QNN_PROFILE_EVENTTYPE_FINALIZE, QNN_PROFILE_EVENTUNIT_MICROSEC,
                           (end - start) / 1000, start / 1000, "finalize");
    if (top >= 0 && staging != nullptr) {
      profile->Add(QNN_PROFILE_EVENTTYPE_BACKEND, QNN_PROFILE_EVENTUNIT_BYTES,
                   staging->stats().reserved_at_finalize, end / 1000, "reserved for staging", top);
    }
    if (top >= 0 && profile->detailed()) {
      profile->Add(QNN_PROFILE_EVENTTYPE_BACKEND, QNN_PROFILE_EVENTUNIT_MICROSEC,
                   (made->optimized - made->start) / 1000, made->start / 1000, "passes", top);
      profile->Add(QNN_PROFILE_EVENTTYPE_BACKEND, QNN_PROFILE_EVENTUNIT_MICROSEC,
                   (made->end - made->optimized) / 1000, made->optimized / 1000, "kernels and plan",
                   top);
    }
  };
  return Install(made, note);
}

PlanChanges Compare(const GraphOptions& a, const GraphOptions& b) {
  PlanChanges changes{};
  changes.kernels = a.portable_only != b.portable_only || a.precision != b.precision ||
                    a.float32_nodes != b.float32_nodes || a.clamp_half != b.clamp_half ||
                    a.keep_constants != b.keep_constants ||
                    a.byte_activations != b.byte_activations;
  changes.threads = a.threads != b.threads;
  changes.borders = a.exclude_io != b.exclude_io;
  changes.effort = a.plan_milliseconds != b.plan_milliseconds;
  return changes;
}

void Graph::set_options(const GraphOptions& options) {
  if (Compare(options, options_).any()) prepared_ = Prepared();
  options_ = options;
  if (staging_ != nullptr) staging_->set_strict(options.strict);
}

Status Graph::CheckOptions(const GraphOptions& options) const {
  const PlanChanges changes = Compare(options, options_);
  if (finalized() && (changes.kernels || changes.threads)) {
    return Status(QNN_GRAPH_ERROR_GRAPH_FINALIZED,
                  declared_ ? "threads of a context binary's graph are chosen before it is ready: "
                              "with DEFER_GRAPH_INIT before contextFinalize, on lpai before "
                              "graphFinalize"
                            : "threads and kernels are chosen before graphFinalize");
  }
  if (declared_ && changes.kernels) {
    return Status(QNN_GRAPH_ERROR_GRAPH_FINALIZED,
                  "the kernels of a context binary's graph were chosen when it was prepared: its "
                  "weights are packed for them");
  }
  if (options.strict && plan_ != nullptr) QNNRT_RETURN_IF_ERROR(CheckInPlace(*plan_));
  if (!changes.borders || AnyPlan() == nullptr || pools_ == nullptr) return Status::Ok();
  return Error(finalized() ? QNN_GRAPH_ERROR_GRAPH_FINALIZED : QNN_GRAPH_ERROR_INVALID_ARGUMENT,
               "graph '%s': whether inputs and outputs are allocated in the scratch memory is "
               "chosen before its size is asked for",
               name_.c_str());
}

namespace {

// Weights count in the domain once, as long as a graph has them: what others brought is theirs, and
// this graph keeps it mapped; the rest is its own, and may be kept so by later ones.
Result<std::vector<std::shared_ptr<const void>>> PayForWeights(const Plan& plan,
                                                               ProcessDomain* domain,
                                                               const std::string& name) {
  ContentTable& table = ContentTable::Get();
  const uint64_t own = plan.own_weight_bytes();
  std::vector<const AlignedBytes*> all;
  for (const SharedBytes& held : plan.held()) all.push_back(&held->origin());
  for (;;) {
    std::vector<std::shared_ptr<const void>> shares;
    uint64_t paid = 0;
    for (std::shared_ptr<const void>& payer : table.Payers(all, &paid)) {
      if (std::find(shares.begin(), shares.end(), payer) == shares.end())
        shares.push_back(std::move(payer));
    }
    QNNRT_ASSIGN_OR_RETURN(ProcessDomain::Share share,
                           domain->Map(own - std::min(own, paid), "weights of graph", name,
                                       QNN_COMMON_ERROR_MEM_ALLOC));
    shares.push_back(std::make_shared<ProcessDomain::Share>(std::move(share)));
    // Another thread may have paid for some of them since.
    if (table.Pay(all, paid, shares.back())) return shares;
  }
}

}  // namespace

Status Graph::Install(Prepared* made, FunctionRef<void(const Staging*)> note) {
  Plan* plan = made->plan.get();
  // All or nothing: what can run out of memory comes before the first change of this graph.
  std::vector<AppTensor> app;
  for (const auto* tensors : {&inputs_, &outputs_}) {
    for (const Tensor* t : *tensors) {
      uintptr_t bits = ElementSize(t->dtype) - 1;
      if (pools_ != nullptr) bits = std::max<uintptr_t>(bits, host_.start_alignment - 1);
      app.push_back({t, t->bytes(), bits, host_.domain != nullptr ? 0 : bits,
                     pools_ == nullptr ? 0 : host_.size_alignment - 1});
    }
  }
  std::vector<State> states;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i]->updates == nullptr) continue;
    const auto input = std::find(inputs_.begin(), inputs_.end(), outputs_[i]->updates);
    states.push_back({static_cast<size_t>(input - inputs_.begin()), inputs_.size() + i});
  }
  std::unordered_set<const Tensor*> named;
  for (const Node& node : plan->nodes()) named.insert(node.inputs.begin(), node.inputs.end());
  ProcessDomain::Share arena;
  std::vector<std::shared_ptr<const void>> weights;
  std::unique_ptr<Staging> staging;
  if (host_.domain != nullptr) {
    constexpr ErrorCode kFull = QNN_COMMON_ERROR_MEM_ALLOC;
    QNNRT_ASSIGN_OR_RETURN(weights, PayForWeights(*plan, host_.domain, name_));
    QNNRT_ASSIGN_OR_RETURN(
        arena, host_.domain->Map(plan->own_arena_bytes(), "arena of graph", name_, kFull));
    QNNRT_ASSIGN_OR_RETURN(staging,
                           Staging::Make(name_, inputs_, outputs_, host_.domain, plan->threads()));
    staging->set_strict(options_.strict);
    unstaged_.reserve(app.size());
  }
  own_binding_.entries.resize(app.size());
  own_binding_.pinned.reserve(app.size());
  own_binding_.syncs.reserve(app.size());
  patched_.assign(app.size(), nullptr);
  by_address_.resize(app.size());
  places_.reserve(app.size());
  std::iota(by_address_.begin(), by_address_.end(), size_t{0});
  step_times_.assign(plan->steps().size(), 0);
  if (pools_ != nullptr) {
    own_binding_.outputs.reserve(app.size());
    pools_->reported.assign(app.size(), {});
    PointAtPools(plan);
    plan->ResetState();
  }
  note(staging.get());
  app_ = std::move(app);
  states_ = std::move(states);
  written_.Resize(states_.size());
  passes_ = std::move(made->passes);
  plan_ = std::move(made->plan);
  source_ = nullptr;
  weights_shares_ = std::move(weights);
  arena_share_ = std::move(arena);
  staging_ = std::move(staging);
  // Weights that were packed or folded exist twice until here: those that no step reads are freed.
  size_t pairs = 0;
  for (Tensor& t : tensors_) {
    if (t.is_static() && !plan_->Reads(t.data.get())) t.data = nullptr;
    // Half as large as weights of 4 bits where passes have replaced those, and of no use any more.
    if (t.quantization.in_blocks() && named.count(&t) == 0) {
      pairs += t.quantization.scales.size();
      t.quantization = {};
    }
  }
  if (pairs >= kManyPairs) ReturnFreedMemory();
  ready_.store(true, std::memory_order_release);
  return Status::Ok();
}

GraphStats Graph::stats() {
  auto lock = LockUnlessReady();
  return {executes_.value(), Ticks::ToNanoseconds(execute_ticks_.value()),
          staging_ == nullptr ? StagingStats() : staging_->stats()};
}

std::vector<CopyRecord> Graph::Copies() {
  auto lock = LockUnlessReady();
  std::vector<CopyRecord> copies;
  if (staging_ != nullptr) copies = staging_->Copies();
  const uint64_t executes = executes_.value();
  if (plan_ == nullptr || executes == 0) return copies;
  for (const Tensor* t : plan_->copied_states())
    copies.push_back({t->name.c_str(), false, kStateCopy, t->bytes() * executes, executes});
  return copies;
}

void Graph::ResetStats() {
  auto lock = LockUnlessReady();
  executes_.Reset();
  execute_ticks_.Reset();
  if (staging_ != nullptr) staging_->ResetCounts();
}

Status Graph::CheckInPlace(const Plan& plan) const {
  if (plan.copied_states().empty()) return Status::Ok();
  const Tensor& t = *plan.copied_states().front();
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
               "tensor '%s' would have to be copied in every execution (%s, %" PRIu64
               " bytes) and the graph is strict: let the nodes that read its old value not depend "
               "on the new one, and update it by a node that replaces elements (ScatterNd, "
               "ScatterElements)",
               t.name.c_str(), kStateCopy, t.bytes());
}

const std::string& Graph::Describe() {
  auto lock = Lock();
  if (description_.empty() && plan_ != nullptr) description_ = plan_->Describe(passes_);
  return description_;
}

}  // namespace qnnrt
