// The function table as a client sees it: every slot, every code, every kind of handle, and what is
// left when memory runs out anywhere.
#include <atomic>
#include <cstdarg>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "abi/qnn_property.h"
#include "abi/qnnrt_ext.h"
#include "api/error_table.h"
#include "check.h"
#include "memory/rpcmem.h"
#include "qnn_tensor.h"

namespace {

const QnnInterface_ImplementationV2_32_t& Table() {
  static const QnnInterface_ImplementationV2_32_t* table = [] {
    const QnnInterface_t** list = nullptr;
    uint32_t count = 0;
    QnnInterface_getProviders(&list, &count);
    return &list[0]->v2_32;
  }();
  return *table;
}
const QnnInterface_ImplementationV2_32_t& q = Table();

Qnn_OpConfig_t OpOf(const char* type, Qnn_Tensor_t* in, uint32_t num_in, Qnn_Tensor_t* out) {
  Qnn_OpConfig_t op;
  std::memset(&op, 0, sizeof(op));
  op.version = QNN_OPCONFIG_VERSION_1;
  op.v1 = {"node", "qti.aisw", type, 0, nullptr, num_in, in, 1, out};
  return op;
}

// One client's whole life: y = relu(a + b). Each step returns its code; Close works from any of
// them.
struct Client {
  Qnn_LogHandle_t log = nullptr;
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  Qnn_ProfileHandle_t profile = nullptr;
  uint32_t dims[2] = {4, 8};
  Qnn_Tensor_t a = TensorOf("a", QNN_TENSOR_TYPE_APP_WRITE, dims, 2);
  Qnn_Tensor_t b = TensorOf("b", QNN_TENSOR_TYPE_APP_WRITE, dims, 2);
  Qnn_Tensor_t sum = TensorOf("sum", QNN_TENSOR_TYPE_NATIVE, dims, 2);
  Qnn_Tensor_t y = TensorOf("y", QNN_TENSOR_TYPE_APP_READ, dims, 2);
  std::vector<float> av = std::vector<float>(32, -1.0f), bv = std::vector<float>(32, 3.0f),
                     yv = std::vector<float>(32, 0.0f);
  Qnn_MemHandle_t handle = nullptr;
  void* shared = nullptr;

  ~Client() { Close(); }

  Qnn_ErrorHandle_t Open(QnnLog_Callback_t callback = nullptr) {
    Qnn_ErrorHandle_t e = q.logCreate(callback, QNN_LOG_LEVEL_ERROR, &log);
    if (e == 0) e = q.backendCreate(callback == nullptr ? nullptr : log, nullptr, &backend);
    if (e == 0) e = q.contextCreate(backend, nullptr, nullptr, &context);
    if (e == 0) e = q.profileCreate(backend, QNN_PROFILE_LEVEL_DETAILED, &profile);
    if (e == 0) e = q.graphCreate(context, "g", nullptr, &graph);
    return e;
  }
  Qnn_ErrorHandle_t Build() {
    Qnn_ErrorHandle_t e = 0;
    for (Qnn_Tensor_t* t : {&a, &b, &sum, &y}) {
      if (e == 0) e = q.tensorCreateGraphTensor(graph, t);
    }
    Qnn_Tensor_t pair[2] = {a, b};
    if (e == 0) e = q.graphAddNode(graph, OpOf("ElementWiseAdd", pair, 2, &sum));
    if (e == 0) e = q.graphAddNode(graph, OpOf("Relu", &sum, 1, &y));
    if (e == 0) e = q.graphFinalize(graph, profile, nullptr);
    return e;
  }
  void UseRaw(Qnn_Tensor_t* t, std::vector<float>* v) {
    t->v1.memType = QNN_TENSORMEMTYPE_RAW;
    t->v1.clientBuf = {v->data(), static_cast<uint32_t>(v->size() * sizeof(float))};
  }
  Qnn_ErrorHandle_t Run(Qnn_ProfileHandle_t with = nullptr) {
    UseRaw(&a, &av);
    UseRaw(&b, &bv);
    if (handle == nullptr) UseRaw(&y, &yv);
    Qnn_Tensor_t in[2] = {a, b};
    return q.graphExecute(graph, in, 2, &y, 1, with, nullptr);
  }
  // The output in an rpcmem buffer, registered as ION.
  Qnn_ErrorHandle_t Share() {
    shared = qnnrt_rpcmem_alloc(25, 1, sizeof(float) * 32);
    if (shared == nullptr) return QNN_COMMON_ERROR_MEM_ALLOC;
    Qnn_MemDescriptor_t d;
    std::memset(&d, 0, sizeof(d));
    d.memShape = {2, dims, nullptr};
    d.dataType = QNN_DATATYPE_FLOAT_32;
    d.memType = QNN_MEM_TYPE_ION;
    d.ionInfo.fd = qnnrt_rpcmem_to_fd(shared);
    if (d.ionInfo.fd < 0) return QNN_COMMON_ERROR_MEM_ALLOC;
    Qnn_ErrorHandle_t e = q.memRegister(context, &d, 1, &handle);
    y.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
    y.v1.memHandle = handle;
    return e;
  }
  void Close() {
    if (handle != nullptr) q.memDeRegister(&handle, 1);
    if (shared != nullptr) qnnrt_rpcmem_free(shared);
    if (context != nullptr) q.contextFree(context, nullptr);
    if (profile != nullptr) q.profileFree(profile);
    if (backend != nullptr) q.backendFree(backend);
    if (log != nullptr) q.logFree(log);
    handle = context = profile = backend = log = graph = nullptr;
    shared = nullptr;
  }
};

bool SameCounts(const Qnnrt_LiveCounts_t& x, const Qnnrt_LiveCounts_t& y) {
  return x.buffers == y.buffers && x.mem_handles == y.mem_handles && x.contexts == y.contexts &&
         x.graphs == y.graphs && x.backends == y.backends && x.profiles == y.profiles &&
         x.logs == y.logs;
}

std::string VerboseMessage(Qnn_ErrorHandle_t error) {
  const char* text = nullptr;
  if (q.errorGetVerboseMessage(error, &text) != 0) return "";
  std::string copy = text;
  q.errorFreeVerboseMessage(text);
  return copy;
}

}  // namespace

