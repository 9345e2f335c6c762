// Devices, votes and configs of the htp backend as a C client has them: null pointers, stale
// handles, both layouts of HTP's device config, many threads, and memory running out anywhere.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnn_interface.h"
#include "abi/qnnrt_ext.h"
#include "check.h"

extern "C" Qnn_ErrorHandle_t qnnrt_htp_get_providers(const QnnInterface_t*** list, uint32_t* n);

namespace {

using Code = Qnn_ErrorHandle_t;

const QnnInterface_ImplementationV2_32_t& q = []() -> const QnnInterface_ImplementationV2_32_t& {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  qnnrt_htp_get_providers(&list, &count);
  return list[0]->v2_32;
}();

QnnHtpDevice_PerfInfrastructure_t Perf() {
  QnnDevice_Infrastructure_t infrastructure = nullptr;
  if (q.deviceGetInfrastructure(&infrastructure) != 0) return {};
  return static_cast<const QnnHtpDevice_Infrastructure_t*>(infrastructure)->perfInfra;
}

template <typename Config>
struct List {  // of one config
  explicit List(const Config& c) : config(c), list{&config, nullptr} {}
  Config config;
  const Config* list[2];
};

QnnDevice_Config_t Custom(void* custom) {
  QnnDevice_Config_t c;
  c.option = QNN_DEVICE_CONFIG_OPTION_CUSTOM;
  c.customConfig = custom;
  return c;
}

const QnnHtpDevice_OnChipDeviceInfoExtension_t& Chip(const QnnDevice_PlatformInfo_t* info) {
  return static_cast<const QnnHtpDevice_DeviceInfoExtension_t*>(
             info->v1.hwDevices[0].v1.deviceInfoExtension)
      ->onChipDevice;
}

uint64_t Devices() {
  Qnnrt_LiveCounts_t counts;
  qnnrt_live_counts(&counts);
  return counts.devices;
}

TEST(null_arguments_and_stale_handles_are_refused) {
  CHECK_EQ(q.deviceCreate(nullptr, nullptr, nullptr), Code{QNN_DEVICE_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(q.deviceGetPlatformInfo(nullptr, nullptr), Code{QNN_DEVICE_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(q.deviceGetInfrastructure(nullptr), Code{QNN_DEVICE_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(q.deviceFreePlatformInfo(nullptr, nullptr), Code{QNN_DEVICE_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(q.deviceFree(nullptr), Code{QNN_DEVICE_ERROR_INVALID_HANDLE});
  CHECK_EQ(q.deviceSetConfig(nullptr, nullptr), Code{QNN_DEVICE_ERROR_INVALID_HANDLE});
  const QnnDevice_PlatformInfo_t* info = nullptr;
  CHECK_EQ(q.deviceGetInfo(nullptr, &info), Code{QNN_DEVICE_ERROR_INVALID_HANDLE});
  Qnn_DeviceHandle_t device = nullptr;
  int no_log = 0;
  CHECK_EQ(q.deviceCreate(&no_log, nullptr, &device), Code{QNN_DEVICE_ERROR_INVALID_ARGUMENT});
  CHECK(device == nullptr);
  REQUIRE(q.deviceCreate(nullptr, nullptr, &device) == 0);
  CHECK_EQ(q.deviceGetInfo(device, nullptr), Code{QNN_DEVICE_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(Devices(), 1u);
  CHECK(qnnrt_htp_describe(device) != nullptr);
  CHECK_EQ(q.deviceFree(device), 0u);
  CHECK(qnnrt_htp_describe(device) == nullptr);
  CHECK_EQ(q.deviceFree(device), Code{QNN_DEVICE_ERROR_INVALID_HANDLE});
  CHECK_EQ(Devices(), 0u);
}

TEST(platform_infos_are_freed_once_and_by_whom_they_belong_to) {
  const QnnDevice_PlatformInfo_t *one = nullptr, *two = nullptr, *of_device = nullptr;
  REQUIRE(q.deviceGetPlatformInfo(nullptr, &one) == 0);
  REQUIRE(q.deviceGetPlatformInfo(nullptr, &two) == 0);
  CHECK(one != two);
  CHECK_EQ(one->v1.numHwDevices, 1u);
  CHECK_EQ(one->v1.hwDevices[0].v1.numCores, 1u);
  CHECK_EQ(Chip(one).vtcmSize, size_t{4});
  CHECK_EQ(Chip(one).socModel, 30u);
  CHECK(Chip(one).arch == QNN_HTP_DEVICE_ARCH_V68);
  Qnn_DeviceHandle_t device = nullptr;
  REQUIRE(q.deviceCreate(nullptr, nullptr, &device) == 0);
  REQUIRE(q.deviceGetInfo(device, &of_device) == 0);
  CHECK_EQ(q.deviceFreePlatformInfo(nullptr, of_device), Code{QNN_DEVICE_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(q.deviceFreePlatformInfo(nullptr, one), 0u);
  CHECK_EQ(q.deviceFreePlatformInfo(nullptr, one), Code{QNN_DEVICE_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(Chip(two).socModel, 30u);
  CHECK_EQ(q.deviceFreePlatformInfo(nullptr, two), 0u);
  CHECK_EQ(q.deviceFree(device), 0u);
}

TEST(the_only_core_is_number_0) {
  const QnnDevice_PlatformInfo_t* one = nullptr;
  REQUIRE(q.deviceGetPlatformInfo(nullptr, &one) == 0);
  QnnDevice_PlatformInfo_t info = *one;
  QnnDevice_HardwareDeviceInfo_t hardware = info.v1.hwDevices[0];
  QnnDevice_CoreInfo_t core = hardware.v1.cores[0];
  hardware.v1.cores = &core;
  info.v1.hwDevices = &hardware;
  QnnDevice_Config_t wanted{};
  wanted.option = QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO;
  wanted.hardwareInfo = &info;
  List<QnnDevice_Config_t> config(wanted);
  Qnn_DeviceHandle_t device = nullptr;
  REQUIRE(q.deviceCreate(nullptr, config.list, &device) == 0);
  CHECK_EQ(q.deviceFree(device), 0u);
  core.v1.coreId = 1;
  CHECK_EQ(q.deviceCreate(nullptr, config.list, &device), Code{QNN_DEVICE_ERROR_INVALID_CONFIG});
  core.v1.coreId = 0;
  hardware.v1.cores = nullptr;
  CHECK_EQ(q.deviceCreate(nullptr, config.list, &device), Code{QNN_DEVICE_ERROR_INVALID_CONFIG});
  CHECK_EQ(q.deviceFreePlatformInfo(nullptr, one), 0u);
}

// The union of QnnHtpDevice_CustomConfig_t at byte 4 (core API 2.32) and at byte 8 (2.40).
TEST(device_configs_of_both_layouts_say_the_same) {
  struct Case {
    std::vector<uint32_t> words;
    uint32_t soc, arch;
  };
  for (const Case& c : std::vector<Case>{
           {{QNN_HTP_DEVICE_CONFIG_OPTION_SOC, 69, 0}, 69, 79},
           {{QNN_HTP_DEVICE_CONFIG_OPTION_SOC, 0, 69, 0}, 69, 79},
           {{QNN_HTP_DEVICE_CONFIG_OPTION_ARCH, 0, 73}, 30, 73},
           {{QNN_HTP_DEVICE_CONFIG_OPTION_ARCH, 0, 0, 73}, 30, 73},
           {{QNN_HTP_DEVICE_CONFIG_OPTION_ARCH, QNN_DEFAULT_DEVICE_ID, 73}, 30, 73},
           {{QNN_HTP_DEVICE_CONFIG_OPTION_ARCH, 0, QNN_DEFAULT_DEVICE_ID, 73}, 30, 73},
           {{QNN_HTP_DEVICE_CONFIG_OPTION_ARCH, 0, 0, 0}, 30, 68},
       }) {
    std::vector<uint32_t> words = c.words;  // no longer than the layout: a sanitizer sees a read
    List<QnnDevice_Config_t> config(Custom(words.data()));
    Qnn_DeviceHandle_t device = nullptr;
    REQUIRE(q.deviceCreate(nullptr, config.list, &device) == 0);
    const QnnDevice_PlatformInfo_t* info = nullptr;
    REQUIRE(q.deviceGetInfo(device, &info) == 0);
    CHECK_EQ(Chip(info).socModel, c.soc);
    CHECK_EQ(static_cast<uint32_t>(Chip(info).arch), c.arch);
    CHECK_EQ(q.deviceFree(device), 0u);
  }
}

TEST(what_deviceGetInfo_gave_stays_valid_and_follows_the_device) {
  Qnn_DeviceHandle_t device = nullptr;
  REQUIRE(q.deviceCreate(nullptr, nullptr, &device) == 0);
  const QnnDevice_PlatformInfo_t *before = nullptr, *after = nullptr;
  REQUIRE(q.deviceGetInfo(device, &before) == 0);
  uint32_t soc[] = {QNN_HTP_DEVICE_CONFIG_OPTION_SOC, 43, 0};
  List<QnnDevice_Config_t> config(Custom(soc));
  REQUIRE(q.deviceSetConfig(device, config.list) == 0);
  REQUIRE(q.deviceGetInfo(device, &after) == 0);
  CHECK(before == after);
  CHECK_EQ(Chip(after).socModel, 43u);
  soc[1] = 9999;
  CHECK_EQ(q.deviceSetConfig(device, config.list), Code{QNN_DEVICE_ERROR_INVALID_CONFIG});
  REQUIRE(q.deviceGetInfo(device, &after) == 0);
  CHECK_EQ(Chip(after).socModel, 43u);
  CHECK_EQ(q.deviceFree(device), 0u);
}

TEST(votes_refuse_null_pointers_with_codes_of_their_own) {
  QnnHtpDevice_PerfInfrastructure_t perf = Perf();
  REQUIRE(perf.createPowerConfigId != nullptr);
  CHECK_EQ(perf.createPowerConfigId(0, 0, nullptr),
           Code{QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR});
  uint32_t id = 77;
  CHECK_EQ(perf.createPowerConfigId(1, 0, &id),
           Code{QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT});
  CHECK_EQ(id, 0u);
  REQUIRE(perf.createPowerConfigId(0, 0, &id) == 0);
  CHECK_EQ(perf.setPowerConfig(id, nullptr), Code{QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT});
  CHECK_EQ(perf.setMemoryConfig(0, 0, nullptr),
           Code{QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT});
  QnnHtpPerfInfrastructure_MemoryConfig_t grow = {
      QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_GROW_SIZE, {1 << 20}};
  List<QnnHtpPerfInfrastructure_MemoryConfig_t> memory(grow);
  CHECK_EQ(perf.setMemoryConfig(0, 0, memory.list), 0u);
  CHECK(std::string(qnnrt_htp_describe(nullptr)).find("\"GROW_SIZE\":1048576") !=
        std::string::npos);
  CHECK_EQ(perf.setMemoryConfig(0, 3, memory.list),
           Code{QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT});
  memory.config.option = QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_UNKNOWN;
  CHECK_EQ(perf.setMemoryConfig(0, 0, memory.list),
           Code{QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG});
  CHECK_EQ(perf.destroyPowerConfigId(id), 0u);
}

// A client's life with everything that this file is about. Close works from any step.
struct Client {
  const QnnDevice_PlatformInfo_t* platform = nullptr;
  Qnn_DeviceHandle_t device = nullptr;
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  Qnn_ProfileHandle_t profile = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  uint32_t power = 0;

  Code Open() {
    Code e = q.deviceGetPlatformInfo(nullptr, &platform);
    uint32_t arch[] = {QNN_HTP_DEVICE_CONFIG_OPTION_ARCH, 0, 75};
    List<QnnDevice_Config_t> device_config(Custom(arch));
    if (e == 0) e = q.deviceCreate(nullptr, device_config.list, &device);
    const QnnDevice_PlatformInfo_t* info;
    if (e == 0) e = q.deviceGetInfo(device, &info);
    if (e == 0) e = q.deviceSetConfig(device, device_config.list);
    if (e == 0) e = Vote();
    if (e == 0) e = q.backendCreate(nullptr, nullptr, &backend);
    if (e == 0) e = q.profileCreate(backend, QNN_PROFILE_LEVEL_BASIC, &profile);
    if (e == 0) e = Prepare();
    return e;
  }

  Code Vote() {
    Code e = Perf().createPowerConfigId(0, 0, &power);
    if (e != 0) return e;
    QnnHtpPerfInfrastructure_PowerConfig_t vote;
    std::memset(&vote, 0, sizeof(vote));
    vote.option = QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DCVS_V3;
    vote.dcvsV3Config.contextId = power;
    vote.dcvsV3Config.setDcvsEnable = 1;
    vote.dcvsV3Config.powerMode = QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_PERFORMANCE_MODE;
    List<QnnHtpPerfInfrastructure_PowerConfig_t> list(vote);
    return Perf().setPowerConfig(power, list.list);
  }

  Code Prepare() {
    QnnContext_Config_t priority;
    priority.option = QNN_CONTEXT_CONFIG_OPTION_PRIORITY;
    priority.priority = QNN_PRIORITY_HIGH;
    List<QnnContext_Config_t> context_config(priority);
    Code e = q.contextCreate(backend, device, context_config.list, &context);
    if (e == 0) e = q.contextSetConfig(context, context_config.list);
    QnnHtpGraph_CustomConfig_t threads;
    std::memset(&threads, 0, sizeof(threads));
    threads.option = QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS;
    threads.numHvxThreads = 1;
    QnnGraph_Config_t custom, bound;
    custom.option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
    custom.customConfig = &threads;
    bound.option = QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE;
    bound.profileHandle = profile;
    const QnnGraph_Config_t* configs[] = {&custom, &bound, nullptr};
    if (e == 0) e = q.graphCreate(context, "g", configs, &graph);
    if (e == 0) e = q.graphSetConfig(graph, configs);
    return e;
  }

  void Close() {
    if (context != nullptr) CHECK_EQ(q.contextFree(context, nullptr), 0u);
    if (profile != nullptr) CHECK_EQ(q.profileFree(profile), 0u);
    if (backend != nullptr) CHECK_EQ(q.backendFree(backend), 0u);
    if (power != 0) CHECK_EQ(Perf().destroyPowerConfigId(power), 0u);
    if (device != nullptr) CHECK_EQ(q.deviceFree(device), 0u);
    if (platform != nullptr) CHECK_EQ(q.deviceFreePlatformInfo(nullptr, platform), 0u);
  }
};

bool Same(const Qnnrt_LiveCounts_t& a, const Qnnrt_LiveCounts_t& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

TEST(wherever_memory_runs_out_nothing_stays) {
  Qnnrt_LiveCounts_t before, after;
  {
    Client warm;
    REQUIRE(warm.Open() == 0);
    warm.Close();
  }
  qnnrt_live_counts(&before);
  int failed = 0;
  bool finished = false;
  for (int64_t n = 1; n < 2000 && !finished; ++n) {
    Client c;
    uint64_t start = qnnrt_debug_allocations();
    qnnrt_debug_fail_allocation(n);
    Code e = c.Open();
    qnnrt_debug_fail_allocation(-1);
    finished = e == 0 && static_cast<int64_t>(qnnrt_debug_allocations() - start) < n;
    if (e != 0) {
      ++failed;
      CHECK_EQ(e, Code{QNN_COMMON_ERROR_MEM_ALLOC});
    }
    c.Close();
    qnnrt_live_counts(&after);
    CHECK(Same(before, after));
  }
  CHECK(finished);
  CHECK(failed > 20);
  CHECK(std::string(qnnrt_htp_describe(nullptr)).find("\"power_configs\":[]") != std::string::npos);
  CHECK(std::string(qnnrt_htp_describe(nullptr)).find("\"platform_infos\":0") != std::string::npos);
}

// JSON whatever is set how often: one value for each type, the last.
TEST(optimization_values_are_kept_by_type) {
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
  Qnn_GraphHandle_t graph = nullptr;
  CHECK_EQ(q.backendCreate(nullptr, nullptr, &backend), 0u);
  CHECK_EQ(q.contextCreate(backend, nullptr, nullptr, &context), 0u);
  CHECK_EQ(q.graphCreate(context, "g", nullptr, &graph), 0u);
  const auto set = [&](QnnHtpGraph_OptimizationType_t type, float value) {
    QnnHtpGraph_CustomConfig_t custom;
    std::memset(&custom, 0, sizeof(custom));
    custom.option = QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION;
    custom.optimizationOption = {type, value};
    QnnGraph_Config_t config;
    std::memset(&config, 0, sizeof(config));
    config.option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
    config.customConfig = &custom;
    List<QnnGraph_Config_t> list(config);
    CHECK_EQ(q.graphSetConfig(graph, list.list), 0u);
  };
  const auto described = [&](const char* values) {
    return std::string(qnnrt_htp_describe(nullptr))
               .find(std::string("\"OPTIMIZATION\":{") + values + "}") != std::string::npos;
  };
  constexpr auto kFlag = QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG;
  constexpr auto kDlbc = QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC;
  set(kFlag, 3);
  set(kDlbc, 0.5f);
  CHECK(described("\"FINALIZE_OPTIMIZATION_FLAG\":3,\"ENABLE_DLBC\":0.5"));
  set(kFlag, 2);
  CHECK(described("\"ENABLE_DLBC\":0.5,\"FINALIZE_OPTIMIZATION_FLAG\":2"));
  set(kFlag, 1);
  set(kDlbc, 1);
  CHECK(described("\"FINALIZE_OPTIMIZATION_FLAG\":1,\"ENABLE_DLBC\":1"));
  CHECK_EQ(q.contextFree(context, nullptr), 0u);
  CHECK_EQ(q.backendFree(backend), 0u);
}

TEST(many_threads_open_describe_and_close) {
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&errors, t] {
      for (int i = 0; i < 50; ++i) {
        Client c;
        errors += c.Open() != 0;
        const char* text = qnnrt_htp_describe(t % 2 == 0 ? nullptr : c.device);
        errors += text == nullptr || std::strstr(text, "\"NUM_HVX_THREADS\":1") == nullptr;
        errors += q.deviceFree(c.device) != QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT;
        c.Close();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(errors.load(), 0);
  CHECK_EQ(Devices(), 0u);
}

// Whoever comes first: the device is freed, or it is in use and stays.
TEST(freeing_a_device_races_with_contexts_that_take_it) {
  Qnn_BackendHandle_t backend = nullptr;
  REQUIRE(q.backendCreate(nullptr, nullptr, &backend) == 0);
  for (int i = 0; i < 200; ++i) {
    Qnn_DeviceHandle_t device = nullptr;
    REQUIRE(q.deviceCreate(nullptr, nullptr, &device) == 0);
    Qnn_ContextHandle_t context = nullptr;
    Code created = 0;
    std::thread other([&] { created = q.contextCreate(backend, device, nullptr, &context); });
    Code freed = q.deviceFree(device);
    other.join();
    if (created == 0) {
      CHECK(freed == QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT ||
            freed == QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
      CHECK_EQ(q.contextFree(context, nullptr), 0u);
      CHECK_EQ(q.deviceFree(device), 0u);
    } else {
      CHECK_EQ(created, Code{QNN_CONTEXT_ERROR_INVALID_HANDLE});
      if (freed != 0) CHECK_EQ(q.deviceFree(device), 0u);  // it met the other call
    }
  }
  CHECK_EQ(q.backendFree(backend), 0u);
  CHECK_EQ(Devices(), 0u);
}

}  // namespace

CHECK_MAIN("device_test")
