// What the lpai backend can be told and asked: properties, hardware, performance, cores.
#include "lpai_client.h"

using namespace lpai;

namespace {

constexpr uint32_t kBad = QNN_GRAPH_ERROR_INVALID_ARGUMENT;

// ---- properties ----

TEST(a_backend_tells_alignment_and_cores) {
  Net net;
  QnnLpaiBackend_BufferAlignmentReq_t alignment = {};
  uint32_t persistent = 7, cores = 0;
  CHECK_EQ(AskBackend(net.backend, QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ, &alignment), 0u);
  CHECK(alignment.startAddrAlignment == 64 && alignment.sizeAlignment == 16);
  // Several in one list.
  QnnLpaiBackend_CustomProperty_t customs[] = {
      {QNN_LPAI_BACKEND_GET_PROP_REQUIRE_PERSISTENT_BINARY, &persistent},
      {QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_NUM, &cores}};
  QnnBackend_Property_t properties[2];
  QnnBackend_Property_t* list[3] = {};
  for (int i = 0; i < 2; ++i) {
    properties[i].option = QNN_BACKEND_PROPERTY_OPTION_CUSTOM;
    properties[i].customProperty = &customs[i];
    list[i] = &properties[i];
  }
  CHECK_EQ(q.backendGetProperty(net.backend, list), 0u);
  CHECK(persistent == 0 && cores == 2);
  QnnLpaiBackend_eNPUCoreInfo_t core = {1, 0, 0};
  CHECK_EQ(AskBackend(net.backend, QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_INFO, &core), 0u);
  CHECK(core.coreIndex == 1 && core.macCnt == 512 && core.version == 6);
  core.coreIndex = 2;
  constexpr uint32_t kBadArgument = QNN_BACKEND_ERROR_INVALID_ARGUMENT;
  Refused(AskBackend(net.backend, QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_INFO, &core), kBadArgument,
          "from 0 to 1, got 2");
  Refused(AskBackend(net.backend, 0, nullptr), kBadArgument, "must not be null");
  properties[0].customProperty = nullptr;
  Refused(q.backendGetProperty(net.backend, list), kBadArgument, "must not be null");
  Refused(q.backendGetProperty(net.backend, nullptr), kBadArgument, "must not be null");
  constexpr uint32_t kUnknown = QNN_BACKEND_ERROR_NOT_SUPPORTED;
  for (uint32_t option : {2u, 199u, 201u, 301u, 0x7FFFFFFFu})
    Refused(AskBackend(net.backend, option, &cores), kUnknown, "property " + Number(option));
  properties[0].option = QNN_BACKEND_PROPERTY_OPTION_UNDEFINED;
  Refused(q.backendGetProperty(net.backend, list), kUnknown, "2147483647");
  Refused(q.backendGetProperty(net.graph, list), QNN_BACKEND_ERROR_INVALID_HANDLE, "no live");
}

TEST(a_graph_tells_the_sizes_of_its_pools) {
  Net net(nullptr, true);
  net.Compose();
  uint32_t sizes[2] = {};
  QnnLpaiGraph_CustomProperty_t customs[] = {{kScratch, &sizes[0]}, {kPersistent, &sizes[1]}};
  QnnGraph_Property_t properties[2];
  QnnGraph_Property_t* list[3] = {};
  for (int i = 0; i < 2; ++i) {
    properties[i].option = QNN_GRAPH_PROPERTY_OPTION_CUSTOM;
    properties[i].customProperty = &customs[i];
    list[i] = &properties[i];
  }
  CHECK_EQ(q.graphGetProperty(net.graph, list), 0u);
  CHECK(sizes[0] == SizeOf(net.graph, kScratch) && sizes[1] == SizeOf(net.graph, kPersistent));
  constexpr uint32_t kUnknown = QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE;
  for (uint32_t option : {0u, 2u, 100u, 102u})
    Refused(AskGraph(net.graph, option, sizes), kUnknown, "property " + Number(option));
  Refused(AskGraph(net.graph, kScratch, nullptr), kBad, "must not be null");
  Refused(q.graphGetProperty(net.graph, nullptr), kBad, "must not be null");
  properties[0].customProperty = nullptr;
  Refused(q.graphGetProperty(net.graph, list), kBad, "must not be null");
  properties[0].option = QNN_GRAPH_PROPERTY_OPTION_UNDEFINED;
  Refused(q.graphGetProperty(net.graph, list), kUnknown, "2147483647");
  Refused(AskGraph(net.backend, kScratch, sizes), QNN_GRAPH_ERROR_INVALID_HANDLE, "no live");
}

TEST(a_size_beyond_32_bits_is_an_error_and_no_number) {
  if (qnnrt::PhysicalMemory() < uint64_t{10} << 30) {
    check::Skip("the size", "this machine has less memory than the graph needs");
    return;
  }
  Net net;
  uint32_t large[2] = {65536, 65536};
  net.x = MakeTensor("x", QNN_TENSOR_TYPE_APP_WRITE, 2, large);
  net.y = MakeTensor("y", QNN_TENSOR_TYPE_APP_READ, 2, large);
  CHECK_EQ(q.tensorCreateGraphTensor(net.graph, &net.x), 0u);
  CHECK_EQ(q.tensorCreateGraphTensor(net.graph, &net.y), 0u);
  CHECK_EQ(q.graphAddNode(net.graph, MakeOp("tanh", "Tanh", &net.x, 1, &net.y)), 0u);
  uint32_t size = 7;
  Refused(AskGraph(net.graph, kScratch, &size), QNN_COMMON_ERROR_MEM_ALLOC,
          "needs 8589934592 bytes of scratch memory, more than the 4294967295");
  CHECK_EQ(size, 7u);
  CHECK_EQ(AskGraph(net.graph, kPersistent, &size), 0u);
  CHECK_EQ(size, 0u);
}

// ---- hardware, performance, cores ----

Code CreateWith(const QnnBackend_Config_t** list, std::string* described = nullptr) {
  Qnn_BackendHandle_t backend = nullptr;
  const Code code = q.backendCreate(nullptr, list, &backend);
  CHECK_EQ(backend != nullptr, code == 0);
  if (code != 0) return code;
  if (described != nullptr) *described = qnnrt_lpai_describe(backend);
  CHECK_EQ(q.backendFree(backend), 0u);
  return code;
}

TEST(hardware_is_validated_and_reported) {
  const char* targets[] = {"X86", "ARM", "ADSP", "TENSILICA"};
  std::string json;
  for (uint32_t target = 0; target < 4; ++target) {
    CHECK_EQ(CreateWith(Hardware(target, 65541).list, &json), 0u);
    CHECK(json.find(R"("hw_version":"V5_1","target":")" + std::string(targets[target]) + '"') !=
          std::string::npos);
  }
  constexpr uint32_t kInvalid = QNN_BACKEND_ERROR_INVALID_CONFIG;
  for (uint32_t version : {0u, 8u, 65540u, 0x7FFFFFFFu})
    Refused(CreateWith(Hardware(0, version).list), kInvalid, "got " + Number(version));
  for (uint32_t target : {4u, 0x7FFFFFFFu})
    Refused(CreateWith(Hardware(target, 6).list), kInvalid, "got " + Number(target));
  CHECK_EQ(CreateWith(nullptr, &json), 0u);
  CHECK(json.find(R"("hw_version":"V6","target":"X86","direct_mode":false)") != std::string::npos);
  CHECK_EQ(CreateWith(Hardware(2, 7, "direct_mode:adsp").list, &json), 0u);
  CHECK(json.find(R"("hw_version":"V7","target":"ADSP","direct_mode":true)") != std::string::npos);
  Refused(CreateWith(Hardware(0, 7, "direct_mode:adsp").list), kInvalid, "runs on ADSP");
  Hardware nothing(0, 6);
  nothing.custom.config = nullptr;
  Refused(CreateWith(nothing.list), kInvalid, "must not be null");
  Net net;
  Refused(q.backendSetConfig(net.backend, Hardware(0, 6).list), kInvalid, "when creating");
}

TEST(platform_options_are_checked_one_by_one) {
  constexpr uint32_t kInvalid = QNN_BACKEND_ERROR_INVALID_CONFIG;
  for (const char* good :
       {"direct_mode:adsp", "start_alignment:1", "start_alignment:4096", "size_alignment:1",
        "enpu_cores:32;enpu_macs:1048576", "threads:1;kernels:portable;direct_mode:adsp"})
    CHECK_EQ(CreateWith(Platform(good).list), 0u);
  for (const char* bad :
       {"direct_mode", "direct_mode:", "direct_mode:cdsp", "start_alignment:0",
        "start_alignment:48", "start_alignment:8192", "start_alignment:64x", "start_alignment:-64",
        "size_alignment:", "size_alignment:3", "enpu_cores:0", "enpu_cores:33", "enpu_macs:0",
        "enpu_macs:1048577", "threads:0", "kernels:fast", "domain_bytes:100", "alignment:64"})
    Refused(CreateWith(Platform(bad).list), kInvalid, "platform option '" + std::string(bad));
  Net net;
  Refused(q.backendSetConfig(net.backend, Platform("start_alignment:128").list), kInvalid,
          "is for backendCreate");
  CHECK_EQ(q.backendSetConfig(net.backend, Platform("threads:1").list), 0u);
  Net aligned("start_alignment:256;size_alignment:32;enpu_cores:3");
  QnnLpaiBackend_BufferAlignmentReq_t req = {};
  CHECK_EQ(AskBackend(aligned.backend, QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ, &req), 0u);
  CHECK(req.startAddrAlignment == 256 && req.sizeAlignment == 32);
}

TEST(performance_and_affinity_are_validated_and_reported) {
  Net net;
  const auto says = [&](const char* part) {
    return std::string(qnnrt_lpai_describe(net.graph)).find(part) != std::string::npos;
  };
  CHECK(says(R"("perf":{"fps":1,"ftrt_ratio":10,"client_type":"real_time"})"));
  CHECK(says(R"("affinity":{"affinity":"soft","core_selection":0})"));
  CHECK_EQ(SetPerf(net.graph, 60, 0x8000, 2), 0u);
  CHECK_EQ(SetAffinity(net.graph, 2, 2), 0u);
  CHECK(says(R"("perf":{"fps":60,"ftrt_ratio":32768,"client_type":"non_real_time"})"));
  CHECK(says(R"("affinity":{"affinity":"hard","core_selection":2})"));
  Refused(SetPerf(net.graph, 0, 10, 1), kBad, "fps is 1 or more, got 0");
  Refused(SetPerf(net.graph, 1, 0, 1), kBad, "ftrtRatio is 1 or more, got 0");
  for (uint32_t type : {0u, 3u, 0x7FFFFFFFu})
    Refused(SetPerf(net.graph, 1, 10, type), kBad, "got " + Number(type));
  for (uint32_t affinity : {0u, 3u, 0x7FFFFFFFu})
    Refused(SetAffinity(net.graph, affinity, 0), kBad, "got " + Number(affinity));
  for (uint32_t cores : {3u, 4u, 5u, 0x80000000u})
    Refused(SetAffinity(net.graph, 1, cores), kBad, "one of the 2 cores, got " + Number(cores));
  for (uint32_t cores : {0u, 1u, 2u}) CHECK_EQ(SetAffinity(net.graph, 1, cores), 0u);
  for (uint32_t option : {201u, 301u, 10001u})
    Refused(GraphConfigs().Add(option, nullptr).SetOn(net.graph), kBad, "must not be null");
  for (uint32_t option : {0u, 2u, 202u})
    Refused(GraphConfigs().Add(option, nullptr).SetOn(net.graph),
            QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, Number(option));
  Net many("enpu_cores:32");
  CHECK_EQ(SetAffinity(many.graph, 1, 0x80000000u), 0u);
  net.Ready();  // and at any time
  CHECK_EQ(SetPerf(net.graph, 2, 10, 1), 0u);
  CHECK_EQ(SetAffinity(net.graph, 1, 1), 0u);
  CHECK_EQ(net.Execute(), 0u);
}

TEST(prepare_is_said_before_the_graph_is_prepared) {
  Net net;
  net.Compose();
  char all[] = "0,1";
  QnnLpaiGraph_CustomConfigPrepare_t prepare = {1, all};
  const auto set = [&] {
    return GraphConfigs().Add(QNN_LPAI_GRAPH_SET_CFG_PREPARE, &prepare).SetOn(net.graph);
  };
  CHECK_EQ(set(), 0u);
  CHECK(std::string(qnnrt_lpai_describe(net.graph))
            .find(R"("PREPARE":{"enablePerLayer":1,"enableCoreSelection":"0,1"})") !=
        std::string::npos);
  prepare.enablePerLayer = 2;
  Refused(set(), kBad, "got 2");
  prepare.enablePerLayer = 0;
  (void)SizeOf(net.graph, kScratch);
  Refused(set(), kBad, "is prepared already");
}

TEST(a_description_tells_needed_and_given) {
  Net net(nullptr, true);
  const auto pool = [](uint32_t needed, uint32_t given, const void* address) {
    return "{\"needed\":" + Number(needed) + ",\"given\":" + Number(given) +
           ",\"address\":" + Number(reinterpret_cast<uintptr_t>(address)) + "}";
  };
  const auto describes = [&](const std::string& part) {
    return std::string(qnnrt_lpai_describe(net.backend)).find(part) != std::string::npos &&
           std::string(qnnrt_lpai_describe(net.graph)).find(part) != std::string::npos;
  };
  CHECK(describes(R"("scratch":{"needed":null,"given":0,"address":0})"));
  net.Ready();
  CHECK(describes("\"scratch\":" + pool(SizeOf(net.graph, kScratch), SizeOf(net.graph, kScratch),
                                        net.scratch->data())));
  CHECK(
      describes("\"persistent\":" + pool(SizeOf(net.graph, kPersistent),
                                         SizeOf(net.graph, kPersistent), net.persistent->data())));
  CHECK(describes("\"finalized\":true"));
  CHECK(qnnrt_lpai_describe(net.context) == nullptr);
  CHECK(qnnrt_lpai_describe(nullptr) == nullptr);
}

}  // namespace

CHECK_MAIN("lpai_config_test")