TEST(every_slot_is_filled_and_what_lies_behind_is_null) {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  REQUIRE(QnnInterface_getProviders(&list, &count) == 0);
  REQUIRE(count >= 1);
  CHECK_EQ(list[0]->backendId, 3u);
  CHECK_EQ(std::string(list[0]->providerName), "CPU_QTI_AISW");
  CHECK_EQ(list[0]->apiVersion.coreApiVersion.major, 2u);
  CHECK_EQ(list[0]->apiVersion.coreApiVersion.minor, 40u);
  auto slots = reinterpret_cast<void* const*>(&list[0]->v2_32);
  for (int i = 0; i < QNN_INTERFACE_NUM_ENTRIES; ++i) CHECK(slots[i] != nullptr);
  for (int i = 0; i < QNNRT_INTERFACE_SPARE_SLOTS; ++i)
    CHECK(slots[QNN_INTERFACE_NUM_ENTRIES + i] == nullptr);
  CHECK_EQ(QnnInterface_getProviders(nullptr, &count),
           Qnn_ErrorHandle_t{QNN_INTERFACE_ERROR_INVALID_PARAMETER});
}

TEST(every_code_has_a_message) {
  int known = 0;
  for (uint32_t code = 1; code < 65536; ++code) {
    const char* message = nullptr;
    Qnn_ErrorHandle_t e = q.errorGetMessage(code, &message);
    if (e == 0u) {
      CHECK(message != nullptr && std::strlen(message) > 4);
      CHECK(message == qnnrt::ErrorMessage(code));
      ++known;
    } else if (e != QNN_ERROR_INVALID_ERROR_HANDLE || qnnrt::ErrorMessage(code) != nullptr) {
      CHECK_EQ(e, Qnn_ErrorHandle_t{QNN_ERROR_INVALID_ERROR_HANDLE});
      CHECK(qnnrt::ErrorMessage(code) == nullptr);
    }
  }
  CHECK(known > 110);
  for (uint32_t code : {1002u, 5005u, 8002u, 30000u}) CHECK(qnnrt::ErrorMessage(code) != nullptr);
}

TEST(capabilities_are_yes_no_or_unknown) {
  CHECK_EQ(q.propertyHasCapability(QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_ION), 0u);
  CHECK_EQ(q.propertyHasCapability(QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION),
           Qnn_ErrorHandle_t{QNN_PROPERTY_NOT_SUPPORTED});
  CHECK_EQ(q.propertyHasCapability(999999), Qnn_ErrorHandle_t{QNN_PROPERTY_ERROR_UNKNOWN_KEY});
}

