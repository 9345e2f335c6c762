// Buffers of a client's that a context's graphs work in: one spill-fill buffer for several
// contexts, binaries that are copied until contextFinalize, and what a forked child does with them.
#include <sys/wait.h>
#include <unistd.h>

#include "abi/qnn_htp.h"
#include "async_client.h"

using namespace async_test;

namespace {

constexpr uint32_t kN = 1 << 14;
constexpr int kSteps = 12;

// A graph with results in between, as a binary.
struct Source {
  Source() : graph(client.context, "g", kN, kSteps) {
    Qnn_ContextBinarySize_t size = 0, written = 0;
    CHECK_EQ(q.contextGetBinarySize(client.context, &size), 0u);
    bytes.resize(size);
    CHECK_EQ(q.contextGetBinary(client.context, bytes.data(), size, &written), 0u);
  }
  Client client;
  GraphOf graph;
  std::vector<uint8_t> bytes;
};

Qnn_ErrorHandle_t Load(const Source& source, uint64_t size, Qnn_ContextHandle_t* context) {
  QnnContext_Config_t config;
  std::memset(&config, 0, sizeof(config));
  config.option = QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT;
  config.isGraphInitDeferred = 1;
  const QnnContext_Config_t* list[] = {&config, nullptr};
  return q.contextCreateFromBinary(source.client.backend, nullptr, list, source.bytes.data(), size,
                                   context, nullptr);
}

uint64_t SpillFillSize(Qnn_ContextHandle_t context) {
  QnnHtpContext_CustomProperty_t custom;
  std::memset(&custom, 0, sizeof(custom));
  custom.option = QNN_HTP_CONTEXT_GET_PROP_MAX_SPILLFILL_BUFFER_SIZE;
  QnnContext_Property_t property;
  std::memset(&property, 0, sizeof(property));
  property.option = QNN_CONTEXT_PROPERTY_OPTION_CUSTOM;
  property.customProperty = &custom;
  QnnContext_Property_t* list[] = {&property, nullptr};
  CHECK_EQ(q.contextGetProperty(context, list), 0u);
  return custom.spillfillBufferSize;
}

// A context whose graph has its arena in the client's memory.
struct Deferred {
  Qnn_ContextHandle_t context = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  Qnn_MemHandle_t handle = nullptr;

  explicit Deferred(const Source& source) {
    CHECK_EQ(Load(source, source.bytes.size(), &context), 0u);
  }
  void Finalize(void* memory, uint64_t size, uint64_t offset) {
    QnnMemHtp_Descriptor_t htp;
    std::memset(&htp, 0, sizeof(htp));
    htp.type = QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER;
    htp.size = size;
    htp.sharedSpillfillBufferConfig = {qnnrt_rpcmem_to_fd(memory), offset};
    Qnn_MemDescriptor_t d;
    std::memset(&d, 0, sizeof(d));
    d.dataType = QNN_DATATYPE_UNDEFINED;
    d.memType = QNN_MEM_TYPE_CUSTOM;
    d.customInfo = &htp;
    CHECK_EQ(q.memRegister(context, &d, 1, &handle), 0u);
    CHECK_EQ(q.contextFinalize(context, nullptr), 0u);
    CHECK_EQ(q.graphRetrieve(context, "g", &graph), 0u);
  }
  void Free() {
    CHECK_EQ(q.contextFree(context, nullptr), 0u);
    CHECK_EQ(q.memDeRegister(&handle, 1), QNN_MEM_ERROR_INVALID_HANDLE);
  }
};

// y for x[i] = value + i / kN.
std::vector<float> Run(const Source& source, Qnn_GraphHandle_t graph, float value) {
  std::vector<float> x(kN), y(kN), early(kN);
  for (uint32_t i = 0; i < kN; ++i) x[i] = value + static_cast<float>(i) / kN;
  Qnn_Tensor_t in = source.graph.x, out[2] = {source.graph.y, source.graph.early};
  for (Qnn_Tensor_t* t : {&in, &out[0], &out[1]}) t->v1.memType = QNN_TENSORMEMTYPE_RAW;
  in.v1.clientBuf = {x.data(), kN * 4};
  out[0].v1.clientBuf = {y.data(), kN * 4};
  out[1].v1.clientBuf = {early.data(), kN * 4};
  CHECK_EQ(q.graphExecute(graph, &in, 1, out, 2, nullptr, nullptr), 0u);
  return y;
}

// Contexts have queues of their own, but the memory is one: overlapping offsets as well.
TEST(contexts_that_share_a_spill_fill_buffer_execute_one_at_a_time) {
  Source source;
  Deferred a(source), b(source);
  const uint64_t arena = SpillFillSize(a.context);
  REQUIRE(arena >= kN * 4);
  const uint64_t size = arena + 4096;
  void* memory = qnnrt_rpcmem_alloc2(25, 1, size);
  a.Finalize(memory, size, 0);
  b.Finalize(memory, size, 4096);
  std::atomic<int> wrong{0};
  const auto work = [&](const Deferred& d, float value) {
    const std::vector<float> right = Run(source, source.graph.handle, value);
    for (int i = 0; i < 150; ++i) wrong += Run(source, d.graph, value) != right;
  };
  std::thread other(work, b, 0.25f);
  work(a, -0.75f);
  other.join();
  CHECK_EQ(wrong.load(), 0);
  a.Free();
  const std::vector<float> right = Run(source, source.graph.handle, 0.5f);
  CHECK(Run(source, b.graph, 0.5f) == right);
  b.Free();
  qnnrt_rpcmem_free(memory);
}

// No bound on time says so: the loop ends only when the other context has had its turns.
TEST(a_context_that_executes_in_a_loop_lets_the_other_one_have_the_memory) {
  Source source;
  Deferred a(source), b(source);
  const uint64_t size = SpillFillSize(a.context);
  void* memory = qnnrt_rpcmem_alloc2(25, 1, size);
  a.Finalize(memory, size, 0);
  b.Finalize(memory, size, 0);
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) Run(source, a.graph, 0.25f);
  });
  for (int i = 0; i < 50; ++i) Run(source, b.graph, -0.75f);
  over = true;
  other.join();
  a.Free();
  b.Free();
  qnnrt_rpcmem_free(memory);
}

TEST(a_size_that_is_not_the_binarys_is_refused_before_anything_is_copied) {
  Source source;
  for (uint64_t size : {uint64_t{1} << 40, UINT64_MAX, uint64_t{source.bytes.size() + 1},
                        uint64_t{source.bytes.size() - 1}, uint64_t{0}}) {
    Qnn_ContextHandle_t context = nullptr;
    CHECK_EQ(Load(source, size, &context), QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
    CHECK(context == nullptr);
  }
}

TEST(a_forked_child_frees_the_context_and_the_handle_stays_stale) {
#ifdef __SANITIZE_THREAD__
  return check::Skip("fork", "thread sanitizer");
#endif
  Source source;
  Deferred a(source);
  const uint64_t size = SpillFillSize(a.context);
  void* memory = qnnrt_rpcmem_alloc2(25, 1, size);
  a.Finalize(memory, size, 0);
  const pid_t child = fork();
  if (child == 0) {
    bool ok = q.contextFree(a.context, nullptr) == 0;
    for (int i = 0; i < 2; ++i)
      ok = ok && q.memDeRegister(&a.handle, 1) == QNN_MEM_ERROR_INVALID_HANDLE;
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_EQ(q.memDeRegister(&a.handle, 1), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);  // its arena
  a.Free();
  qnnrt_rpcmem_free(memory);
}

}  // namespace

CHECK_MAIN("spill_fill_test")
