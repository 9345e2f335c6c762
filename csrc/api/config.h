// Config lists of the API, checked and parsed into plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "abi/qnn_context.h"
#include "abi/qnn_objects.h"
#include "api/config_table.h"
#include "backends/lpai.h"
#include "graph/graph.h"

namespace qnnrt {

struct Backend;

struct BackendOptions {
  GraphOptions graph;         // what graphs begin with
  uint64_t domain_bytes = 0;  // the process domain's budget; 0: as it is
  LpaiSettings lpai;          // of backendCreate alone
  ConfigRecord record;
};

// Reads a list into `options`, all of it or, after an error, nothing. `call` is one of kAt*.
// Errors: 4003 an option that this backend does not take, 4012 a value out of range or an option in
// a call that does not take it.
Status ReadBackendConfig(const BackendTraits& traits, const QnnBackend_Config_t** config,
                         uint8_t call, BackendOptions* options);

inline constexpr uint32_t kDefaultQueueDepth = 10;
inline constexpr uint32_t kMaxQueueDepth = 300;

struct ContextOptions {
  Qnn_Priority_t priority = QNN_PRIORITY_NORMAL;
  std::string oem_string;
  uint32_t async_queue_depth = kDefaultQueueDepth;  // 1 to kMaxQueueDepth
  uint64_t memory_limit_hint_mb = 0;                // 0: none

  // Create from binary.
  std::optional<std::vector<std::string>> enable_graphs;  // none: all of them
  std::vector<std::string> graph_retention_order;
  bool persistent_binary = false;
  bool strict_compatibility = false;
  bool defer_graph_init = false;

  // The htp backend's own.
  bool prepare_only = false;
  bool weight_sharing = false;
  std::optional<uint64_t> group_scope;  // of the contexts that it is in a group with
  uint64_t file_read_budget_mb = 0;     // 0: none

  // The lpai backend's own.
  QnnLpaiMem_MemType_t lpai_model_memory = QNN_LPAI_MEM_TYPE_DDR;

  ConfigRecord record;  // everything that was given, also what has no field here
};

// Likewise. Errors: 1000 an option that this backend does not take, 5010 a value out of range or an
// option in a call that does not take it.
Status ReadContextConfig(const Backend& backend, const QnnContext_Config_t** config, uint8_t call,
                         ContextOptions* options);

inline constexpr int kMaxThreads = 1024;

// Memory that a client gives to a graph; null: none.
struct LpaiPool {
  void* address = nullptr;
  uint32_t size = 0;  // bytes
};

// Performance and affinity as clients of the vendor's backend have them unless they say otherwise.
struct LpaiGraphSettings {
  QnnLpaiGraph_PerfCfg_t perf = {1, 10, QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_REAL_TIME};
  QnnLpaiGraph_CoreAffinity_t affinity = {QNN_LPAI_GRAPH_CORE_AFFINITY_SOFT, 0};
  LpaiPool scratch, persistent;
};
std::string LpaiJson(const QnnLpaiGraph_PerfCfg_t& perf);
std::string LpaiJson(const QnnLpaiGraph_CoreAffinity_t& affinity);
std::string LpaiJson(const LpaiPool& pool);

struct GraphSettings {
  Qnn_Priority_t priority = QNN_PRIORITY_NORMAL;
  LpaiGraphSettings lpai;
  ConfigRecord record;
  // What this call asks for, to be carried out by GraphProfile.
  std::optional<Qnn_ProfileHandle_t> profile;
  std::optional<bool> profiling;
  std::optional<uint32_t> profiled_executions;
  // Likewise, by the lpai backend.
  std::optional<LpaiPool> scratch, persistent;
  bool prepares = false;  // PREPARE is among it
};

// Likewise. Errors: 1000, and 6000 in place of 5010.
Status ReadGraphConfig(const Backend& backend, const QnnGraph_Config_t** config, uint8_t call,
                       GraphOptions* options, GraphSettings* settings);

// One of the four. Errors: the row's scope.
Status CheckPriority(const ConfigRow& row, uint32_t priority);
const char* PriorityName(uint32_t priority);

}  // namespace qnnrt
