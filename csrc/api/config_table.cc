#include "api/config_table.h"

#include <cstring>

#include "abi/qnn_context.h"
#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnn_lpai.h"
#include "abi/qnn_objects.h"
#include "abi/qnnrt_ext.h"

namespace qnnrt {
namespace {

using S = ConfigScope;
constexpr Verdict kEffect = Verdict::kEffect;
constexpr Verdict kRecorded = Verdict::kRecorded;
constexpr Verdict kRefused = Verdict::kRefused;
constexpr uint8_t kNew = kAtCreate | kAtCreateFromBinary;
constexpr uint8_t kAlways = kNew | kAtSet;
constexpr uint8_t kOnce = kAtCreate | kAtSet;

struct ScopeInfo {
  const char* name;
  ErrorCode unsupported;  // no such option
  ErrorCode invalid;      // a value out of range, or an option in the wrong call
};

constexpr ScopeInfo kScopes[] = {
    {"global", QNN_COMMON_ERROR_NOT_SUPPORTED, QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG},
    {"backend", QNN_BACKEND_ERROR_NOT_SUPPORTED, QNN_BACKEND_ERROR_INVALID_CONFIG},
    {"lpai backend", QNN_BACKEND_ERROR_NOT_SUPPORTED, QNN_BACKEND_ERROR_INVALID_CONFIG},
    {"context", QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, QNN_CONTEXT_ERROR_INVALID_CONFIG},
    {"htp context", QNN_CONTEXT_ERROR_INVALID_CONFIG, QNN_CONTEXT_ERROR_INVALID_CONFIG},
    {"lpai context", QNN_CONTEXT_ERROR_INVALID_CONFIG, QNN_CONTEXT_ERROR_INVALID_CONFIG},
    {"graph", QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, QNN_GRAPH_ERROR_INVALID_ARGUMENT},
    {"htp graph", QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, QNN_GRAPH_ERROR_INVALID_ARGUMENT},
    {"lpai graph", QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, QNN_GRAPH_ERROR_INVALID_ARGUMENT},
    {"qnnrt graph", QNN_GRAPH_ERROR_INVALID_ARGUMENT, QNN_GRAPH_ERROR_INVALID_ARGUMENT},
    {"device", QNN_DEVICE_ERROR_INVALID_CONFIG, QNN_DEVICE_ERROR_INVALID_CONFIG},
    {"htp device", QNN_DEVICE_ERROR_INVALID_CONFIG, QNN_DEVICE_ERROR_INVALID_CONFIG},
    {"profile", QNN_PROFILE_ERROR_UNSUPPORTED, QNN_PROFILE_ERROR_INVALID_ARGUMENT},
    {"htp power", QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG,
     QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT},
    {"htp memory", QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG,
     QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT},
};

// The names in the table are those of the enumerators, so that neither can go astray.
#define OPTION(enumerator) enumerator, #enumerator

const ConfigRow kTable[] = {
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_CUSTOM), "a custom config of the backend",
     kRefused, kEffect, kEffect, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "htp: QnnHtpContext_CustomConfig_t; lpai: QnnLpaiContext_CustomConfig_t; below"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_PRIORITY), "LOW, NORMAL, NORMAL_HIGH, HIGH",
     kRecorded, kRecorded, kRecorded, kAlways, 0,
     "all contexts share the processor's cores, which the operating system schedules: no execution "
     "overtakes another here"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING), "a level and a limit in KiB",
     kRecorded, kRecorded, kRecorded, kAlways, 0,
     "the verbose message of a thread's last error is always kept"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_OEM_STRING), "a string", kRecorded, kRecorded,
     kRecorded, kAlways, 0, "for the client's own use"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH), "NUMERIC, 1 to 300",
     kRefused, kEffect, kEffect, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "executions that may wait in the context's queue; 10 unless given. Not stored in a binary"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_ENABLE_GRAPHS), "names, ending with null", kEffect,
     kEffect, kEffect, kAtCreateFromBinary, 0, "the other graphs of the binary are not made"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT), "MiB; 0: none", kRecorded,
     kRecorded, kRecorded, kAlways, 0,
     "a hint; the limit that counts is the process domain's budget"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_PERSISTENT_BINARY), "0 or 1", kEffect, kEffect, kEffect,
     kNew, 0,
     "weights are used in the client's memory, which has to stay until contextFree; without a "
     "binary there is nothing to use"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY), "PERMISSIVE, STRICT", kEffect,
     kEffect, kEffect, kNew, 0,
     "STRICT checks the weights' checksums when loading, and refuses (5011) what runs but not at "
     "its best"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT), "0 or 1", kEffect, kEffect,
     kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "graphs of the binary become ready in contextFinalize; on lpai each waits for its own "
     "graphFinalize, always"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER), "names, ending with null",
     kRecorded, kRecorded, kRecorded, kNew, 0,
     "no graph is ever evicted, so there is no order to keep"},

    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED), "bool", kRefused,
     kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "every graph has its own packed weights; a mapped binary's pages are shared in any case"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS),
     "null or a live context, and bytes", kRefused, kRecorded, kRefused, kNew,
     QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, "a group's spill-fill memory is not shared by itself"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_FILE_READ_MEMORY_BUDGET), "MiB", kRefused,
     kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "a mapped binary is not read through a buffer"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_DSP_MEMORY_PROFILING_ENABLED), "bool",
     kRefused, kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "what the domain holds is always counted"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES), "bool", kRefused,
     kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_IO_MEM_ESTIMATION), "bool", kRefused,
     kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_PREPARE_ONLY), "bool", kRefused, kEffect,
     kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "graphs are finalized for their binary alone: graphExecute answers 6035"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_INIT_ACCELERATION), "bool", kRefused,
     kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_SKIP_VALIDATION_ON_BINARY_SECTION),
     "bool", kRefused, kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "there are no binary sections"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES_OPTIMIZATION_TYPE),
     "0, 1, 2", kRefused, kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA), "bool", kRefused,
     kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING),
     "null or a live context, and bytes", kRefused, kRecorded, kRefused, kNew,
     QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_WEIGHT_SHARING_ENABLED), "bool",
     kRefused, kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},

    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_CUSTOM), "a custom config", kEffect, kEffect,
     kEffect, kOnce, 0,
     "Qnnrt_GraphConfig_t; htp: QnnHtpGraph_CustomConfig_t, too; lpai: "
     "QnnLpaiGraph_CustomConfig_t"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_PRIORITY), "LOW, NORMAL, NORMAL_HIGH, HIGH",
     kRecorded, kRecorded, kRecorded, kOnce, 0, "no graph is executed before another for it"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE), "a profile handle, or null",
     kRefused, kEffect, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "collects the events of every execution; it is for this graph alone, and executions take no "
     "handle of their own (6006)"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE), "ENABLED, DISABLED", kRefused,
     kEffect, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "of the graph's profile handle"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS), "a number", kRefused,
     kEffect, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "after so many executions from now the profile handle collects no more"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_ENABLE_BINARY_SECTION_WEIGHTS_UPDATES), "0 or 1",
     kRefused, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "there are no binary sections"},

    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_NUM_THREADS), "1 to 1024", kEffect, kEffect,
     kEffect, kOnce, 0, "kernel threads; before graphFinalize"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_KERNELS), "AUTO, PORTABLE", kEffect, kEffect,
     kEffect, kOnce, 0, "before graphFinalize"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_STRICT), "0 or 1", kRecorded, kEffect, kRecorded,
     kOnce, 0, "a RAW tensor that would be copied is refused (6004); cpu and lpai copy none"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_EXCLUDE_IO), "0 or 1", kRecorded, kRecorded,
     kEffect, kOnce, 0,
     "inputs and outputs have no places in the scratch memory, where other backends never have "
     "them; before its size is asked for"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_PLAN_MILLISECONDS), "0 to 3600000", kEffect,
     kEffect, kEffect, kOnce, 0,
     "how long to search for a smaller arena; 0: not at all, and the same plan on every machine"},

    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION),
     "types 1 to 7, each with a finite number", kRefused, kRecorded, kRefused, kOnce,
     QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "every graph gets all optimizations"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION), "FLOAT32, FLOAT16", kRefused,
     kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "float32 graphs are computed in float32, as the vendor's simulator does without a SoC"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB), "MiB; 0: all", kRefused,
     kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "there is no VTCM"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_FOLD_RELU_ACTIVATION_INTO_CONV_OFF), "bool",
     kRefused, kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "folding a float activation changes no result"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_SHORT_DEPTH_CONV_ON_HMX_OFF), "bool",
     kRefused, kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS), "0 (all) to 1024", kRefused,
     kEffect, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "kernel threads, no more than the cores that the process may use; before graphFinalize"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_FINALIZE_CONFIG), "a key and a scalar",
     kRefused, kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_NUM_CORES), "a number", kRefused, kRecorded,
     kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "the device has one core"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_PARALLEL_GRAPH_EXECUTION_CONFIG),
     "DEFAULT, ALL_SHARED", kRefused, kRecorded, kRefused, kOnce,
     QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_BYTES), "bytes", kRefused,
     kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "there is no VTCM"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_HMX_BOUNDING), "two frequencies", kRefused,
     kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_WEIGHTS_PACKING), "bool", kRefused, kRecorded,
     kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "weights are packed as the kernels need them"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_ASSUME_SAME_QUANT), "bool", kRefused,
     kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "each tensor's own encoding holds"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_SHARE_IO_BUFFER), "bool", kRefused, kRecorded,
     kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "each tensor has its own staging memory"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_ADVANCED_ACTIVATION_FUSION), "bool", kRefused,
     kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_HIGH_PRECISION_SIGMOID), "bool", kRefused,
     kRecorded, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "float kernels are always precise"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_MONOLITHIC_LSTM), "bool", kRefused, kRecorded,
     kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "an LSTM is always one step"},

    {S::kBackend, OPTION(QNN_BACKEND_CONFIG_OPTION_CUSTOM), "a custom config of the backend",
     kRefused, kRefused, kEffect, kOnce, QNN_BACKEND_ERROR_NOT_SUPPORTED,
     "lpai: QnnLpaiBackend_CustomConfig_t, below"},
    {S::kBackend, OPTION(QNN_BACKEND_CONFIG_OPTION_ERROR_REPORTING), "a level and a limit in KiB",
     kRecorded, kRecorded, kRecorded, kOnce, 0,
     "the verbose message of a thread's last error is always kept"},
    {S::kBackend, OPTION(QNN_BACKEND_CONFIG_OPTION_PLATFORM), "key:value;key:value", kEffect,
     kEffect, kEffect, kOnce, 0,
     "threads:N and kernels:auto|portable of graphs created from now on; htp: domain_bytes:N; "
     "lpai, when creating: direct_mode:adsp, start_alignment:N, size_alignment:N, enpu_cores:N, "
     "enpu_macs:N"},

    {S::kProfile, OPTION(QNN_PROFILE_CONFIG_OPTION_CUSTOM), "a custom config of the backend",
     kRefused, kRefused, kRefused, kAtSet, QNN_PROFILE_ERROR_UNSUPPORTED, "none has one"},
    {S::kProfile, OPTION(QNN_PROFILE_CONFIG_OPTION_MAX_EVENTS), "a number; 0: no limit", kEffect,
     kEffect, kEffect, kAtSet, 0, "events beyond it are dropped"},
    {S::kProfile, OPTION(QNN_PROFILE_CONFIG_OPTION_ENABLE_OPTRACE), "0 or 1", kRefused, kRefused,
     kRefused, kAtSet, QNN_PROFILE_ERROR_UNSUPPORTED, "there is no trace of an accelerator"},

    {S::kGlobal, OPTION(QNN_GLOBAL_CONFIG_OPTION_SOC_MODEL), "a SoC model", kRefused, kEffect,
     kRefused, kAtSet, QNN_COMMON_ERROR_NOT_SUPPORTED,
     "the SoC of devices created from now on whose configs name none, and of the platform info"},

    {S::kDevice, OPTION(QNN_DEVICE_CONFIG_OPTION_CUSTOM), "a custom config of the backend",
     kRefused, kEffect, kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "htp: QnnHtpDevice_CustomConfig_t, below"},
    {S::kDevice, OPTION(QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO), "version 1, device 0 with core 0",
     kRefused, kEffect, kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "the SoC and the architecture are taken from its device extension, when it has one"},
    {S::kHtpDevice, OPTION(QNN_HTP_DEVICE_CONFIG_OPTION_SOC), "a SoC model", kRefused, kEffect,
     kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "the platform info shows it, with its architecture and VTCM where they are known"},
    {S::kHtpDevice, OPTION(QNN_HTP_DEVICE_CONFIG_OPTION_ARCH),
     "0 (none), 68, 69, 73, 75, 79, 81, 85", kRefused, kEffect, kRefused, kOnce,
     QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "the least architecture: the platform info shows this one or the SoC's, if that is later"},
    {S::kHtpDevice, OPTION(QNN_HTP_DEVICE_CONFIG_OPTION_SIGNEDPD), "bool", kRefused, kRecorded,
     kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE, "graphs run in the client's process"},
    {S::kHtpDevice, OPTION(QNN_HTP_DEVICE_CONFIG_OPTION_SECUREPD), "false", kRefused, kRecorded,
     kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "true is refused as an invalid config: nothing here could keep that promise"},

    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DCVS_V3),
     "a live contextId; a known power mode and voltage corners where their set flags say so",
     kRefused, kRecorded, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_CONTROL_LATENCY),
     "microseconds", kRefused, kRecorded, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_POLLING_TIME),
     "microseconds", kRefused, kRecorded, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_TIMEOUT_INTERVAL_US),
     "microseconds", kRefused, kRecorded, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_V2),
     "hmxPerfMode HIGH or LOW", kRefused, kRecorded, kRefused, kAtSet, 0,
     "13004 while every device is of architecture 68"},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_ADAPTIVE_POLLING_TIME),
     "microseconds", kRefused, kRecorded, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DDR_PERF_MODE), "a number",
     kRefused, kRecorded, kRefused, kAtSet, 0, "13004 while every device is of architecture 68"},
    {S::kHtpMemory, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_GROW_SIZE), "bytes",
     kRefused, kRecorded, kRefused, kAtSet, 0,
     "memory comes from the process domain's budget as needed"},

    {S::kLpaiBackend, OPTION(QNN_LPAI_BACKEND_CUSTOM_CFG_HW_INFO),
     "X86, ARM, ADSP, TENSILICA; V1 to V7, V5_1", kRefused, kRefused, kEffect, kAtCreate,
     QNN_BACKEND_ERROR_NOT_SUPPORTED,
     "the cores that ENPU_CORE_NUM and ENPU_CORE_INFO tell of are this version's; every version "
     "computes the same"},

    {S::kLpaiContext, OPTION(QNN_LPAI_CONTEXT_SET_CFG_MODEL_BUFFER_MEM_TYPE),
     "DDR; in direct mode TCM", kRefused, kRefused, kRecorded, kNew,
     QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, "where the client says that its binary lies"},
    {S::kLpaiContext, OPTION(QNN_LPAI_CONTEXT_SET_CFG_ENABLE_ISLAND), "null (yes), or a bool",
     kRefused, kRefused, kRecorded, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "there is no island to run on"},

    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM),
     "DDR, an aligned address and size; null and 0: none", kRefused, kRefused, kEffect, kAtSet,
     QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "what executions work in; may be replaced between them, and has to be there at each"},
    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM),
     "DDR, an aligned address and size; null and 0: none", kRefused, kRefused, kEffect, kAtSet,
     QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "what lasts from one execution to the next; before graphFinalize, until contextFree"},
    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_PERF_CFG),
     "fps and ftrtRatio above 0; REAL_TIME, NON_REAL_TIME", kRefused, kRefused, kRecorded, kOnce,
     QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "the operating system schedules the processor's cores"},
    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY),
     "SOFT, HARD; 0 (any) or the bit of one core", kRefused, kRefused, kRecorded, kOnce,
     QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "there is no such core here"},
    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_PREPARE),
     "enablePerLayer 0 or 1, enableCoreSelection a string or null", kRefused, kRefused, kRecorded,
     kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "before the graph is prepared"},
};

