// qnnrt_ext.h: the runtime's extensions of QNN.
#include "abi/qnnrt_ext.h"

#include <algorithm>
#include <cstdio>

#include "api/functions.h"
#include "api/runtime.h"
#include "graph/planner/planner.h"
#include "memory/memory.h"
#include "ops/op_table_json.h"
#include "support/allocations.h"
#include "support/version.h"

using qnnrt::Runtime;

namespace qnnrt {
namespace {

Result<ArenaPlan> PlanWithEffort(const std::vector<ArenaItem>& items,
                                 const Qnnrt_PlanOptions_t& options) {
  switch (options.effort) {
    case QNNRT_PLAN_BY_SIZE:
      return PlanArenaBySize(items);
    case QNNRT_PLAN_PORTFOLIO:
      return PlanArena(items);
    case QNNRT_PLAN_EXACT:  // without a limit the search may never end
      return PlanArena(
          items, {options.milliseconds,
                  options.steps == 0 && options.milliseconds == 0 ? UINT64_MAX : options.steps});
    default:
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "the effort of a plan is from 0 to 2, got %u",
                   options.effort);
  }
}

Status PlanGiven(const Qnnrt_ArenaItem_t* items, uint64_t count, const Qnnrt_PlanOptions_t* options,
                 uint64_t* offsets, Qnnrt_PlanInfo_t* info) {
  constexpr uint64_t kMost = uint64_t{1} << 31;  // the planner numbers them in 32 bits
  if (options == nullptr || info == nullptr ||
      ((items == nullptr || offsets == nullptr) && count != 0) || count > kMost)
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "null pointers, or more than 2^31 items");
  std::vector<ArenaItem> given;
  for (uint64_t i = 0; i < count; ++i)
    given.push_back({items[i].first, items[i].last, items[i].size, items[i].alignment});
  Result<ArenaPlan> plan = PlanWithEffort(given, *options);
  if (!plan.ok()) return std::move(plan).status().WithCode(QNN_COMMON_ERROR_INVALID_ARGUMENT);
  std::copy(plan->offsets.begin(), plan->offsets.end(), offsets);
  *info = {plan->peak, plan->lower_bound, plan->sum, plan->steps, plan->proved ? 1u : 0u,
           0,          plan->order};
  return Status::Ok();
}

// Numbers of the C interface are those of the levels.
constexpr bool Is(uint32_t passes, PassLevel level) {
  return passes == static_cast<uint32_t>(level);
}
static_assert(Is(QNNRT_PASSES_CONSTANTS, PassLevel::kConstants));
static_assert(Is(QNNRT_PASSES_PORTABLE, PassLevel::kPortable));
static_assert(Is(QNNRT_PASSES_FUNCTIONS, PassLevel::kFunctions));

uint64_t NoGraph(Qnn_GraphHandle_t handle) {
  return Runtime::Get().graphs.IsServed(handle) ? uint64_t{QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED}
                                                : uint64_t{QNN_GRAPH_ERROR_INVALID_HANDLE};
}

uint64_t StatsOf(Qnn_GraphHandle_t handle, Qnnrt_GraphStats_t* stats) {
  auto object = Runtime::Get().graphs.Find(handle);
  if (!object) return NoGraph(handle);
  Graph& graph = object->graph;
  *stats = {};
  GraphStats counted = graph.stats();
  stats->executes = counted.executes;
  stats->execute_nanoseconds = counted.execute_ns;
  const StagingStats& staging = counted.staging;
  stats->reserved_at_finalize_bytes = staging.reserved_at_finalize;
  stats->reserved_at_execute_bytes = staging.reserved_at_execute;
  stats->reserved_bytes = staging.reserved_at_finalize + staging.reserved_at_execute;
  stats->reserved_at = staging.reserved_at_finalize != 0  ? QNNRT_RESERVED_AT_FINALIZE
                       : staging.reserved_at_execute != 0 ? QNNRT_RESERVED_AT_EXECUTE
                                                          : QNNRT_RESERVED_NONE;
  stats->copied_in_bytes = staging.copied_in;
  stats->copied_out_bytes = staging.copied_out;
  stats->copied_bytes = staging.copied_in + staging.copied_out;
  auto lock = graph.LockUnlessReady();  // graphFinalize may run on another thread
  if (graph.plan() == nullptr) return QNN_SUCCESS;
  stats->arena_bytes = graph.plan()->arena().peak;
  stats->arena_lower_bound = graph.plan()->arena().lower_bound;
  stats->arena_sum = graph.plan()->arena().sum;
  stats->weight_bytes = graph.plan()->weight_bytes();
  stats->num_steps = graph.plan()->steps().size();
  return QNN_SUCCESS;
}

