// Graphs from a binary, at once or deferred.
#include <algorithm>
#include <cinttypes>
#include <iterator>
#include <unordered_map>

#include "api/binary.h"
#include "memory/memory.h"
#include "support/fair_mutex.h"

namespace qnnrt::api {

// Kernels and weights are the same on all backends whose graphs the runtime executes itself.
Status Loader::CheckBackend() const {
  const BinaryHeader& header = view_.header();
  if (backend_.traits->external && header.backend_id == backend_.traits->id) return Status::Ok();
  for (const BackendTraits* own : {&CpuBackend(), &HtpBackend(), &LpaiBackend()}) {
    if (!backend_.traits->external && header.backend_id == own->id) return Status::Ok();
  }
  return Error(QNN_CONTEXT_ERROR_BINARY_CONFIGURATION,
               "this context binary was made for the backend with id %u, this is %s with id %u: "
               "prepare the model again for it",
               header.backend_id, backend_.traits->provider, backend_.traits->id);
}

Status Loader::ChooseGraphs() {
  if (!options_.enable_graphs) {
    for (const BinaryGraph& graph : view_.graphs()) graphs_.push_back(&graph);
    return Status::Ok();
  }
  for (const std::string& name : *options_.enable_graphs) {
    const BinaryGraph* graph = view_.Find(name);
    if (graph == nullptr) {
      std::string there;
      for (const BinaryGraph& g : view_.graphs())
        there += (there.empty() ? "'" : ", '") + g.name + "'";
      return Error(QNN_CONTEXT_ERROR_INVALID_CONFIG,
                   "ENABLE_GRAPHS: the context binary has no graph '%s'; it has %s", name.c_str(),
                   there.empty() ? "none" : there.c_str());
    }
    if (std::find(graphs_.begin(), graphs_.end(), graph) == graphs_.end()) graphs_.push_back(graph);
  }
  return Status::Ok();
}

// What works, but not as well as it could: logged, or refused with STRICT.
Status Loader::CheckSuitable() {
  std::string why;
  const bool aligned = reinterpret_cast<uintptr_t>(view_.data()) % kBinaryBlobAlignment == 0;
  in_place_ = options_.persistent_binary && aligned;
  if (options_.persistent_binary && !aligned) {
    why = "the persistent binary does not begin on a boundary of " +
          std::to_string(kBinaryBlobAlignment) + " bytes, so that its weights are copied";
  }
  if (backend_.traits->external) return Suitable(why);  // its kernels are somebody else's
  const int asked = backend_.graph_options().threads;
  const int threads = asked > 0 ? asked : Threads::DefaultLimit();
  for (const BinaryGraph* graph : graphs_) {
    if (graph->threads == threads || !why.empty()) continue;
    why = "graph '" + graph->name + "' was prepared for " + std::to_string(graph->threads) +
          " threads and runs with those" +
          (options_.defer_graph_init ? " unless NUM_THREADS is set" : "") + ", where " +
          std::to_string(threads) + " are wanted";
  }
  bool portable_only = true;
  for (const BinaryGraph* graph : graphs_) portable_only = portable_only && graph->portable_only;
  const std::string here = KernelIdentity(portable_only);
  if (why.empty() && !graphs_.empty() && graphs_.size() == view_.graphs().size() &&
      here != view_.header().kernels) {
    why = "it was prepared with the kernels " + view_.header().kernels + ", here are " + here;
  }
  return Suitable(why);
}

Status Loader::Suitable(const std::string& why) const {
  if (why.empty()) return Status::Ok();
  if (options_.strict_compatibility) {
    return Error(QNN_CONTEXT_ERROR_BINARY_SUBOPTIMAL,
                 "this context binary is not the best for this machine: %s; prepare the "
                 "model again, or ask for PERMISSIVE compatibility",
                 why.c_str());
  }
  if (Wants(QNN_LOG_LEVEL_WARN))
    backend_.log->Write(QNN_LOG_LEVEL_WARN, "context binary: %s", why.c_str());
  return Status::Ok();
}

Status Loader::Open(const void* data, uint64_t size) {
  QNNRT_ASSIGN_OR_RETURN(view_, BinaryView::Open(data, size));
  QNNRT_RETURN_IF_ERROR(CheckBackend());
  QNNRT_RETURN_IF_ERROR(ChooseGraphs());
  return CheckSuitable();
}

uint64_t Loader::weights_size() const {
  // Cannot overflow: parts of one binary, but a graph's could be given twice.
  uint64_t size = graphs_.empty() ? 0 : graphs_[0]->common_size;
  for (const BinaryGraph* graph : graphs_) size += graph->weights_size;
  return size;
}

uint64_t Loader::spill_fill_size() const {
  uint64_t size = 0;
  for (const BinaryGraph* graph : graphs_) size = std::max(size, graph->arena_bytes);
  return size;
}

Result<std::shared_ptr<CommonWeights>> TakeCommon(const BinaryView& view, bool check, uint8_t* to,
                                                  std::shared_ptr<const void> owner) {
  if (view.graphs().empty() || view.graphs()[0].common_size == 0)
    return std::shared_ptr<CommonWeights>();
  const BinaryGraph& one = view.graphs()[0];
  int threads = 1;
  for (const BinaryGraph& graph : view.graphs()) threads = std::max(threads, graph.threads);
  const uint8_t* const data = view.data() + one.common_offset;
  const WeightCheck expected{data, one.common_size, one.common_checksum, one.name};
  if (check || to != nullptr) {
    QNNRT_RETURN_IF_ERROR(expected.Compare(Checksum(data, one.common_size, Threads(threads), to)));
  }
  return CommonOf(view, one, check || to != nullptr, to, std::move(owner));
}

// A part of the weights in memory of the runtime's: of equal ones in the contexts that share
// weights the same. Errors: 1002, 5005 it does not have its checksum.
Result<std::shared_ptr<AlignedBytes>> Loader::CopyOf(const WeightCheck& part, int threads) const {
  const ShareScope scope = options_.weight_sharing ? kProcessScope : options_.group_scope;
  std::optional<ContentKey> key;
  if (scope && part.size >= kLeastShared) {
    key = ContentKey{DigestOf(part.data, part.size, Threads(threads)), part.size, *scope};
    if (auto found = ContentTable::Get().Find(*key)) {
      QNNRT_RETURN_IF_ERROR(part.Check(Threads(threads)));
      return found;
    }
  }
  std::shared_ptr<AlignedBytes> copy = AlignedBytes::Make(part.size);
  if (copy == nullptr) {
    return Error(QNN_CONTEXT_ERROR_MEM_ALLOC,
                 "out of memory: the weights of graph '%s' have %" PRIu64
                 " bytes; with a persistent binary they are not copied",
                 part.graph.c_str(), part.size);
  }
  QNNRT_RETURN_IF_ERROR(part.Compare(
      Checksum(part.data, part.size, Threads(threads), static_cast<uint8_t*>(copy->data()))));
  return key ? ContentTable::Get().Publish(*key, std::move(copy)) : copy;
}

Result<LoadOptions> Loader::Weights(const BinaryGraph& described, bool check) {
  LoadOptions load;
  if (described.common_size != 0 && common_ == nullptr) {
    if (in_place_) {
      QNNRT_ASSIGN_OR_RETURN(common_, TakeCommon(view_, check, nullptr, nullptr));
    } else {
      const WeightCheck part{view_.data() + described.common_offset, described.common_size,
                             described.common_checksum, described.name};
      QNNRT_ASSIGN_OR_RETURN(const std::shared_ptr<AlignedBytes> copy,
                             CopyOf(part, described.threads));
      common_ = CommonOf(view_, described, true, static_cast<uint8_t*>(copy->data()), copy);
    }
  }
  load.common = common_;
  load.weights = view_.data() + described.weights_offset;
  const WeightCheck expected{load.weights, described.weights_size, described.weights_checksum,
                             described.name};
  if (!in_place_) {
    QNNRT_ASSIGN_OR_RETURN(std::shared_ptr<AlignedBytes> copy, CopyOf(expected, described.threads));
    load.weights = static_cast<uint8_t*>(copy->data());
    load.owner = std::move(copy);
    load.checked = true;
  } else if (check) {
    QNNRT_RETURN_IF_ERROR(expected.Check(Threads(described.threads)));
    load.checked = true;
  }
  return load;
}

Status Loader::Load(const BinaryGraph& described, bool check, Graph* graph) {
  QNNRT_ASSIGN_OR_RETURN(const LoadOptions load, Weights(described, check));
  return graph->Load(view_, described, load);
}

Result<std::shared_ptr<const LoadSource>> Loader::Source(
    std::shared_ptr<const AlignedBytes> copy) const {
  auto source = std::make_shared<LoadSource>();
  source->view = view_;
  source->owner = std::move(copy);
  source->checked = options_.strict_compatibility;
  QNNRT_ASSIGN_OR_RETURN(source->common,
                         TakeCommon(view_, source->checked, nullptr, source->owner));
  for (const BinaryGraph* graph : graphs_) {
    if (!source->checked) break;
    const WeightCheck expected{view_.data() + graph->weights_offset, graph->weights_size,
                               graph->weights_checksum, graph->name};
    QNNRT_RETURN_IF_ERROR(expected.Check(Threads(graph->threads)));
  }
  return std::shared_ptr<const LoadSource>(std::move(source));
}

void Loader::LogLoad(uint64_t nanoseconds) const {
  if (!Wants(QNN_LOG_LEVEL_INFO)) return;
  const BinaryHeader& header = view_.header();
  backend_.log->Write(QNN_LOG_LEVEL_INFO,
                      "context binary of %" PRIu64
                      " bytes by %s, prepared with %s: %zu graphs in "
                      "%" PRIu64 " us, %" PRIu64 " bytes of weights %s",
                      header.size, header.build_id.c_str(), header.kernels.c_str(), graphs_.size(),
                      nanoseconds / 1000, weights_size(), in_place_ ? "used in place" : "copied");
  if (!Wants(QNN_LOG_LEVEL_VERBOSE)) return;
  for (const BinaryGraph* graph : graphs_) {
    backend_.log->Write(QNN_LOG_LEVEL_VERBOSE,
                        "graph '%s' of the context binary: %zu inputs, %zu outputs, %" PRIu64
                        " bytes of weights, arena %" PRIu64 " bytes, %d threads",
                        graph->name.c_str(), graph->inputs.size(), graph->outputs.size(),
                        graph->weights_size, graph->arena_bytes, graph->threads);
  }
}

GraphOptions OptionsFor(const Backend& backend, const BinaryGraph& graph) {
  GraphOptions options = backend.graph_options();
  options.threads = graph.threads;
  options.portable_only = graph.portable_only;
  return options;
}

namespace {

// The client's buffers for the graphs' memory.
struct ClientBuffers {
  std::shared_ptr<MemUse> weights, spill_fill;  // null: none registered

