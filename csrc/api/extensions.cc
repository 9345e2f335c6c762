// qnnrt_ext.h: what this runtime says beside QNN.
#include "abi/qnnrt_ext.h"

#include "api/runtime.h"
#include "memory/memory.h"
#include "ops/op_table.h"
#include "support/allocations.h"
#include "support/version.h"

using qnnrt::Runtime;

extern "C" {

uint64_t qnnrt_graph_stats(Qnn_GraphHandle_t handle, Qnnrt_GraphStats_t* stats) {
  if (stats == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  auto object = Runtime::Get().graphs.Find(handle);
  if (!object) return QNN_GRAPH_ERROR_INVALID_HANDLE;
  qnnrt::Graph& graph = object->graph;
  *stats = {};
  qnnrt::GraphStats counted = graph.stats();
  stats->executes = counted.executes;
  stats->execute_nanoseconds = counted.execute_ns;
  auto lock = graph.Lock();  // graphFinalize may run on another thread
  if (graph.plan() == nullptr) return QNN_SUCCESS;
  stats->arena_bytes = graph.plan()->arena().peak;
  stats->arena_lower_bound = graph.plan()->arena().lower_bound;
  stats->arena_sum = graph.plan()->arena().sum;
  stats->weight_bytes = graph.plan()->weight_bytes();
  stats->num_steps = graph.plan()->steps().size();
  return QNN_SUCCESS;
}

// On the cpu backend every buffer is used where it is: there is no place that could copy one, so
// the list is empty by construction.
uint64_t qnnrt_graph_copies(Qnn_GraphHandle_t handle, Qnnrt_CopyRecord_t*, uint32_t,
                            uint32_t* count) {
  if (count == nullptr) return QNN_GRAPH_ERROR_INVALID_ARGUMENT;
  if (!Runtime::Get().graphs.Find(handle)) return QNN_GRAPH_ERROR_INVALID_HANDLE;
  *count = 0;
  return QNN_SUCCESS;
}

uint64_t qnnrt_graph_reset_stats(Qnn_GraphHandle_t handle) {
  auto object = Runtime::Get().graphs.Find(handle);
  if (!object) return QNN_GRAPH_ERROR_INVALID_HANDLE;
  object->graph.ResetStats();
  return QNN_SUCCESS;
}

const char* qnnrt_graph_describe(Qnn_GraphHandle_t handle) {
  auto object = Runtime::Get().graphs.Find(handle);
  if (!object) return nullptr;
  const std::string& description = object->graph.Describe();
  return description.empty() ? nullptr : description.c_str();
}

void qnnrt_live_counts(Qnnrt_LiveCounts_t* counts) {
  if (counts == nullptr) return;
  Runtime& runtime = Runtime::Get();
  qnnrt::Counters& memory = qnnrt::Memory::Get().counters();
  *counts = {};
  counts->buffers = static_cast<uint64_t>(memory.buffers.load());
  counts->maps = static_cast<uint64_t>(memory.maps.load());
  counts->fds = static_cast<uint64_t>(memory.fds.load());
  counts->mem_handles = static_cast<uint64_t>(memory.handles.load());
  counts->contexts = runtime.contexts.live();
  counts->graphs = runtime.graphs.live();
  counts->backends = runtime.backends.live();
  counts->profiles = runtime.profiles.live();
  counts->logs = runtime.logs.live();
}

uint64_t qnnrt_debug_allocations(void) { return qnnrt::AllocationCount(); }
void qnnrt_debug_fail_allocation(int64_t n) { qnnrt::FailAllocation(n); }
const char* qnnrt_version(void) { return QNNRT_VERSION; }

const char* qnnrt_kernel_library(void) {
  const char* fast = qnnrt::OneDnnVersion();
  return fast == nullptr ? "portable" : fast;
}

const char* qnnrt_op_coverage_json(void) {
  static const std::string* json = new std::string(qnnrt::OpCoverageJson());
  return json->c_str();
}

}  // extern "C"