void CountLive(Qnnrt_LiveCounts_t* counts) {
  Runtime& runtime = Runtime::Get();
  Counters& memory = Memory::Get().counters();
  counts->buffers = static_cast<uint64_t>(memory.buffers.load());
  counts->maps = static_cast<uint64_t>(memory.maps.load());
  counts->fds = static_cast<uint64_t>(memory.fds.load());
  counts->mem_handles = static_cast<uint64_t>(memory.handles.load());
  counts->contexts = runtime.contexts.live();
  counts->graphs = runtime.graphs.live();
  counts->backends = runtime.backends.live();
  counts->profiles = runtime.profiles.live();
  counts->logs = runtime.logs.live();
  counts->devices = runtime.devices.live();
  counts->signals = runtime.signals.live();
  counts->lpai_allocators = runtime.lpai_allocators.live();
}

}  // namespace
}  // namespace qnnrt

extern "C" {

uint64_t qnnrt_graph_stats(Qnn_GraphHandle_t handle, Qnnrt_GraphStats_t* stats) {
  if (stats == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  return qnnrt::Guarded([&] { return qnnrt::StatsOf(handle, stats); });
}
uint64_t qnnrt_graph_copies(Qnn_GraphHandle_t handle, Qnnrt_CopyRecord_t* out, uint32_t capacity,
                            uint32_t* count) {
  if (count == nullptr || (out == nullptr && capacity != 0))
    return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    auto object = Runtime::Get().graphs.Find(handle);
    if (!object) return qnnrt::NoGraph(handle);
    const std::vector<qnnrt::CopyRecord> copies = object->graph.Copies();
    *count = static_cast<uint32_t>(copies.size());
    for (uint32_t i = 0; i < std::min(*count, capacity); ++i) {
      const qnnrt::CopyRecord& c = copies[i];
      out[i] = {c.tensor, c.input ? QNNRT_COPY_IN : QNNRT_COPY_OUT, 0, c.bytes, c.count, c.reason};
    }
    return QNN_SUCCESS;
  });
}

uint64_t qnnrt_graph_reset_stats(Qnn_GraphHandle_t handle) {
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    auto object = Runtime::Get().graphs.Find(handle);
    if (!object) return qnnrt::NoGraph(handle);
    object->graph.ResetStats();
    return QNN_SUCCESS;
  });
}

uint64_t qnnrt_graph_create_static(Qnn_GraphHandle_t handle, Qnn_Tensor_t* tensor,
                                   const int64_t* strides) {
  return qnnrt::api::CreateTensor(handle, tensor, strides, qnnrt::api::Lent::kNo);
}

uint64_t qnnrt_graph_lend_static(Qnn_GraphHandle_t handle, Qnn_Tensor_t* tensor,
                                 const int64_t* strides) {
  return qnnrt::api::CreateTensor(handle, tensor, strides, qnnrt::api::Lent::kToGraph);
}

uint64_t qnnrt_graph_keep_static(Qnn_GraphHandle_t handle, Qnn_Tensor_t* tensor,
                                 const int64_t* strides) {
  return qnnrt::api::CreateTensor(handle, tensor, strides, qnnrt::api::Lent::kToContext);
}