  static Result<std::shared_ptr<MemUse>> Find(uint64_t context, MemKind kind, uint64_t needed) {
    QNNRT_ASSIGN_OR_RETURN(MemUse use, Memory::Get().registry().AcquireKind(context, kind));
    if (!use) return std::shared_ptr<MemUse>();
    const bool aligned = reinterpret_cast<uintptr_t>(use->address) % kBinaryBlobAlignment == 0;
    if (use->available < needed || !aligned || !use->writable) {
      return Error(QNN_CONTEXT_ERROR_INVALID_ARGUMENT,
                   "the %s of the context has %" PRIu64 " bytes at %p%s; needed are %" PRIu64
                   " writable ones on a boundary of %" PRIu64,
                   MemKindName(kind), use->available, static_cast<void*>(use->address),
                   use->writable ? "" : ", read only", needed, kBinaryBlobAlignment);
    }
    return std::make_shared<MemUse>(std::move(use));
  }
};

// Held by executions whose arenas are in the same file, which several contexts may share at several
// offsets.
std::shared_ptr<FairMutex> ArenaMutexOf(const FileId& file) {
  using Mutexes = std::unordered_map<FileId, std::weak_ptr<FairMutex>, FileIdHash>;
  static std::mutex* table_mutex = new std::mutex;
  static Mutexes* mutexes = new Mutexes;
  std::lock_guard<std::mutex> lock(*table_mutex);
  for (auto entry = mutexes->begin(); entry != mutexes->end();)
    entry = entry->second.expired() ? mutexes->erase(entry) : std::next(entry);
  std::weak_ptr<FairMutex>& kept = (*mutexes)[file];
  std::shared_ptr<FairMutex> mutex = kept.lock();
  if (mutex == nullptr) kept = mutex = std::make_shared<FairMutex>();
  return mutex;
}

}  // namespace

Result<uint64_t> SpillFillSize(const Context& context) {
  if (context.binary == nullptr) return uint64_t{0};
  const LoadedBinary& binary = *context.binary;
  if (!binary.deferred) return binary.spill_fill_size;
  uint64_t size = 0;
  for (const auto& entry : context.graphs) {
    auto object = Runtime::Get().graphs.Find(entry.second);
    const BinaryGraph* described = binary.view.Find(entry.first);
    if (!object || described == nullptr) continue;
    QNNRT_ASSIGN_OR_RETURN(const uint64_t arena,
                           object->graph.ArenaToLoad(binary.view, *described));
    size = std::max(size, arena);
  }
  return size;
}

Status FinalizeDeferred(Context* context) {
  LoadedBinary& binary = *context->binary;
  ClientBuffers buffers;
  QNNRT_ASSIGN_OR_RETURN(buffers.weights,
                         ClientBuffers::Find(context->id, MemKind::kWeights, binary.weights_size));
  QNNRT_ASSIGN_OR_RETURN(const MemUse registered,
                         Memory::Get().registry().AcquireKind(context->id, MemKind::kSpillFill));
  if (registered) {  // only then, since with other threads this makes every graph's plan
    QNNRT_ASSIGN_OR_RETURN(const uint64_t needed, SpillFillSize(*context));
    QNNRT_ASSIGN_OR_RETURN(buffers.spill_fill,
                           ClientBuffers::Find(context->id, MemKind::kSpillFill, needed));
  }
  std::shared_ptr<SharedArena> arena;
  if (buffers.spill_fill != nullptr) {
    arena = std::make_shared<SharedArena>();
    arena->data = (*buffers.spill_fill)->address;
    arena->size = (*buffers.spill_fill)->available;
    arena->owner = buffers.spill_fill;
    arena->mutex = ArenaMutexOf((*buffers.spill_fill)->id);
  }
  uint64_t offset = 0;  // in the weights buffer
  if (binary.common == nullptr && !binary.view.graphs().empty()) {
    uint8_t* const to = buffers.weights == nullptr ? nullptr : (*buffers.weights)->address;
    std::shared_ptr<const void> owner = binary.copy;
    if (to != nullptr) owner = buffers.weights;
    QNNRT_ASSIGN_OR_RETURN(
        binary.common,
        TakeCommon(binary.view, context->options.strict_compatibility, to, std::move(owner)));
  }
  if (buffers.weights != nullptr && binary.common != nullptr) offset = binary.common->size();
  for (const auto& entry : context->graphs) {
    auto object = Runtime::Get().graphs.Find(entry.second);
    const BinaryGraph* described = binary.view.Find(entry.first);
    if (!object || described == nullptr) continue;
    LoadOptions load;
    load.weights = binary.view.data() + described->weights_offset;
    load.owner = binary.copy;
    load.arena = arena;
    load.common = binary.common;
    const WeightCheck expected{load.weights, described->weights_size, described->weights_checksum,
                               described->name};
    const Threads threads(described->threads);
    if (buffers.weights != nullptr) {
      uint8_t* to = (*buffers.weights)->address + offset;
      offset += described->weights_size;
      if (object->graph.Ready()) continue;  // by a call before this one, which failed later
      QNNRT_RETURN_IF_ERROR(
          expected.Compare(Checksum(load.weights, described->weights_size, threads, to)));
      load.weights = to;
      load.owner = buffers.weights;
      load.checked = load.counted = true;
    } else if (object->graph.Ready()) {
      continue;
    } else if (context->options.strict_compatibility) {
      QNNRT_RETURN_IF_ERROR(expected.Check(threads));
      load.checked = true;
    }
    QNNRT_RETURN_IF_ERROR(object->graph.Load(binary.view, *described, load));
  }
  QNNRT_ASSIGN_OR_RETURN(binary.spill_fill_size, SpillFillSize(*context));
  binary.deferred = false;
  binary.view = BinaryView();
  binary.common = nullptr;
  binary.copy = nullptr;
  return Status::Ok();
}

}  // namespace qnnrt::api