#undef OPTION

const ScopeInfo& Info(ConfigScope scope) { return kScopes[static_cast<size_t>(scope)]; }

// PRIORITY of QNN_CONTEXT_CONFIG_OPTION_PRIORITY: what stands after the common prefix.
const char* ShortName(const char* name) {
  for (const char* prefix :
       {"QNN_CONTEXT_CONFIG_OPTION_", "QNN_CONTEXT_CONFIG_", "QNN_HTP_CONTEXT_CONFIG_OPTION_",
        "QNN_HTP_GRAPH_CONFIG_OPTION_", "QNN_GRAPH_CONFIG_OPTION_", "QNN_HTP_DEVICE_CONFIG_OPTION_",
        "QNN_DEVICE_CONFIG_OPTION_", "QNN_BACKEND_CONFIG_OPTION_", "QNN_PROFILE_CONFIG_OPTION_",
        "QNN_GLOBAL_CONFIG_OPTION_", "QNN_LPAI_BACKEND_CUSTOM_CFG_", "QNN_LPAI_CONTEXT_SET_CFG_",
        "QNN_LPAI_GRAPH_SET_CFG_", "QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_",
        "QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_", "QNNRT_GRAPH_OPTION_"}) {
    size_t length = std::char_traits<char>::length(prefix);
    if (std::strncmp(name, prefix, length) == 0) return name + length;
  }
  return name;
}