uint64_t qnnrt_graph_weights(Qnn_GraphHandle_t handle, Qnnrt_GraphWeights_t* weights) {
  if (weights == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  *weights = {};
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    auto object = Runtime::Get().graphs.Find(handle);
    if (!object) return qnnrt::NoGraph(handle);
    auto lock = object->graph.LockUnlessReady();
    const qnnrt::Plan* plan = object->graph.plan();
    if (plan == nullptr) return QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED;
    weights->shared_bytes = std::min(plan->shared_weight_bytes(), plan->weight_bytes());
    weights->private_bytes = plan->weight_bytes() - weights->shared_bytes;
    return QNN_SUCCESS;
  });
}

uint64_t qnnrt_weights_info(Qnnrt_WeightsInfo_t* info) {
  if (info == nullptr) return QNN_COMMON_ERROR_INVALID_ARGUMENT;
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    const qnnrt::ContentTable::Totals totals = qnnrt::ContentTable::Get().totals();
    *info = {totals.entries, totals.bytes, totals.found, totals.found_bytes};
    return QNN_SUCCESS;
  });
}

uint64_t qnnrt_graph_set_executor(Qnn_GraphHandle_t handle, const Qnnrt_Executor_t* executor) {
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    if (executor == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    auto object = Runtime::Get().graphs.Find(handle);
    if (!object) return qnnrt::Report(qnnrt::api::StaleGraph(handle));
    return qnnrt::Report(object->executable.Give(*executor));
  });
}

uint64_t qnnrt_graph_reset_state(Qnn_GraphHandle_t handle) {
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    auto object = Runtime::Get().graphs.Find(handle);
    if (!object) return qnnrt::Report(qnnrt::api::StaleGraph(handle));
    if (object->executable.finalized()) return QNN_SUCCESS;  // an executor keeps nothing
    return qnnrt::Report(object->graph.ResetState());
  });
}

uint64_t qnnrt_graph_free(Qnn_GraphHandle_t handle) {
  return qnnrt::Guarded([&] { return qnnrt::Report(qnnrt::api::FreeOneGraph(handle)); });
}

uint64_t qnnrt_graph_lower(Qnn_GraphHandle_t handle, uint32_t passes, const char** json) {
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    if (json == nullptr || passes > QNNRT_PASSES_FUNCTIONS) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    *json = nullptr;
    auto object = Runtime::Get().graphs.Find(handle);
    if (!object) return qnnrt::Report(qnnrt::api::StaleGraph(handle));
    auto lowered = object->graph.Lower(static_cast<qnnrt::PassLevel>(passes));
    if (!lowered.ok()) return qnnrt::Report(lowered.status());
    *json = *lowered;
    return QNN_SUCCESS;
  });
}

uint64_t qnnrt_graph_leave(Qnn_GraphHandle_t handle, const void* const* kept, uint64_t count) {
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    if (kept == nullptr && count != 0) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    auto object = Runtime::Get().graphs.Find(handle);
    if (!object) return qnnrt::Report(qnnrt::api::StaleGraph(handle));
    return qnnrt::Report(object->graph.ReleaseConstants(kept, count));
  });
}

uint64_t qnnrt_graph_io_address(Qnn_GraphHandle_t handle, uint32_t tensor, void** address) {
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    if (address == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
    *address = nullptr;
    auto object = Runtime::Get().graphs.Find(handle);
    if (!object) return qnnrt::Report(qnnrt::api::StaleGraph(handle));
    auto found = object->graph.IoAddress(tensor);
    if (!found.ok()) return qnnrt::Report(found.status());
    *address = *found;
    return QNN_SUCCESS;
  });
}

