// Every entry of every function table, called with nulls, with memory full of zeros, and with
// handles that are garbage, of another kind, in use or gone: each gives a code that has a text, and
// nothing is read or written that was not given.
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "abi/qnn_system.h"
#include "abi/qnnrt_ext.h"
#include "check.h"

extern "C" {
Qnn_ErrorHandle_t qnnrt_cpu_get_providers(const QnnInterface_t*** list, uint32_t* count);
Qnn_ErrorHandle_t qnnrt_htp_get_providers(const QnnInterface_t*** list, uint32_t* count);
Qnn_ErrorHandle_t qnnrt_lpai_get_providers(const QnnInterface_t*** list, uint32_t* count);
Qnn_ErrorHandle_t qnnrt_system_get_providers(const QnnSystemInterface_t*** list, uint32_t* count);
}

namespace {

using Code = Qnn_ErrorHandle_t;
using Core = QnnInterface_ImplementationV2_32_t;
using System = QnnSystemInterface_ImplementationV1_7_t;

const Core& Table(Code (*providers)(const QnnInterface_t***, uint32_t*)) {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  providers(&list, &count);
  return list[0]->v2_32;
}
const System& SystemTable() {
  const QnnSystemInterface_t** list = nullptr;
  uint32_t count = 0;
  qnnrt_system_get_providers(&list, &count);
  return list[0]->v1_7;
}

// What the arguments of a call are made of.
struct Given {
  void* handle = nullptr;  // every handle
  bool memory = false;     // pointers to zeros, not null
  uint32_t number = 0;     // every count, size and enumerator
};

constexpr size_t kRoom = 4096;

// Zeros for one argument: an empty list, no name, a struct of version 0.
void* Zeros() {
  static std::vector<std::vector<uint64_t>> rooms(16);
  static size_t next = 0;
  std::vector<uint64_t>& room = rooms[next++ % rooms.size()];
  room.assign(kRoom / sizeof(uint64_t), 0);
  return room.data();
}

template <typename T>
T Argument(const Given& given) {
  if constexpr (std::is_same_v<T, void*>) {
    return given.handle;
  } else if constexpr (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>) {
    return nullptr;
  } else if constexpr (std::is_pointer_v<T>) {
    return given.memory ? static_cast<T>(Zeros()) : nullptr;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(given.number);
  } else {
    T value;
    std::memset(&value, 0, sizeof(value));
    return value;
  }
}

template <typename... Args>
Code Call(Code (*entry)(Args...), const Given& given) {
  return entry(Argument<Args>(given)...);
}

#define CORE_ENTRIES(X)                                  \
  X(propertyHasCapability)                               \
  X(backendCreate)                                       \
  X(backendSetConfig)                                    \
  X(backendGetApiVersion)                                \
  X(backendGetBuildId)                                   \
  X(backendRegisterOpPackage)                            \
  X(backendGetSupportedOperations)                       \
  X(backendValidateOpConfig)                             \
  X(contextCreate)                                       \
  X(contextSetConfig)                                    \
  X(contextGetBinarySize)                                \
  X(contextGetBinary)                                    \
  X(contextCreateFromBinary)                             \
  X(contextCreateFromBinaryWithSignal)                   \
  X(contextCreateFromBinaryListAsync)                    \
  X(contextCreateFromBinaryWithCallback)                 \
  X(contextValidateBinary)                               \
  X(contextGetBinarySectionSize)                         \
  X(contextGetBinarySection)                             \
  X(contextApplyBinarySection)                           \
  X(contextGetProperty)                                  \
  X(contextGetIncrementalBinary)                         \
  X(contextReleaseIncrementalBinary)                     \
  X(contextFinalize)                                     \
  X(contextGetBinarySectionUpdate)                       \
  X(contextFreeBinarySectionUpdate)                      \
  X(graphCreate)                                         \
  X(graphCreateSubgraph)                                 \
  X(graphSetConfig)                                      \
  X(graphAddNode)                                        \
  X(graphFinalize)                                       \
  X(graphRetrieve)                                       \
  X(graphExecute)                                        \
  X(graphExecuteAsync)                                   \
  X(graphPrepareExecutionEnvironment)                    \
  X(graphReleaseExecutionEnvironment)                    \
  X(graphGetProperty)                                    \
  X(tensorCreateContextTensor)                           \
  X(tensorCreateGraphTensor)                             \
  X(tensorUpdateGraphTensors)                            \
  X(tensorUpdateContextTensors)                          \
  X(logCreate)                                           \
  X(logSetLogLevel)                                      \
  X(profileCreate)                                       \
  X(profileSetConfig)                                    \
  X(profileGetEvents)                                    \
  X(profileGetSubEvents)                                 \
  X(profileGetEventData)                                 \
  X(profileGetExtendedEventData)                         \
  X(memRegister)                                         \
  X(memDeRegister)                                       \
  X(deviceGetPlatformInfo)                               \
  X(deviceFreePlatformInfo)                              \
  X(deviceGetInfrastructure)                             \
  X(deviceCreate)                                        \
  X(deviceSetConfig)                                     \
  X(deviceGetInfo)                                       \
  X(signalCreate)                                        \
  X(signalSetConfig)                                     \
  X(signalTrigger)                                       \
  X(errorGetMessage)                                     \
  X(globalConfigSet)                                     \
  X(backendGetProperty)                                  \
  /* last: with a live handle these are the end of it */ \
  X(signalFree)                                          \
  X(profileFree)                                         \
  X(contextFree)                                         \
  X(deviceFree)                                          \
  X(backendFree)                                         \
  X(logFree)

#define SYSTEM_ENTRIES(X)                   \
  X(systemContextCreate)                    \
  X(systemContextGetBinaryInfo)             \
  X(systemContextGetMetaData)               \
  X(systemTensorGetMemoryFootprint)         \
  X(systemLogCreate)                        \
  X(systemLogSetLogLevel)                   \
  X(systemDlcCreateFromFile)                \
  X(systemDlcCreateFromBinary)              \
  X(systemDlcComposeGraphs)                 \
  X(systemDlcGetOpMappings)                 \
  X(systemProfileCreateSerializationTarget) \
  X(systemProfileSerializeEventData)        \
  X(systemDlcFree)                          \
  X(systemContextFree)                      \
  X(systemLogFree)                          \
  X(systemProfileFreeSerializationTarget)

struct Outcome {
  const char* entry;
  Code code;
};

std::vector<Outcome> CallAll(const Core& q, const Given& given) {
  std::vector<Outcome> all;
#define X(name) all.push_back({#name, Call(q.name, given)});
  CORE_ENTRIES(X)
#undef X
  return all;
}
std::vector<Outcome> CallAll(const System& q, const Given& given) {
  std::vector<Outcome> all;
#define X(name) all.push_back({#name, Call(q.name, given)});
  SYSTEM_ENTRIES(X)
#undef X
  return all;
}

bool Among(const std::string& entry, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (entry == name) return true;
  return false;
}

// Each code has a text, and only those calls succeed that may.
void Judge(const Core& q, const std::vector<Outcome>& all,
           std::initializer_list<const char*> may_succeed) {
  for (const Outcome& o : all) {
    const char* text = nullptr;
    if (!CHECK_EQ(q.errorGetMessage(o.code, &text), 0u) || !CHECK(text != nullptr))
      std::fprintf(stderr, "  %s gave %llu\n", o.entry, static_cast<unsigned long long>(o.code));
    if (!CHECK(o.code != 0 || Among(o.entry, may_succeed)))
      std::fprintf(stderr, "  %s succeeded\n", o.entry);
  }
}

void* Garbage(int i) {
  static const uintptr_t bits[] = {1,          0xFFFFFFFFFFFFFFFF, 0x0123456789ABCDEF,
                                   0x80000000, 0x0000000103000001, 0x00000001020FFFFF};
  return reinterpret_cast<void*>(bits[i]);
}
constexpr int kGarbage = 6;

// One object of each kind; freed by the calls, or when this goes.
struct World {
  explicit World(const Core& table) : q(table) {
    CHECK_EQ(q.logCreate(nullptr, QNN_LOG_LEVEL_ERROR, &log), 0u);
    CHECK_EQ(q.backendCreate(nullptr, nullptr, &backend), 0u);
    q.deviceCreate(nullptr, nullptr, &device);  // cpu and lpai have none
    CHECK_EQ(q.contextCreate(backend, nullptr, nullptr, &context), 0u);
    CHECK_EQ(q.graphCreate(context, "g", nullptr, &graph), 0u);
    CHECK_EQ(q.profileCreate(backend, QNN_PROFILE_LEVEL_BASIC, &profile), 0u);
    q.signalCreate(backend, nullptr, &signal);  // nor these
  }
  ~World() {
    q.contextFree(context, nullptr);
    q.profileFree(profile);
    q.signalFree(signal);
    q.deviceFree(device);
    q.backendFree(backend);
    q.logFree(log);
  }
  std::vector<void*> Handles() const {
    return {log, backend, device, context, graph, profile, signal};
  }
  const Core& q;
  void *log = nullptr, *backend = nullptr, *device = nullptr, *context = nullptr, *graph = nullptr,
       *profile = nullptr, *signal = nullptr;
};

void TryBackend(const Core& q) {
  Judge(q, CallAll(q, {}), {"globalConfigSet"});
  CHECK(q.errorGetVerboseMessage(0, nullptr) != 0 && q.errorFreeVerboseMessage(nullptr) != 0);
  for (bool memory : {false, true}) {
    for (uint32_t number : {0u, 1u}) {
      for (int i = 0; i < kGarbage; ++i) {
        Judge(q, CallAll(q, {Garbage(i), memory, number}),
              {"propertyHasCapability", "globalConfigSet", "backendGetApiVersion",
               "backendGetBuildId", "logCreate", "errorGetMessage", "deviceGetInfrastructure"});
      }
      for (size_t kind = 0; kind < 7; ++kind) {
        World world(q);
        const Given given{world.Handles()[kind], memory, number};
        std::vector<Outcome> all = CallAll(q, given);
        for (const Outcome& o : all) {
          const char* text = nullptr;
          CHECK_EQ(q.errorGetMessage(o.code, &text), 0u);
        }
        for (const Outcome& o : CallAll(q, given))  // the handle is stale now
          CHECK(o.code < 65536);
      }
    }
  }
}

Qnnrt_LiveCounts_t Live() {
  Qnnrt_LiveCounts_t counts;
  qnnrt_live_counts(&counts);
  return counts;
}

TEST(the_cpu_backend_takes_any_argument) { TryBackend(Table(qnnrt_cpu_get_providers)); }
TEST(the_htp_backend_takes_any_argument) { TryBackend(Table(qnnrt_htp_get_providers)); }
TEST(the_lpai_backend_takes_any_argument) { TryBackend(Table(qnnrt_lpai_get_providers)); }

TEST(the_system_library_takes_any_argument) {
  const System& q = SystemTable();
  const Core& core = Table(qnnrt_cpu_get_providers);
  Judge(core, CallAll(q, {}), {});
  for (int i = 0; i < kGarbage; ++i) {
    Judge(core, CallAll(q, {Garbage(i), true, 0}), {"systemContextCreate"});
    // A size of 1 is a promise about memory: null is the only other answer to it.
    Judge(core, CallAll(q, {nullptr, true, 1}), {"systemContextCreate", "systemLogCreate"});
  }
  World world(core);
  for (void* handle : world.Handles()) {
    if (handle != world.log) Judge(core, CallAll(q, {handle, true, 0}), {"systemContextCreate"});
  }
  void* context = nullptr;
  CHECK_EQ(q.systemContextCreate(&context), 0u);
  CallAll(q, {context, true, 0});
  CHECK_EQ(q.systemContextFree(context), QNN_SYSTEM_CONTEXT_ERROR_INVALID_HANDLE);
}

std::vector<void*> AnyHandles(const World& world) {
  std::vector<void*> handles = world.Handles();
  handles.push_back(nullptr);
  for (int i = 0; i < kGarbage; ++i) handles.push_back(Garbage(i));
  return handles;
}

TEST(the_runtimes_own_entries_for_lpai_take_any_argument) {
  for (const bool lpai : {false, true}) {
    World world(Table(lpai ? qnnrt_lpai_get_providers : qnnrt_cpu_get_providers));
    for (void* handle : AnyHandles(world)) {
      const bool described = handle == world.graph || handle == world.backend;
      CHECK_EQ(qnnrt_lpai_describe(handle) != nullptr, lpai && described);
      void* address = &world;
      CHECK_EQ(qnnrt_graph_io_address(handle, 1, nullptr), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
      CHECK(qnnrt_graph_io_address(handle, 1, &address) != 0 && address == nullptr);
      CHECK(qnnrt_graph_reset_state(handle) != 0);  // nothing before graphFinalize
      if (handle != world.graph) CHECK(qnnrt_graph_free(handle) != 0);
    }
  }
}

TEST(the_runtimes_own_entries_take_any_argument) {
  World world(Table(qnnrt_htp_get_providers));
  for (void* handle : AnyHandles(world)) {
    const bool good = handle == world.graph;
    Qnnrt_GraphStats_t stats;
    uint32_t count = 0;
    CHECK_EQ(qnnrt_graph_stats(handle, nullptr), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
    CHECK_EQ(qnnrt_graph_stats(handle, &stats) == 0, good);
    CHECK_EQ(qnnrt_graph_copies(handle, nullptr, 0, nullptr), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
    CHECK_EQ(qnnrt_graph_copies(handle, nullptr, 1, &count), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
    CHECK_EQ(qnnrt_graph_copies(handle, nullptr, 0, &count) == 0, good);
    CHECK_EQ(qnnrt_graph_reset_stats(handle) == 0, good);
    CHECK(qnnrt_graph_describe(handle) == nullptr);  // nothing before graphFinalize
    CHECK_EQ(qnnrt_htp_describe(handle) != nullptr, handle == nullptr || handle == world.device);
  }
  CHECK_EQ(qnnrt_htp_domain_info(nullptr), QNN_COMMON_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(qnnrt_htp_domain_set_budget(0), QNN_COMMON_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(qnnrt_htp_domain_holders(nullptr, 1, nullptr), QNN_COMMON_ERROR_INVALID_ARGUMENT);
  qnnrt_live_counts(nullptr);
  CHECK(qnnrt_binary_verify(nullptr, 0) != 0);
}

// Whatever was made on the way out of these calls is gone but for what zeros asked for.
TEST(refused_calls_leave_nothing) {
  for (auto providers :
       {qnnrt_cpu_get_providers, qnnrt_htp_get_providers, qnnrt_lpai_get_providers}) {
    const Core& q = Table(providers);
    const Qnnrt_LiveCounts_t before = Live();
    CallAll(q, {});
    for (int i = 0; i < kGarbage; ++i) CallAll(q, {Garbage(i), false, 1});
    const Qnnrt_LiveCounts_t after = Live();
    CHECK_EQ(std::memcmp(&before, &after, sizeof(before)), 0);
  }
}

}  // namespace

CHECK_MAIN("any_argument_test")