Verdict VerdictOf(const BackendTraits& traits, const ConfigRow& row) {
  switch (traits.configs) {
    case ConfigSet::kHtp:
      return row.htp;
    case ConfigSet::kLpai:
      return row.lpai;
    default:
      return row.cpu;
  }
}

const char* VerdictName(Verdict verdict) {
  return verdict == kEffect ? "effect" : verdict == kRecorded ? "recorded" : "refused";
}

}  // namespace

Result<const ConfigRow*> AdmitConfig(const BackendTraits& traits, ConfigScope scope,
                                     uint32_t option, uint8_t call) {
  for (const ConfigRow& row : kTable) {
    if (row.scope != scope || row.option != option) continue;
    if (VerdictOf(traits, row) == kRefused) {
      return Error(row.refuse, "%s config %s is not supported by this backend", Info(scope).name,
                   ShortName(row.name));
    }
    if ((row.calls & call) == 0) {
      return Error(Info(scope).invalid, "%s config %s is not for this call: %s", Info(scope).name,
                   ShortName(row.name),
                   call == kAtSet      ? "give it when creating"
                   : call == kAtCreate ? "it says what to do with a binary"
                                       : "it is not for a binary");
    }
    return &row;
  }
  return Error(Info(scope).unsupported, "%s config option %u is unknown", Info(scope).name, option);
}