const char* qnnrt_graph_describe(Qnn_GraphHandle_t handle) {
  return qnnrt::Contained(
      [&]() -> const char* {
        auto object = Runtime::Get().graphs.Find(handle);
        if (!object) return nullptr;
        const std::string& description = object->graph.Describe();
        return description.empty() ? nullptr : description.c_str();
      },
      [](const qnnrt::Status&) -> const char* { return nullptr; });
}

uint64_t qnnrt_htp_domain_info(Qnnrt_DomainInfo_t* info) {
  if (info == nullptr) return QNN_COMMON_ERROR_INVALID_ARGUMENT;
  *info = {};
  return qnnrt::Guarded([&] {
    const auto now = qnnrt::ProcessDomain::Htp().totals();
    *info = {now.budget, now.used, now.peak, now.holders};
    return QNN_SUCCESS;
  });
}

uint64_t qnnrt_htp_domain_set_budget(uint64_t bytes) {
  if (bytes == 0) return QNN_COMMON_ERROR_INVALID_ARGUMENT;
  return qnnrt::Guarded([&] {
    qnnrt::ProcessDomain::Htp().SetBudget(bytes);
    return QNN_SUCCESS;
  });
}

uint64_t qnnrt_htp_domain_holders(Qnnrt_DomainHolder_t* out, uint32_t capacity, uint32_t* count) {
  if (count == nullptr || (out == nullptr && capacity != 0))
    return QNN_COMMON_ERROR_INVALID_ARGUMENT;
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    const auto held = qnnrt::ProcessDomain::Htp().Largest(SIZE_MAX);
    *count = static_cast<uint32_t>(held.size());
    for (uint32_t i = 0; i < std::min(*count, capacity); ++i) {
      out[i].bytes = held[i].bytes;
      std::snprintf(out[i].what, sizeof(out[i].what), "%s", held[i].what);
      std::snprintf(out[i].who, sizeof(out[i].who), "%s", held[i].who.c_str());
    }
    return QNN_SUCCESS;
  });
}

void qnnrt_live_counts(Qnnrt_LiveCounts_t* counts) {
  if (counts == nullptr) return;
  *counts = {};
  qnnrt::Contained([&] { qnnrt::CountLive(counts); });
}

const char* qnnrt_htp_describe(Qnn_DeviceHandle_t device) {
  return qnnrt::TextOrNull([&] { return qnnrt::DescribeHtp(device); });
}

uint64_t qnnrt_plan_arena(const Qnnrt_ArenaItem_t* items, uint64_t count,
                          const Qnnrt_PlanOptions_t* options, uint64_t* offsets,
                          Qnnrt_PlanInfo_t* info) {
  return qnnrt::Guarded(
      [&] { return qnnrt::Report(qnnrt::PlanGiven(items, count, options, offsets, info)); });
}

// Lambdas, since each type has a text: the functions themselves are of one type.
const char* qnnrt_config_table_json(void) {
  return qnnrt::LastingText([] { return qnnrt::ConfigTableJson(); });
}

uint64_t qnnrt_debug_allocations(void) { return qnnrt::AllocationCount(); }
void qnnrt_debug_fail_allocation(int64_t n) { qnnrt::FailAllocation(n); }
const char* qnnrt_version(void) { return QNNRT_VERSION; }

const char* qnnrt_kernel_library(void) {
  const char* text = qnnrt::LastingText([]() -> std::string {
    if (const char* fast = qnnrt::OneDnnVersion(); fast != nullptr) return fast;
    std::string why;
    qnnrt::OneDnnLoadState(&why);
    return "portable (" + why + ")";
  });
  return text != nullptr ? text : "portable";
}

const char* qnnrt_op_coverage_json(void) {
  return qnnrt::LastingText([] { return qnnrt::OpTableJson(); });
}

const char* qnnrt_op_json(const char* op) {
  return qnnrt::TextOrNull([op] { return op != nullptr ? qnnrt::OpTableJson(op) : std::string(); });
}

}  // extern "C"
