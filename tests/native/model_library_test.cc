// The call of a model library's composeGraphs, where the library was compiled with a function table
// of another size. It needs nothing but headers: tests/beds/run-aarch64-calls has it follow the
// calling convention of another processor.
#include "client/model_library.h"

#include <cstdint>

#include "check.h"

using namespace qnnrt::client;

namespace {

constexpr size_t kFirst = ComposingTable::kFirst / sizeof(void*);

// What a library sees of a call.
struct Seen {
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  const GraphConfigInfo_t** configs = nullptr;
  uint32_t num_configs = 1;
  void* entries[2 * kFirst] = {};
  size_t count = 0;
  bool debug = true;
  QnnLog_Callback_t callback = nullptr;
  QnnLog_Level_t level = QNN_LOG_LEVEL_MAX;
  bool last = false;  // whether the library looked at the last two parameters
};
Seen seen;

template <size_t kEntries>
struct Table {
  void* entries[kEntries];
};

template <size_t kEntries>
void See(Qnn_BackendHandle_t backend, const Table<kEntries>& table, Qnn_ContextHandle_t context,
         const GraphConfigInfo_t** configs, uint32_t num_configs, bool debug) {
  seen = Seen();
  seen.backend = backend;
  seen.context = context;
  seen.configs = configs;
  seen.num_configs = num_configs;
  for (void* entry : table.entries) seen.entries[seen.count++] = entry;
  seen.debug = debug;
}

GraphInfo_t** const kGraphs = reinterpret_cast<GraphInfo_t**>(0x6000);

template <size_t kEntries>
ModelError_t Compose(Qnn_BackendHandle_t backend, Table<kEntries> table,
                     Qnn_ContextHandle_t context, const GraphConfigInfo_t** configs,
                     const uint32_t num_configs, GraphInfo_t*** graphs, uint32_t* num_graphs,
                     bool debug, QnnLog_Callback_t callback, QnnLog_Level_t level) {
  See(backend, table, context, configs, num_configs, debug);
  seen.callback = callback;
  seen.level = level;
  seen.last = true;
  *graphs = kGraphs;
  *num_graphs = 7;
  return MODEL_NODES_ERROR;
}

// As old libraries are, without a callback and a level.
template <size_t kEntries>
ModelError_t ComposeAsOfOld(Qnn_BackendHandle_t backend, Table<kEntries> table,
                            Qnn_ContextHandle_t context, const GraphConfigInfo_t** configs,
                            const uint32_t num_configs, GraphInfo_t*** graphs, uint32_t* num_graphs,
                            bool debug) {
  See(backend, table, context, configs, num_configs, debug);
  *graphs = kGraphs;
  *num_graphs = 7;
  return MODEL_NODES_ERROR;
}

template <typename Function>
void CheckCall(Function* function, size_t entries) {
  QnnInterface_ImplementationV2_32_t table;
  void* numbered[sizeof table / sizeof(void*)];
  for (size_t i = 0; i < sizeof numbered / sizeof *numbered; ++i)
    numbered[i] = reinterpret_cast<void*>(0x1000 + i);
  static_assert(sizeof numbered == sizeof table);
  std::memcpy(&table, numbered, sizeof table);
  const auto backend = reinterpret_cast<Qnn_BackendHandle_t>(0x4000);
  const auto context = reinterpret_cast<Qnn_ContextHandle_t>(0x5000);
  GraphInfo_t** graphs = nullptr;
  uint32_t count = 0;
  // Nobody sees here which function is called, as with one of a library.
  void* volatile called = reinterpret_cast<void*>(function);
  Thrown thrown;
  CHECK_EQ(ComposeGraphs(called, backend, table, context, &graphs, &count, &thrown), 3);
  CHECK(!thrown.any);
  CHECK(graphs == kGraphs);
  CHECK_EQ(count, 7u);
  CHECK(seen.backend == backend && seen.context == context);
  CHECK(seen.configs == nullptr);
  CHECK_EQ(seen.num_configs, 0u);
  CHECK_EQ(seen.count, entries);
  for (size_t i = 0; i < entries; ++i)
    CHECK(seen.entries[i] == (i < kFirst ? numbered[i] : nullptr));
  CHECK(!seen.debug);
  if (!seen.last) return;
  CHECK(seen.callback == nullptr);
  CHECK_EQ(seen.level, 0);
}

TEST(ALibraryWithATableOfAnySizeGetsItAndWhatFollows) {
  CheckCall(Compose<kFirst>, kFirst);
  CheckCall(Compose<kFirst + 7>, kFirst + 7);
  CheckCall(Compose<2 * kFirst>, 2 * kFirst);
}

TEST(ALibraryWithoutTheLastParametersIsCalledAllTheSame) {
  CheckCall(ComposeAsOfOld<kFirst>, kFirst);
  CheckCall(ComposeAsOfOld<2 * kFirst>, 2 * kFirst);
}

}  // namespace

CHECK_MAIN("model_library_test")