TEST(a_client_runs_with_raw_and_with_registered_memory) {
  Client c;
  REQUIRE(c.Open() == 0 && c.Build() == 0);
  CHECK_EQ(c.Run(), 0u);
  CHECK(c.yv == std::vector<float>(32, 2.0f));
  REQUIRE(c.Share() == 0);
  c.av.assign(32, -5.0f);
  CHECK_EQ(c.Run(), 0u);
  CHECK_EQ(static_cast<float*>(c.shared)[31], 0.0f);
  Qnn_MemHandle_t stale = c.handle;
  CHECK_EQ(q.memDeRegister(&c.handle, 1), 0u);
  CHECK_EQ(c.Run(), Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_TENSOR});  // the handle is gone
  CHECK_EQ(q.memDeRegister(&stale, 1), Qnn_ErrorHandle_t{QNN_MEM_ERROR_INVALID_HANDLE});
  c.handle = nullptr;
  CHECK_EQ(c.Run(), 0u);
}

TEST(a_handle_of_another_shape_or_context_is_refused_with_its_reason) {
  Client c, other;
  REQUIRE(c.Open() == 0 && c.Build() == 0 && other.Open() == 0 && other.Build() == 0);
  other.dims[0] = 2;
  other.dims[1] = 16;  // as many bytes, another shape
  REQUIRE(other.Share() == 0);
  other.dims[0] = 4;
  other.dims[1] = 8;
  CHECK_EQ(other.Run(), Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_TENSOR});
  CHECK(VerboseMessage(QNN_GRAPH_ERROR_INVALID_TENSOR).find("registered as FLOAT_32 [2, 16]") !=
        std::string::npos);
  c.handle = other.handle;
  c.y.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  c.y.v1.memHandle = other.handle;
  CHECK_EQ(c.Run(), Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_TENSOR});
  c.handle = nullptr;
  CHECK_EQ(c.Run(), 0u);
}