Status InvalidConfig(const ConfigRow& row, const std::string& message) {
  return Error(Info(row.scope).invalid, "%s config %s: %s", Info(row.scope).name,
               ShortName(row.name), message.c_str());
}

void WriteRecord(const ConfigRecord& record, JsonWriter* json) {
  for (const auto& [row, value] : record) json->Key(ShortName(row->name)).Raw(value);
}

std::string ConfigTableJson() {
  JsonWriter json;
  json.Array();
  for (const ConfigRow& row : kTable) {
    json.Object().Key("scope").String(Info(row.scope).name);
    json.Key("option").Number(row.option).Key("name").String(row.name);
    json.Key("short").String(ShortName(row.name)).Key("values").String(row.values);
    json.Key("cpu").String(VerdictName(row.cpu)).Key("htp").String(VerdictName(row.htp));
    json.Key("lpai").String(VerdictName(row.lpai));
    json.Key("calls").Array();
    if (row.calls & kAtCreate) json.String("create");
    if (row.calls & kAtCreateFromBinary) json.String("binary");
    if (row.calls & kAtSet) json.String("set");
    json.End().Key("refused").Number(row.refuse).Key("invalid").Number(Info(row.scope).invalid);
    json.Key("note").String(row.note).End();
  }
  return json.End().Take();
}

}  // namespace qnnrt
