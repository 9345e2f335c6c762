// The order of calls on the lpai backend, and the rules for the memory that it is given.
#include <algorithm>

#include "lpai_client.h"

using namespace lpai;

namespace {

constexpr uint32_t kBad = QNN_GRAPH_ERROR_INVALID_ARGUMENT;
constexpr uint32_t kBadTensor = QNN_GRAPH_ERROR_INVALID_TENSOR;

// ---- the order of calls ----

TEST(finalize_without_a_pool_that_is_needed_says_how_much) {
  Net net(nullptr, true);
  net.Compose();
  const uint32_t scratch = SizeOf(net.graph, kScratch);
  const uint32_t persistent = SizeOf(net.graph, kPersistent);
  REQUIRE(scratch != 0 && persistent != 0);
  CHECK(scratch % 16 == 0 && persistent % 16 == 0);
  Refused(q.graphFinalize(net.graph, nullptr, nullptr), kBad,
          "no scratch memory: needed are " + Number(scratch) + " bytes");
  Memory memory(scratch + persistent + 64);
  CHECK_EQ(Give(net.graph, kScratch, memory.data(), scratch), 0u);
  Refused(q.graphFinalize(net.graph, nullptr, nullptr), kBad,
          "no persistent memory: needed are " + Number(persistent) + " bytes");
  uint8_t* behind = memory.data() + (scratch + 63) / 64 * 64;
  CHECK_EQ(Give(net.graph, kPersistent, behind, persistent), 0u);
  CHECK_EQ(q.graphFinalize(net.graph, nullptr, nullptr), 0u);
  Refused(q.graphFinalize(net.graph, nullptr, nullptr), QNN_GRAPH_ERROR_GRAPH_FINALIZED,
          "finalized already");
  CHECK_EQ(q.contextFree(net.context, nullptr), 0u);  // before the memory
  net.context = nullptr;
}

TEST(a_pool_that_needs_no_bytes_needs_no_call) {
  Net net;
  net.Ready();
  CHECK_EQ(SizeOf(net.graph, kPersistent), 0u);
  CHECK_EQ(net.Execute(), 0u);
}

TEST(properties_are_asked_of_a_graph_that_is_there) {
  Net net;
  uint32_t size = 7;
  Refused(AskGraph(net.graph, kScratch, &size), kBad, "has no output yet");
  net.y = MakeTensor("y", QNN_TENSOR_TYPE_APP_READ, 2, net.dims);
  CHECK_EQ(q.tensorCreateGraphTensor(net.graph, &net.y), 0u);
  Refused(AskGraph(net.graph, kScratch, &size), QNN_GRAPH_ERROR_UNCONNECTED_NODE,
          "'y' is written by no node");
  CHECK_EQ(size, 7u);
}

TEST(a_node_that_is_added_makes_sizes_grow) {
  Net net;
  net.Compose();
  const uint32_t before = SizeOf(net.graph, kScratch);
  uint32_t large[2] = {64, 64};
  Qnn_Tensor_t in = MakeTensor("in", QNN_TENSOR_TYPE_APP_WRITE, 2, large);
  Qnn_Tensor_t out = MakeTensor("out", QNN_TENSOR_TYPE_APP_READ, 2, large);
  CHECK_EQ(q.tensorCreateGraphTensor(net.graph, &in), 0u);
  CHECK_EQ(q.tensorCreateGraphTensor(net.graph, &out), 0u);
  CHECK_EQ(q.graphAddNode(net.graph, MakeOp("more", "Tanh", &in, 1, &out)), 0u);
  CHECK(SizeOf(net.graph, kScratch) > before);
  Memory memory(before);
  Refused(Give(net.graph, kScratch, memory.data(), before), kBad,
          "has " + Number(before) + " bytes, needed are " + Number(SizeOf(net.graph, kScratch)));
}

TEST(executions_need_a_finalized_graph_and_scratch_memory) {
  Net net;
  net.Compose();
  Refused(net.Execute(), QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED, "is not finalized");
  Memory memory(SizeOf(net.graph, kScratch)), io(4096);
  CHECK_EQ(Give(net.graph, kScratch, memory.data(), SizeOf(net.graph, kScratch)), 0u);
  CHECK_EQ(q.graphFinalize(net.graph, nullptr, nullptr), 0u);
  CHECK_EQ(net.Execute(io.data(), io.data() + 64), 0u);
  CHECK_EQ(Give(net.graph, kScratch, nullptr, 0), 0u);
  Refused(net.Execute(io.data(), io.data() + 64), kBad, "no scratch memory");
  Refused(net.Execute(), kBad, "no scratch memory");
  CHECK_EQ(Give(net.graph, kScratch, memory.data(), SizeOf(net.graph, kScratch)), 0u);
  CHECK_EQ(net.Execute(io.data(), io.data() + 64), 0u);
  CHECK_EQ(Give(net.graph, kScratch, nullptr, 0), 0u);
}

TEST(a_freed_context_takes_its_graphs_along) {
  Net net;
  net.Ready();
  CHECK_EQ(q.contextFree(net.context, nullptr), 0u);
  net.context = nullptr;
  constexpr uint32_t kGone = QNN_GRAPH_ERROR_INVALID_CONTEXT;
  uint32_t size = 0;
  Refused(net.Execute(), kGone, "has been freed");
  Refused(AskGraph(net.graph, kScratch, &size), kGone, "has been freed");
  Refused(Give(net.graph, kScratch, nullptr, 0), kGone, "has been freed");
  Refused(q.graphFinalize(net.graph, nullptr, nullptr), kGone, "has been freed");
}

TEST(persistent_memory_stays_once_the_graph_is_finalized) {
  Net net(nullptr, true);
  net.Ready();
  const uint32_t size = SizeOf(net.graph, kPersistent);
  Memory other(size);
  constexpr uint32_t kDone = QNN_GRAPH_ERROR_GRAPH_FINALIZED;
  Refused(Give(net.graph, kPersistent, other.data(), size), kDone, "until the context is freed");
  Refused(Give(net.graph, kPersistent, nullptr, 0), kDone, "until the context is freed");
}

TEST(state_survives_other_scratch_memory) {
  Net net(nullptr, true);
  net.Ready();
  const uint32_t size = SizeOf(net.graph, kScratch);
  Memory io(4096), other(size);
  uint8_t *in = io.data(), *out = io.data() + 64;
  for (int step = 1; step < 6; ++step) {
    std::memset(in, step, 8);
    uint8_t* scratch = step % 2 == 0 ? net.scratch->data() : other.data();
    uint8_t* unused = step % 2 == 0 ? other.data() : net.scratch->data();
    CHECK_EQ(Give(net.graph, kScratch, scratch, size), 0u);
    std::memset(unused, 0xEE, size);
    CHECK_EQ(net.Execute(in, out), 0u);
    CHECK_EQ(int{out[0]}, step - 1);
    CHECK_EQ(int{out[15]}, step);
  }
  CHECK_EQ(Give(net.graph, kScratch, net.scratch->data(), size), 0u);
  CHECK_EQ(qnnrt_graph_reset_state(net.graph), 0u);
  CHECK_EQ(net.Execute(in, out), 0u);
  CHECK_EQ(int{out[0]}, 0);
  CHECK_EQ(int{out[15]}, 5);
}

TEST(a_buffer_that_is_not_full_yet_ends_executions_early) {
  Net net;
  net.x = MakeTensor("x", QNN_TENSOR_TYPE_APP_WRITE, 2, net.dims);
  net.y = MakeTensor("y", QNN_TENSOR_TYPE_APP_READ, 2, net.two);
  CHECK_EQ(q.tensorCreateGraphTensor(net.graph, &net.x), 0u);
  CHECK_EQ(q.tensorCreateGraphTensor(net.graph, &net.y), 0u);
  Qnn_Param_t params[] = {Scalar("buffer_size", 2), Scalar("buffer_dim", 0),
                          Scalar("mode", QNN_OP_BUFFER_MODE_BLOCKING)};
  CHECK_EQ(q.graphAddNode(net.graph, MakeOp("both", "Buffer", &net.x, 1, &net.y, params, 3)), 0u);
  const uint32_t size = SizeOf(net.graph, kScratch), kept = SizeOf(net.graph, kPersistent);
  Memory scratch(size), persistent(kept), io(4096);
  CHECK_EQ(Give(net.graph, kScratch, scratch.data(), size), 0u);
  CHECK_EQ(Give(net.graph, kPersistent, persistent.data(), kept), 0u);
  CHECK_EQ(q.graphFinalize(net.graph, nullptr, nullptr), 0u);
  net.x.v1.clientBuf = {io.data(), 8};
  net.y.v1.clientBuf = {io.data() + 64, 16};
  const auto execute = [&] {
    return q.graphExecute(net.graph, &net.x, 1, &net.y, 1, nullptr, nullptr);
  };
  io.data()[0] = 1;
  CHECK_EQ(execute(), uint64_t{QNN_GRAPH_ERROR_EARLY_TERMINATION});
  io.data()[0] = 2;
  CHECK_EQ(execute(), 0u);
  CHECK(io.data()[64] == 1 && io.data()[72] == 2);
  CHECK_EQ(q.contextFree(net.context, nullptr), 0u);
  net.context = nullptr;
}

// ---- what memory has to be like ----

TEST(pools_are_checked_against_size_and_alignment) {
  for (const char* option :
       {static_cast<const char*>(nullptr), "start_alignment:256;size_alignment:128"}) {
    Net net(option, true);
    net.Compose();
    const uint32_t start = option == nullptr ? 64 : 256, step = option == nullptr ? 16 : 128;
    for (uint32_t pool : {kScratch, kPersistent}) {
      const uint32_t size = SizeOf(net.graph, pool);
      CHECK_EQ(size % step, 0u);
      Memory memory(size + 4096);
      uint8_t* at = memory.data();
      Refused(Give(net.graph, pool, at, size - step), kBad,
              "has " + Number(size - step) + " bytes, needed are " + Number(size));
      Refused(Give(net.graph, pool, at, size - 1), kBad,
              "has " + Number(size - 1) + " bytes, needed are " + Number(size));
      Refused(Give(net.graph, pool, at + start / 2, size), kBad, "a multiple of " + Number(start));
      Refused(Give(net.graph, pool, at, size + step / 2), kBad, "a multiple of " + Number(step));
      Refused(Give(net.graph, pool, nullptr, size), kBad, Number(size) + " bytes at no address");
      CHECK_EQ(Give(net.graph, pool, at, size), 0u);
      CHECK_EQ(Give(net.graph, pool, at, size + step), 0u);
      CHECK_EQ(Give(net.graph, pool, nullptr, 0), 0u);
    }
  }
}

TEST(pools_are_always_in_ddr) {
  for (const char* option : {static_cast<const char*>(nullptr), "direct_mode:adsp"}) {
    Net net(option);
    net.Compose();
    const uint32_t size = SizeOf(net.graph, kScratch);
    Memory memory(size);
    for (uint32_t pool : {kScratch, kPersistent}) {
      for (uint32_t type : {QNN_LPAI_MEM_TYPE_LLC, QNN_LPAI_MEM_TYPE_TCM, QNN_LPAI_MEM_TYPE_PSRAM})
        Refused(Give(net.graph, pool, memory.data(), size, type), kBad,
                "scratch and persistent memory are always in DDR");
      Refused(Give(net.graph, pool, memory.data(), size, QNN_LPAI_MEM_TYPE_UNDEFINED), kBad,
              "always in DDR (1), got 2147483647");
      Refused(Give(net.graph, pool, memory.data(), size, 0), kBad, "got 0");
      Refused(GraphConfigs().Add(pool, nullptr).SetOn(net.graph), kBad, "must not be null");
    }
    Refused(Give(net.graph, kScratch, memory.data(), size, QNN_LPAI_MEM_TYPE_TCM), kBad, "got TCM");
  }
}

TEST(pools_are_not_for_graph_create) {
  Net net;
  QnnLpaiGraph_Mem_t memory = {QNN_LPAI_MEM_TYPE_DDR, 0, nullptr};
  QnnLpaiGraph_CustomConfig_t custom = {kScratch, &memory};
  QnnGraph_Config_t config;
  config.option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
  config.customConfig = &custom;
  const QnnGraph_Config_t* list[] = {&config, nullptr};
  Qnn_GraphHandle_t graph = nullptr;
  Refused(q.graphCreate(net.context, "h", list, &graph), kBad, "not for this call");
}

TEST(inputs_and_outputs_are_checked_against_alignment) {
  Net net;
  net.Ready();
  Memory io(4096);
  uint8_t *in = io.data(), *out = io.data() + 64;
  CHECK_EQ(net.Execute(in, out), 0u);
  Refused(net.Execute(in + 1, out), kBadTensor, "'x'");
  CHECK(Says("needed is a multiple of 64"));
  Refused(net.Execute(in, out + 32), kBadTensor, "'y'");
  net.x.v1.clientBuf = {in, 8};
  net.y.v1.clientBuf = {out, 7};
  const auto execute = [&] {
    return q.graphExecute(net.graph, &net.x, 1, &net.y, 1, nullptr, nullptr);
  };
  Refused(execute(), kBadTensor, "has 7 bytes");
  net.y.v1.clientBuf.dataSize = 12;
  Refused(execute(), kBadTensor, "has 12 bytes; needed are exactly 8, or more by a multiple of 16");
  net.y.v1.clientBuf.dataSize = 16;
  CHECK_EQ(execute(), 0u);
}

TEST(a_list_of_configs_is_applied_whole_or_not_at_all) {
  Net net(nullptr, true);
  net.Compose();
  const uint32_t size = SizeOf(net.graph, kScratch), kept = SizeOf(net.graph, kPersistent);
  Memory a(size), b(kept), c(std::max(size, kept));
  QnnLpaiGraph_Mem_t scratch = {QNN_LPAI_MEM_TYPE_DDR, size, a.data()};
  QnnLpaiGraph_Mem_t persistent = {QNN_LPAI_MEM_TYPE_DDR, kept, b.data()};
  QnnLpaiGraph_PerfCfg_t perf = {30, 20, QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_NON_REAL_TIME};
  CHECK_EQ(GraphConfigs()
               .Add(kScratch, &scratch)
               .Add(kPersistent, &persistent)
               .Add(QNN_LPAI_GRAPH_SET_CFG_PERF_CFG, &perf)
               .SetOn(net.graph),
           0u);
  const std::string before = qnnrt_lpai_describe(net.graph);
  persistent.addr = c.data();
  scratch.size = size - 16;
  perf.fps = 1;
  CHECK_EQ(GraphConfigs()
               .Add(QNN_LPAI_GRAPH_SET_CFG_PERF_CFG, &perf)
               .Add(kPersistent, &persistent)
               .Add(kScratch, &scratch)
               .SetOn(net.graph),
           kBad);
  CHECK_EQ(std::string(qnnrt_lpai_describe(net.graph)), before);
  QnnLpaiGraph_CoreAffinity_t affinity = {QNN_LPAI_GRAPH_CORE_AFFINITY_HARD, 3};
  CHECK_EQ(GraphConfigs()
               .Add(QNN_LPAI_GRAPH_SET_CFG_PERF_CFG, &perf)
               .Add(QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY, &affinity)
               .SetOn(net.graph),
           kBad);
  CHECK_EQ(std::string(qnnrt_lpai_describe(net.graph)), before);
  std::memset(c.data(), 0xEE, kept);  // what was refused is nobody's
  CHECK_EQ(q.graphFinalize(net.graph, nullptr, nullptr), 0u);
  CHECK_EQ(net.Execute(), 0u);
  CHECK(c.data()[0] == 0xEE && c.data()[kept - 1] == 0xEE);
  CHECK_EQ(q.contextFree(net.context, nullptr), 0u);
  net.context = nullptr;
}

}  // namespace

CHECK_MAIN("lpai_api_test")
