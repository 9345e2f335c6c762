// Every config option of the API that this runtime knows.
#include "api/config_rows.h"
#include "abi/qnn_context.h"
#include "abi/qnn_errors.h"
#include "abi/qnn_gpu.h"
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

// The names in the table are those of the enumerators, so that neither can go astray.
#define OPTION(enumerator) enumerator, #enumerator

constexpr ConfigRow kTable[] = {
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_CUSTOM), "a custom config of the backend",
     kRefused, kEffect, kEffect, kEffect, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "htp: QnnHtpContext_CustomConfig_t; lpai: QnnLpaiContext_CustomConfig_t; gpu: "
     "QnnGpuContext_CustomConfig_t; below"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_PRIORITY), "LOW, NORMAL, NORMAL_HIGH, HIGH",
     kRecorded, kRecorded, kRecorded, kRecorded, kAlways, 0,
     "all contexts share the processor's cores, which the operating system schedules: no execution "
     "overtakes another here"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING), "a level and a limit in KiB",
     kRecorded, kRecorded, kRecorded, kRecorded, kAlways, 0,
     "the verbose message of a thread's last error is always kept"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_OEM_STRING), "a string", kRecorded, kRecorded,
     kRecorded, kRecorded, kAlways, 0, "for the client's own use"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH), "NUMERIC, 1 to 300",
     kRefused, kEffect, kEffect, kEffect, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "executions that may wait in the context's queue; 10 unless given. Not stored in a binary"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_ENABLE_GRAPHS), "names, ending with null", kEffect,
     kEffect, kEffect, kEffect, kAtCreateFromBinary, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "the other graphs of the binary are not made"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT), "MiB; 0: none", kRecorded,
     kRecorded, kRecorded, kRecorded, kAlways, 0,
     "a hint; the limit that counts is the process domain's budget"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_PERSISTENT_BINARY), "0 or 1", kEffect, kEffect, kEffect,
     kEffect, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "weights are used in the client's memory, which has to stay until contextFree; without a "
     "binary there is nothing to use"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY), "PERMISSIVE, STRICT", kEffect,
     kEffect, kEffect, kEffect, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "STRICT checks the weights' checksums when loading, and refuses (5011) what runs but not at "
     "its best"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT), "0 or 1", kEffect, kEffect,
     kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "graphs of the binary become ready in contextFinalize; on lpai each waits for its own "
     "graphFinalize, always"},
    {S::kContext, OPTION(QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER), "names, ending with null",
     kRecorded, kRecorded, kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "no graph is ever evicted, so there is no order to keep"},

    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED), "bool", kRefused,
     kEffect, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "constants and packed weights that are equal are there once for all contexts with it; the "
     "graphs of one context share them in any case"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS),
     "null or a live context, and bytes", kRefused, kEffect, kRefused, kRefused, kNew,
     QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "the group's contexts share weights as one context's graphs do; its spill-fill memory is not "
     "shared by itself"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_FILE_READ_MEMORY_BUDGET), "MiB", kRefused,
     kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "a mapped binary is not read through a buffer"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_DSP_MEMORY_PROFILING_ENABLED), "bool",
     kRefused, kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "what the domain holds is always counted"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES), "bool", kRefused,
     kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_IO_MEM_ESTIMATION), "bool", kRefused,
     kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_PREPARE_ONLY), "bool", kRefused, kEffect,
     kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "graphs are finalized for their binary alone: graphExecute answers 6035"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_INIT_ACCELERATION), "bool", kRefused,
     kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_SKIP_VALIDATION_ON_BINARY_SECTION),
     "bool", kRefused, kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "there are no binary sections"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES_OPTIMIZATION_TYPE),
     "0, 1, 2", kRefused, kRecorded, kRefused, kRefused, kNew,
     QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA), "bool", kRefused,
     kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING),
     "null or a live context, and bytes", kRefused, kEffect, kRefused, kRefused, kNew,
     QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, "as REGISTER_MULTI_CONTEXTS"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_WEIGHT_SHARING_ENABLED), "bool",
     kRefused, kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_GRAPH_SPLITTING), "bool", kRefused,
     kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "a graph is prepared in one part"},
    {S::kHtpContext, OPTION(QNN_HTP_CONTEXT_CONFIG_OPTION_NUM_PREPARE_THREADS), "a number",
     kRefused, kRecorded, kRefused, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "of those parts"},

    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_CUSTOM), "a custom config", kEffect, kEffect,
     kEffect, kEffect, kOnce, 0,
     "Qnnrt_GraphConfig_t; htp: QnnHtpGraph_CustomConfig_t, too; lpai: "
     "QnnLpaiGraph_CustomConfig_t; gpu: QnnGpuGraph_CustomConfig_t"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_PRIORITY), "LOW, NORMAL, NORMAL_HIGH, HIGH",
     kRecorded, kRecorded, kRecorded, kRecorded, kOnce, 0,
     "no graph is executed before another for it"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE), "a profile handle, or null",
     kRefused, kEffect, kRefused, kEffect, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "collects the events of every execution; it is for this graph alone, and executions take no "
     "handle of their own (6006)"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE), "ENABLED, DISABLED", kRefused,
     kEffect, kRefused, kEffect, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "of the graph's profile handle"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS), "a number", kRefused,
     kEffect, kRefused, kEffect, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "after so many executions from now the profile handle collects no more"},
    {S::kGraph, OPTION(QNN_GRAPH_CONFIG_OPTION_ENABLE_BINARY_SECTION_WEIGHTS_UPDATES), "0 or 1",
     kRefused, kRefused, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "there are no binary sections"},

    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_NUM_THREADS), "1 to 1024", kEffect, kEffect,
     kEffect, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "kernel threads; before graphFinalize, of a deferred graph of a binary before "
     "contextFinalize"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_KERNELS), "AUTO, PORTABLE", kEffect, kEffect,
     kEffect, kEffect, kOnce, 0, "before graphFinalize"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_STRICT), "0 or 1", kRecorded, kEffect, kRecorded,
     kEffect, kOnce, 0, "a tensor that would be copied is refused (6004); cpu and lpai copy none"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_EXCLUDE_IO), "0 or 1", kRecorded, kRecorded,
     kEffect, kRecorded, kOnce, 0,
     "inputs and outputs are not allocated in the scratch memory, where other backends never "
     "allocate them; before its size is asked for"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_PLAN_MILLISECONDS), "0 to 3600000", kEffect,
     kEffect, kEffect, kEffect, kOnce, 0,
     "how long to search for a smaller arena; 0: not at all, and the same plan on every machine"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_PRECISION), "FLOAT32, FLOAT16, BFLOAT16, FASTEST",
     kEffect, kEffect, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "how floats between nodes are stored and multiplied; before graphFinalize"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_FLOAT32_NODE), "a node's name", kEffect, kEffect,
     kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "a node that stays in float32, whatever the precision; one config for each; before "
     "graphFinalize"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_RELEASE_CONSTANTS), "0 or 1", kEffect, kEffect,
     kRecorded, kRecorded, kOnce, 0,
     "constants that are not kept are freed while they are packed; a graphFinalize that fails then "
     "cannot be repeated (6023). lpai and gpu keep them until it has succeeded"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_KEEP_CONSTANTS), "0 or 1", kEffect, kEffect,
     kEffect, kRecorded, kOnce, 0,
     "constants stay beside their packed forms: a context binary loads where kernels pack in "
     "another way, and is up to twice as large; without this config, none "
     "with RELEASE_CONSTANTS, else up to QNNRT_KEEP_CONSTANTS_MIB of the environment (64) for a "
     "graph; before graphFinalize"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_SHARE_WEIGHTS), "NOBODY, CONTEXT, PROCESS",
     kEffect, kEffect, kEffect, kRecorded, kOnce, 0,
     "with which graphs it has constants and packed weights once where they are equal: those of "
     "its context unless given (on htp, of the contexts that it shares with), or all that say "
     "PROCESS; before the first tensor"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_TF32), "0 or 1", kRefused, kRefused, kRefused,
     kEffect, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "products of 32-bit floats may round their factors to tf32, on devices that have units for "
     "it; before graphFinalize"},
    {S::kRuntimeGraph, OPTION(QNNRT_GRAPH_OPTION_BYTE_ACTIVATIONS), "0 or 1", kEffect, kEffect,
     kRecorded, kRecorded, kOnce, 0,
     "products of floats with constant weights of 4 or 8 bits may round the floats to 8 bits, with "
     "a scale for each 32; before graphFinalize"},

    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION),
     "types 1 to 7, each with a finite number", kRefused, kRecorded, kRefused, kRefused, kOnce,
     QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "every graph gets all optimizations"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION), "FLOAT32, FLOAT16", kRefused,
     kEffect, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "FLOAT16: float32 graphs are computed as a device does, in half precision; before "
     "graphFinalize"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB), "MiB; 0: all", kRefused,
     kRecorded, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "there is no VTCM"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_FOLD_RELU_ACTIVATION_INTO_CONV_OFF), "bool",
     kRefused, kRecorded, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "folding a float activation changes no result"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_SHORT_DEPTH_CONV_ON_HMX_OFF), "bool",
     kRefused, kRecorded, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS), "0 (all) to 1024", kRefused,
     kEffect, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "kernel threads, no more than the cores that the process may use; before graphFinalize"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_FINALIZE_CONFIG), "a key and a scalar",
     kRefused, kRecorded, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_NUM_CORES), "a number", kRefused, kRecorded,
     kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "the device has one core"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_PARALLEL_GRAPH_EXECUTION_CONFIG),
     "DEFAULT, ALL_SHARED", kRefused, kRecorded, kRefused, kRefused, kOnce,
     QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_BYTES), "bytes", kRefused,
     kRecorded, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "there is no VTCM"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_HMX_BOUNDING), "two frequencies", kRefused,
     kRecorded, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_WEIGHTS_PACKING), "bool", kRefused, kRecorded,
     kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "weights are packed as the kernels need them"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_ASSUME_SAME_QUANT), "bool", kRefused,
     kRecorded, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "each tensor's own encoding holds"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_SHARE_IO_BUFFER), "bool", kRefused, kRecorded,
     kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "each tensor has its own staging memory"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_ADVANCED_ACTIVATION_FUSION), "bool", kRefused,
     kRecorded, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, ""},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_HIGH_PRECISION_SIGMOID), "bool", kRefused,
     kRecorded, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "float kernels are always precise"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_MONOLITHIC_LSTM), "bool", kRefused, kRecorded,
     kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "an LSTM is always one step"},
    {S::kHtpGraph, OPTION(QNN_HTP_GRAPH_CONFIG_OPTION_FP16_CLAMP_OVERFLOW), "bool", kRefused,
     kEffect, kRefused, kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "results that FLOAT_16 cannot hold become 65,504 instead of infinite; before graphFinalize"},

    {S::kBackend, OPTION(QNN_BACKEND_CONFIG_OPTION_CUSTOM), "a custom config of the backend",
     kRefused, kRefused, kEffect, kEffect, kOnce, QNN_BACKEND_ERROR_NOT_SUPPORTED,
     "lpai: QnnLpaiBackend_CustomConfig_t, gpu: QnnGpuBackend_CustomConfig_t, below"},
    {S::kBackend, OPTION(QNN_BACKEND_CONFIG_OPTION_ERROR_REPORTING), "a level and a limit in KiB",
     kRecorded, kRecorded, kRecorded, kRecorded, kOnce, 0,
     "the verbose message of a thread's last error is always kept"},
    {S::kBackend, OPTION(QNN_BACKEND_CONFIG_OPTION_PLATFORM), "key:value;key:value", kEffect,
     kEffect, kEffect, kEffect, kOnce, 0,
     "threads:N (not on gpu) and kernels:auto|portable of graphs created from now on; htp: "
     "domain_bytes:N; "
     "lpai, when creating: direct_mode:adsp, start_alignment:N, size_alignment:N, enpu_cores:N, "
     "enpu_macs:N"},

    {S::kProfile, OPTION(QNN_PROFILE_CONFIG_OPTION_CUSTOM), "a custom config of the backend",
     kRefused, kRefused, kRefused, kRefused, kAtSet, QNN_PROFILE_ERROR_UNSUPPORTED, "none has one"},
    {S::kProfile, OPTION(QNN_PROFILE_CONFIG_OPTION_MAX_EVENTS), "a number; 0: no limit", kEffect,
     kEffect, kEffect, kEffect, kAtSet, 0, "events beyond it are dropped"},
    {S::kProfile, OPTION(QNN_PROFILE_CONFIG_OPTION_ENABLE_OPTRACE), "0 or 1", kRefused, kEffect,
     kRefused, kRefused, kAtSet, QNN_PROFILE_ERROR_UNSUPPORTED,
     "events of nodes at any level; there is no trace of an accelerator"},

    {S::kGlobal, OPTION(QNN_GLOBAL_CONFIG_OPTION_SOC_MODEL), "a SoC model", kRefused, kEffect,
     kRefused, kRefused, kAtSet, QNN_COMMON_ERROR_NOT_SUPPORTED,
     "the SoC of devices created from now on whose configs name none, and of the platform info"},

    {S::kDevice, OPTION(QNN_DEVICE_CONFIG_OPTION_CUSTOM), "a custom config of the backend",
     kRefused, kEffect, kRefused, kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "htp: QnnHtpDevice_CustomConfig_t, below"},
    {S::kDevice, OPTION(QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO), "version 1, device 0 with core 0",
     kRefused, kEffect, kRefused, kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "the SoC and the architecture are taken from its device extension, when it has one"},
    {S::kHtpDevice, OPTION(QNN_HTP_DEVICE_CONFIG_OPTION_SOC), "a SoC model", kRefused, kEffect,
     kRefused, kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "the platform info shows it, with its architecture and VTCM where they are known"},
    {S::kHtpDevice, OPTION(QNN_HTP_DEVICE_CONFIG_OPTION_ARCH),
     "0 (none), 68, 69, 73, 75, 79, 81, 85", kRefused, kEffect, kRefused, kRefused, kOnce,
     QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "the least architecture: the platform info shows this one or the SoC's, if that is later"},
    {S::kHtpDevice, OPTION(QNN_HTP_DEVICE_CONFIG_OPTION_SIGNEDPD), "bool", kRefused, kRecorded,
     kRefused, kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "graphs run in the client's process"},
    {S::kHtpDevice, OPTION(QNN_HTP_DEVICE_CONFIG_OPTION_SECUREPD), "false", kRefused, kRecorded,
     kRefused, kRefused, kOnce, QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE,
     "true is refused as an invalid config: nothing here could keep that promise"},

    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DCVS_V3),
     "a live contextId; a known power mode and voltage corners where their set flags say so",
     kRefused, kRecorded, kRefused, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_CONTROL_LATENCY),
     "microseconds", kRefused, kRecorded, kRefused, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_POLLING_TIME),
     "microseconds", kRefused, kRecorded, kRefused, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_TIMEOUT_INTERVAL_US),
     "microseconds", kRefused, kRecorded, kRefused, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_HMX_V2),
     "hmxPerfMode HIGH or LOW", kRefused, kRecorded, kRefused, kRefused, kAtSet, 0,
     "13004 while every device is of architecture 68"},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_ADAPTIVE_POLLING_TIME),
     "microseconds", kRefused, kRecorded, kRefused, kRefused, kAtSet, 0, ""},
    {S::kHtpPower, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DDR_PERF_MODE), "a number",
     kRefused, kRecorded, kRefused, kRefused, kAtSet, 0,
     "13004 while every device is of architecture 68"},
    {S::kHtpMemory, OPTION(QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_GROW_SIZE), "bytes",
     kRefused, kRecorded, kRefused, kRefused, kAtSet, 0,
     "memory comes from the process domain's budget as needed"},

    {S::kLpaiBackend, OPTION(QNN_LPAI_BACKEND_CUSTOM_CFG_HW_INFO),
     "X86, ARM, ADSP, TENSILICA; V1 to V7, V5_1", kRefused, kRefused, kEffect, kRefused, kAtCreate,
     QNN_BACKEND_ERROR_NOT_SUPPORTED,
     "the cores that ENPU_CORE_NUM and ENPU_CORE_INFO report are this version's; every version "
     "computes the same"},

    {S::kLpaiContext, OPTION(QNN_LPAI_CONTEXT_SET_CFG_MODEL_BUFFER_MEM_TYPE),
     "DDR; in direct mode TCM", kRefused, kRefused, kRecorded, kRefused, kNew,
     QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, "where the client says that its binary lies"},
    {S::kLpaiContext, OPTION(QNN_LPAI_CONTEXT_SET_CFG_ENABLE_ISLAND), "null (yes), or a bool",
     kRefused, kRefused, kRecorded, kRefused, kNew, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "there is no island to run on"},

    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM),
     "DDR, an aligned address and size; null and 0: none", kRefused, kRefused, kEffect, kRefused,
     kAtSet, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "what executions work in; may be replaced between them, and has to be there at each"},
    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM),
     "DDR, an aligned address and size; null and 0: none", kRefused, kRefused, kEffect, kRefused,
     kAtSet, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "what lasts from one execution to the next; before graphFinalize, until contextFree"},
    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_PERF_CFG),
     "fps and ftrtRatio above 0; REAL_TIME, NON_REAL_TIME", kRefused, kRefused, kRecorded, kRefused,
     kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "the operating system schedules the processor's cores"},
    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY),
     "SOFT, HARD; 0 (any) or the bit of one core", kRefused, kRefused, kRecorded, kRefused, kOnce,
     QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "there is no such core here"},
    {S::kLpaiGraph, OPTION(QNN_LPAI_GRAPH_SET_CFG_PREPARE),
     "enablePerLayer 0 or 1, enableCoreSelection a string or null", kRefused, kRefused, kRecorded,
     kRefused, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "before the graph is prepared"},

    {S::kGpuBackend, OPTION(QNN_GPU_BACKEND_CONFIG_OPTION_ENABLE_TUNING_MODE), "0 or 1", kRefused,
     kRefused, kRefused, kEffect, kAtCreate, QNN_BACKEND_ERROR_NOT_SUPPORTED,
     "a few variants of kernels are measured in graphFinalize, for some seconds, and the fastest "
     "kept"},
    {S::kGpuBackend, OPTION(QNN_GPU_BACKEND_CONFIG_OPTION_PERFORMANCE_CACHE_DIR), "a path",
     kRefused, kRefused, kRefused, kEffect, kAtCreate, QNN_BACKEND_ERROR_NOT_SUPPORTED,
     "what was measured is kept there, and built programs unless KERNEL_REPO_DIR says another "
     "folder"},
    {S::kGpuBackend, OPTION(QNN_GPU_BACKEND_CONFIG_OPTION_INVALIDATE_PERFORMANCE_CACHE), "0 or 1",
     kRefused, kRefused, kRefused, kEffect, kAtCreate, QNN_BACKEND_ERROR_NOT_SUPPORTED,
     "what was measured before is forgotten"},
    {S::kGpuBackend, OPTION(QNN_GPU_BACKEND_CONFIG_OPTION_WEIGHT_SHARING_ENABLED), "0 or 1",
     kRefused, kRefused, kRefused, kEffect, kAtCreate, QNN_BACKEND_ERROR_NOT_SUPPORTED,
     "0: graphs of the backend do not share constants that are equal"},
    {S::kGpuBackend, OPTION(QNN_GPU_BACKEND_CONFIG_OPTION_DISABLE_KERNEL_PROFILING), "0 or 1",
     kRefused, kRefused, kRefused, kEffect, kAtCreate, QNN_BACKEND_ERROR_NOT_SUPPORTED,
     "profiles have no events of nodes"},
    {S::kGpuContext, OPTION(QNN_GPU_CONTEXT_CONFIG_OPTION_PERF_HINT), "HIGH, NORMAL, LOW", kRefused,
     kRefused, kRefused, kEffect, kAtCreate, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "priority and throttle of the context's queue where the device has cl_khr_priority_hints or "
     "cl_khr_throttle_hints; elsewhere recorded, and the log says so"},
    {S::kGpuContext, OPTION(QNN_GPU_CONTEXT_CONFIG_OPTION_USE_GL_BUFFERS), "0", kRefused, kRefused,
     kRefused, kRecorded, kAtCreate, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "1 is refused (1000): memory is OpenCL's alone"},
    {S::kGpuContext, OPTION(QNN_GPU_CONTEXT_CONFIG_OPTION_KERNEL_REPO_DIR), "a path", kRefused,
     kRefused, kRefused, kEffect, kAtCreate, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "built programs are kept there"},
    {S::kGpuContext, OPTION(QNN_GPU_CONTEXT_CONFIG_OPTION_INVALIDATE_KERNEL_REPO), "0 or 1",
     kRefused, kRefused, kRefused, kEffect, kAtCreate, QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
     "programs are built anew"},
    {S::kGpuGraph, 0, "precision", "FP32, FP16, HYBRID, USER_PROVIDED", kRefused, kRefused,
     kRefused, kEffect, kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "of float tensors inside of the graph: 32 bits; stored and computed in 16; stored in 16 and "
     "computed in 32; as the tensors say"},
    {S::kGpuGraph, 1, "disableMemoryOptimizations", "0 or 1", kRefused, kRefused, kRefused, kEffect,
     kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "tensors inside of the graph share no memory"},
    {S::kGpuGraph, 2, "disableNodeOptimizations", "0 or 1", kRefused, kRefused, kRefused, kEffect,
     kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE, "operations are not fused"},
    {S::kGpuGraph, 3, "disableQueueRecording", "0 or 1", kRefused, kRefused, kRefused, kEffect,
     kOnce, QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE,
     "kernels are enqueued one by one where the device has command buffers, too; libQnnGpu.so "
     "always "
     "does"},
};

#undef OPTION

}  // namespace

const ConfigRows& AllConfigRows() {
  static const ConfigRows rows{std::begin(kTable), std::end(kTable)};
  return rows;
}

}  // namespace qnnrt