TEST(stale_and_foreign_handles_are_refused_by_every_component) {
  Client c;
  REQUIRE(c.Open() == 0 && c.Build() == 0);
  Qnn_GraphHandle_t graph = c.graph;
  Qnn_ContextHandle_t context = c.context;
  Qnn_BackendHandle_t backend = c.backend;
  CHECK_EQ(q.contextFree(graph, nullptr),
           Qnn_ErrorHandle_t{QNN_CONTEXT_ERROR_INVALID_HANDLE});  // of another kind
  CHECK_EQ(q.backendFree(context), Qnn_ErrorHandle_t{QNN_BACKEND_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.profileFree(graph), Qnn_ErrorHandle_t{QNN_PROFILE_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.logFree(backend), Qnn_ErrorHandle_t{QNN_LOG_ERROR_INVALID_HANDLE});
  c.Close();
  Qnn_ContextHandle_t none;
  CHECK_EQ(q.contextCreate(backend, nullptr, nullptr, &none),
           Qnn_ErrorHandle_t{QNN_CONTEXT_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.contextCreateFromBinary(backend, nullptr, nullptr, "", 1, &none, nullptr),
           Qnn_ErrorHandle_t{QNN_CONTEXT_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.contextValidateBinary(backend, nullptr, nullptr, "", 1),
           Qnn_ErrorHandle_t{QNN_CONTEXT_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.contextCreate(nullptr, nullptr, nullptr, &none),
           Qnn_ErrorHandle_t{QNN_CONTEXT_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(q.graphFinalize(graph, nullptr, nullptr),
           Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_CONTEXT});
  CHECK_EQ(q.graphExecute(graph, nullptr, 0, nullptr, 0, nullptr, nullptr),
           Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_CONTEXT});
  auto never = reinterpret_cast<Qnn_GraphHandle_t>(reinterpret_cast<uintptr_t>(graph) +
                                                   (uintptr_t{1000} << 33));
  CHECK_EQ(q.graphExecute(never, nullptr, 0, nullptr, 0, nullptr, nullptr),
           Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.graphExecute(context, nullptr, 0, nullptr, 0, nullptr, nullptr),
           Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.graphExecute(nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr),
           Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.contextFree(context, nullptr), Qnn_ErrorHandle_t{QNN_CONTEXT_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.backendFree(backend), Qnn_ErrorHandle_t{QNN_BACKEND_ERROR_INVALID_HANDLE});
  Qnn_GraphHandle_t found = nullptr;
  CHECK_EQ(q.graphRetrieve(context, "g", &found),
           Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_CONTEXT});
  Qnn_MemHandle_t memory = nullptr;
  Qnn_MemDescriptor_t d = {};
  CHECK_EQ(q.memRegister(context, &d, 1, &memory), Qnn_ErrorHandle_t{QNN_MEM_ERROR_INVALID_HANDLE});
}

TEST(without_descriptors_their_number_says_nothing_of_the_handles) {
  Client c;
  REQUIRE(c.Open() == 0 && c.Build() == 0);
  Qnn_MemHandle_t one = c.context;
  CHECK_EQ(q.memRegister(c.context, nullptr, UINT32_MAX, &one),
           Qnn_ErrorHandle_t{QNN_MEM_ERROR_INVALID_ARGUMENT});
  CHECK(one == nullptr);
}

TEST(freeing_a_context_invalidates_what_was_registered_in_it) {
  Client c;
  REQUIRE(c.Open() == 0 && c.Build() == 0 && c.Share() == 0);
  Qnn_MemHandle_t left = c.handle;
  CHECK_EQ(q.contextFree(c.context, nullptr), 0u);
  c.context = nullptr;
  CHECK_EQ(q.memDeRegister(&left, 1), Qnn_ErrorHandle_t{QNN_MEM_ERROR_INVALID_HANDLE});
  c.handle = nullptr;
}

TEST(profiles_hold_real_events_of_the_last_call) {
  Client c;
  REQUIRE(c.Open() == 0 && c.Build() == 0);
  auto events = [&](std::vector<std::string> names) -> std::vector<uint64_t> {
    const QnnProfile_EventId_t* ids = nullptr;
    uint32_t count = 0;
    CHECK_EQ(q.profileGetEvents(c.profile, &ids, &count), 0u);
    if (!CHECK(count == names.size())) return {};
    for (uint32_t i = 0; i < count; ++i) {
      QnnProfile_EventData_t data = {};
      CHECK_EQ(q.profileGetEventData(ids[i], &data), 0u);
      CHECK_EQ(std::string(data.identifier).substr(0, names[i].size()), names[i]);
    }
    return {ids, ids + count};
  };
  std::vector<uint64_t> finalized = events({"init", "finalize"});
  CHECK_EQ(c.Run(c.profile), 0u);
  std::vector<uint64_t> executed = events({"execute"});
  REQUIRE(!executed.empty());
  const QnnProfile_EventId_t* nodes = nullptr;
  uint32_t count = 0;
  CHECK_EQ(q.profileGetSubEvents(executed[0], &nodes, &count), 0u);
  REQUIRE(count == 1);  // the add, with the relu in it
  QnnProfile_ExtendedEventData_t extended = {};
  CHECK_EQ(q.profileGetExtendedEventData(nodes[0], &extended), 0u);
  CHECK_EQ(extended.v1.type, QNN_PROFILE_EVENTTYPE_NODE);
  CHECK(extended.v1.timestamp > 0);
  CHECK_EQ(q.profileSetConfig(c.profile, nullptr), 0u);
  CHECK_EQ(q.contextFree(c.context, c.profile), 0u);
  c.context = nullptr;
  events({"deinit"});
  Qnn_ProfileHandle_t gone = c.profile;
  CHECK_EQ(q.profileFree(c.profile), 0u);
  c.profile = nullptr;
  QnnProfile_EventData_t data = {};
  CHECK_EQ(q.profileGetEventData(executed[0], &data),
           Qnn_ErrorHandle_t{QNN_PROFILE_ERROR_INVALID_HANDLE});
  Client fresh;
  REQUIRE(fresh.Open() == 0 && fresh.Build() == 0);
  CHECK_EQ(fresh.Run(gone), Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_SET_PROFILE});
}

namespace {
std::string g_logged;
void Logged(const char* format, QnnLog_Level_t, uint64_t, va_list args) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, args);
  g_logged += text;
}
}  // namespace

TEST(errors_reach_the_clients_log_and_the_verbose_message) {
  Client c;
  REQUIRE(c.Open(&Logged) == 0 && c.Build() == 0);
  g_logged.clear();
  c.av.resize(3);
  CHECK_EQ(c.Run(), Qnn_ErrorHandle_t{QNN_GRAPH_ERROR_INVALID_TENSOR});
  CHECK(g_logged.find("tensor 'a'") != std::string::npos);
  CHECK(g_logged.find("12 bytes") != std::string::npos);
  CHECK(VerboseMessage(QNN_GRAPH_ERROR_INVALID_TENSOR).find("needs 128") != std::string::npos);
  CHECK(VerboseMessage(QNN_MEM_ERROR_MAPPING).find("fd") !=
        std::string::npos);  // another code: its plain text
}

TEST(an_op_is_validated_without_its_data_and_an_unknown_one_is_4005) {
  Client c;
  REQUIRE(c.Open() == 0);
  Qnn_Tensor_t pair[2] = {c.a, c.b};
  CHECK_EQ(q.backendValidateOpConfig(c.backend, OpOf("ElementWiseAdd", pair, 2, &c.y)), 0u);
  CHECK_EQ(q.backendValidateOpConfig(c.backend, OpOf("NoSuchOp", pair, 2, &c.y)),
           Qnn_ErrorHandle_t{QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND});
  CHECK(q.backendValidateOpConfig(c.backend, OpOf("ElementWiseAdd", pair, 1, &c.y)) != 0);
  uint32_t count = 0;
  const QnnBackend_OperationName_t* names = nullptr;
  CHECK_EQ(q.backendGetSupportedOperations(c.backend, &count, &names), 0u);
  CHECK(count > 60);
  for (uint32_t i = 0; i < count; ++i) CHECK_EQ(std::string(names[i].packageName), "qti.aisw");
}

TEST(executions_of_one_graph_queue_and_several_graphs_run_at_once) {
  Client shared;
  REQUIRE(shared.Open() == 0 && shared.Build() == 0);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Client own;
      if (own.Open() != 0 || own.Build() != 0) ++wrong;
      Client view;  // the shared graph, with buffers of this thread
      view.graph = shared.graph;
      view.a = shared.a;
      view.b = shared.b;
      view.y = shared.y;
      for (Qnn_Tensor_t* x : {&view.a, &view.b, &view.y}) x->v1.dimensions = view.dims;
      for (int i = 0; i < 300; ++i) {
        float value = static_cast<float>(t * 1000 + i);
        view.av.assign(32, value);
        own.av.assign(32, value);
        if (view.Run() != 0 || view.yv[7] != value + 3.0f) ++wrong;
        if (own.Run() != 0 || own.yv[31] != value + 3.0f) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

TEST(one_graph_is_freed_and_its_context_stays) {
  Client client;
  REQUIRE(client.Open() == 0 && client.Build() == 0 && client.Share() == 0);
  Qnn_GraphHandle_t other = nullptr;
  CHECK_EQ(q.graphCreate(client.context, "g", nullptr, &other), QNN_GRAPH_ERROR_INVALID_NAME);
  REQUIRE(q.graphCreate(client.context, "other", nullptr, &other) == 0);
  CHECK_EQ(client.Run(), 0u);
  Qnnrt_LiveCounts_t before, after;
  qnnrt_live_counts(&before);
  const Qnn_GraphHandle_t freed = client.graph;
  CHECK_EQ(qnnrt_graph_free(freed), 0u);
  qnnrt_live_counts(&after);
  CHECK_EQ(after.graphs, before.graphs - 1);
  CHECK_EQ(after.mem_handles, before.mem_handles);
  CHECK(qnnrt_graph_free(freed) != 0);
  CHECK(client.Run() != 0);
  CHECK(qnnrt_graph_free(nullptr) != 0);
  CHECK(qnnrt_graph_free(client.context) != 0);
  // Its name may be used again, and the handle of its memory, which is the context's.
  REQUIRE(q.graphCreate(client.context, "g", nullptr, &client.graph) == 0);
  for (Qnn_Tensor_t* t : {&client.a, &client.b, &client.sum, &client.y}) t->v1.id = 0;
  client.y.v1.memType = QNN_TENSORMEMTYPE_RAW;
  client.y.v1.clientBuf = {nullptr, 0};
  REQUIRE(client.Build() == 0);
  client.y.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  client.y.v1.memHandle = client.handle;
  CHECK_EQ(client.Run(), 0u);
  CHECK_EQ(static_cast<const float*>(client.shared)[31], 2.0f);
  CHECK_EQ(qnnrt_graph_free(other), 0u);
}

TEST(a_graph_is_freed_when_its_executions_are_done_and_by_one_thread) {
  for (int round = 0; round < 50; ++round) {
    Client client;
    REQUIRE(client.Open() == 0 && client.Build() == 0);
    std::atomic<int> freed{0}, wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        Client view;
        view.graph = client.graph;
        view.a = client.a;
        view.b = client.b;
        view.y = client.y;
        for (Qnn_Tensor_t* x : {&view.a, &view.b, &view.y}) x->v1.dimensions = view.dims;
        while (view.Run() == 0) {
          if (view.yv[7] != 2.0f) ++wrong;
        }
      });
      threads.emplace_back([&] { freed += qnnrt_graph_free(client.graph) == 0; });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_EQ(freed.load(), 1);
    CHECK_EQ(wrong.load(), 0);
  }
}

// Whichever allocation fails: a code instead of a crash, nothing kept, and the next client works.
TEST(every_allocation_may_fail_once) {
  {
    Client warm;  // pools, tables and the fast library come into being here
    REQUIRE(warm.Open() == 0 && warm.Build() == 0 && warm.Share() == 0 && warm.Share() == 0 &&
            warm.Run(warm.profile) == 0);
  }
  Qnnrt_LiveCounts_t before, after;
  qnnrt_live_counts(&before);
  int failed = 0;
  bool finished = false;
  for (int64_t n = 1; n < 5000 && !finished; ++n) {
    Client c;
    uint64_t start = qnnrt_debug_allocations();
    qnnrt_debug_fail_allocation(n);
    Qnn_ErrorHandle_t e = c.Open();
    if (e == 0) e = c.Build();
    if (e == 0) e = c.Share();
    if (e == 0) e = c.Run(c.profile);
    qnnrt_debug_fail_allocation(-1);
    finished = e == 0 && static_cast<int64_t>(qnnrt_debug_allocations() - start) < n;
    if (e != 0) {
      ++failed;
      CHECK_EQ(e, Qnn_ErrorHandle_t{QNN_COMMON_ERROR_MEM_ALLOC});
    }
    c.Close();
    qnnrt_live_counts(&after);
    if (!CHECK(SameCounts(before, after)))
      std::fprintf(stderr, "  allocation %lld\n", static_cast<long long>(n));
  }
  CHECK(finished);
  CHECK(failed > 50);
  std::printf("%d allocations failed, one at a time\n", failed);
  Client again;
  CHECK(again.Open() == 0 && again.Build() == 0 && again.Run() == 0);
}

TEST(execute_allocates_nothing) {
  Client c;
  REQUIRE(c.Open() == 0 && c.Build() == 0 && c.Share() == 0 && c.Run() == 0);
  uint64_t before = qnnrt_debug_allocations();
  for (int i = 0; i < 1000; ++i) REQUIRE(c.Run() == 0);
  CHECK_EQ(qnnrt_debug_allocations() - before, 0u);
}

// For the thread sanitizer most of all.
TEST(a_backend_may_be_configured_while_graphs_are_made) {
  Qnn_BackendHandle_t backend = nullptr;
  CHECK_EQ(q.backendCreate(nullptr, nullptr, &backend), 0u);
  std::atomic<bool> stop{false};
  std::thread configurer([&] {
    for (int i = 0; !stop || i < 100; ++i) {
      QnnBackend_Config_t config = {};
      config.option = QNN_BACKEND_CONFIG_OPTION_PLATFORM;
      config.platformOption = i % 2 == 0 ? "threads:1;kernels:portable" : "threads:2;kernels:auto";
      const QnnBackend_Config_t* list[] = {&config, nullptr};
      CHECK_EQ(q.backendSetConfig(backend, list), 0u);
    }
  });
  for (int i = 0; i < 200; ++i) {
    Qnn_ContextHandle_t context = nullptr;
    Qnn_GraphHandle_t graph = nullptr;
    CHECK_EQ(q.contextCreate(backend, nullptr, nullptr, &context), 0u);
    CHECK_EQ(q.graphCreate(context, "g", nullptr, &graph), 0u);
    CHECK_EQ(q.contextFree(context, nullptr), 0u);
  }
  stop = true;
  configurer.join();
  CHECK_EQ(q.backendFree(backend), 0u);
}

CHECK_MAIN("api_test")
