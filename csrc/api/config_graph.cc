#include <cmath>
#include <cstring>

#include "abi/qnn_htp.h"
#include "abi/qnnrt_ext.h"
#include "api/config_gpu.h"
#include "api/config_lpai.h"
#include "api/functions.h"
#include "support/number_of.h"

namespace qnnrt {
namespace {

constexpr uint32_t kMostPlanMilliseconds = 3600000;

Result<std::string> ReadRuntime(const ConfigRow& row, const Qnnrt_GraphConfig_t& c,
                                GraphOptions* options) {
  switch (c.option) {
    case QNNRT_GRAPH_OPTION_NUM_THREADS:
      if (c.numThreads < 1 || c.numThreads > kMaxThreads)
        return InvalidConfig(row, "numThreads is from 1 to " + std::to_string(kMaxThreads) +
                                      ", got " + std::to_string(c.numThreads));
      options->threads = static_cast<int>(c.numThreads);
      return Json(uint64_t{c.numThreads});
    case QNNRT_GRAPH_OPTION_KERNELS:
      if (c.kernels > QNNRT_KERNELS_PORTABLE)
        return InvalidConfig(
            row, "kernels is AUTO (0) or PORTABLE (1), got " + std::to_string(c.kernels));
      options->portable_only = c.kernels == QNNRT_KERNELS_PORTABLE;
      return Json(std::string(options->portable_only ? "PORTABLE" : "AUTO"));
    case QNNRT_GRAPH_OPTION_EXCLUDE_IO:
      if (c.excludeIo > 1)
        return InvalidConfig(row, "excludeIo is 0 or 1, got " + std::to_string(c.excludeIo));
      options->exclude_io = c.excludeIo == 1;
      return Json(options->exclude_io);
    case QNNRT_GRAPH_OPTION_PLAN_MILLISECONDS:
      if (c.planMilliseconds > kMostPlanMilliseconds)
        return InvalidConfig(row, "planMilliseconds is from 0 to " +
                                      std::to_string(kMostPlanMilliseconds) + ", got " +
                                      std::to_string(c.planMilliseconds));
      options->plan_milliseconds = c.planMilliseconds;
      return Json(uint64_t{c.planMilliseconds});
    case QNNRT_GRAPH_OPTION_PRECISION: {
      static const char* const kNames[] = {"FLOAT32", "FLOAT16", "BFLOAT16", "FASTEST"};
      if (c.precision > QNNRT_PRECISION_FASTEST)
        return InvalidConfig(row, "precision is from FLOAT32 (0) to FASTEST (3), got " +
                                      std::to_string(c.precision));
      options->precision = static_cast<Precision>(c.precision);
      return Json(std::string(kNames[c.precision]));
    }
    case QNNRT_GRAPH_OPTION_FLOAT32_NODE: {
      if (c.float32Node == nullptr || *c.float32Node == '\0')
        return InvalidConfig(row, "the name of a node must not be empty");
      options->float32_nodes.emplace_back(c.float32Node);
      JsonWriter names;
      names.Array();
      for (const std::string& name : options->float32_nodes) names.String(name);
      return names.End().Take();
    }
    case QNNRT_GRAPH_OPTION_RELEASE_CONSTANTS:
      if (c.releaseConstants > 1)
        return InvalidConfig(
            row, "releaseConstants is 0 or 1, got " + std::to_string(c.releaseConstants));
      options->release_constants = c.releaseConstants == 1;
      return Json(options->release_constants);
    case QNNRT_GRAPH_OPTION_KEEP_CONSTANTS:
      if (c.keepConstants > 1)
        return InvalidConfig(row,
                             "keepConstants is 0 or 1, got " + std::to_string(c.keepConstants));
      options->keep_constants = c.keepConstants == 1;
      return Json(*options->keep_constants);
    case QNNRT_GRAPH_OPTION_SHARE_WEIGHTS: {
      static const char* const kNames[] = {"NOBODY", "CONTEXT", "PROCESS"};
      if (c.shareWeights > QNNRT_SHARE_WEIGHTS_PROCESS)
        return InvalidConfig(row, "shareWeights is NOBODY (0), CONTEXT (1) or PROCESS (2), got " +
                                      std::to_string(c.shareWeights));
      options->share_weights = static_cast<ShareWeights>(c.shareWeights);
      return Json(std::string(kNames[c.shareWeights]));
    }
    case QNNRT_GRAPH_OPTION_TF32:
      if (c.tf32 > 1) return InvalidConfig(row, "tf32 is 0 or 1, got " + std::to_string(c.tf32));
      return Json(c.tf32 == 1);
    case QNNRT_GRAPH_OPTION_BYTE_ACTIVATIONS:
      if (c.byteActivations > 1)
        return InvalidConfig(row,
                             "byteActivations is 0 or 1, got " + std::to_string(c.byteActivations));
      options->byte_activations = c.byteActivations == 1;
      return Json(options->byte_activations);
    default:  // STRICT
      if (c.strict > 1)
        return InvalidConfig(row, "strict is 0 or 1, got " + std::to_string(c.strict));
      options->strict = c.strict == 1;
      return Json(options->strict);
  }
}

Result<std::string> ReadOptimization(const ConfigRow& row,
                                     const QnnHtpGraph_OptimizationOption_t& c,
                                     const std::string& before) {
  static const char* const kNames[] = {
      "SCHEDULE_THRESHOLD",  "FINALIZE_RETRIES",    "FINALIZE_OPTIMIZATION_FLAG",
      "ENABLE_DLBC",         "ENABLE_DLBC_WEIGHTS", "ENABLE_SPARSE_WEIGHTS_COMPRESSION",
      "ENABLE_SLC_ALLOCATOR"};
  const uint32_t type = NumberOf(c.type);
  if (type < QNN_HTP_GRAPH_OPTIMIZATION_TYPE_SCHEDULE_THRESHOLD ||
      type > QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_SLC_ALLOCATOR)
    return InvalidConfig(row, "an optimization type is from 1 to 7, got " + NumberText(c.type));
  if (!std::isfinite(c.floatValue)) return InvalidConfig(row, "its value must be a finite number");
  // One config, seven values: those of other types stay.
  const std::string key = Json(std::string(kNames[c.type - 1])) + ":";
  std::string others = before.empty() ? "" : before.substr(1, before.size() - 2);
  if (const size_t at = others.find(key); at != std::string::npos) {
    const size_t end = others.find(',', at);
    others.erase(at, end == std::string::npos ? end : end + 1 - at);
    if (!others.empty() && others.back() == ',') others.pop_back();
  }
  return "{" + others + (others.empty() ? "" : ",") + key +
         JsonWriter().Number(c.floatValue).Take() + "}";
}

Result<std::string> ReadFinalize(const ConfigRow& row, const QnnHtpGraph_FinalizeConfig_t& c) {
  if (c.key == nullptr || *c.key == '\0') return InvalidConfig(row, "its key must not be empty");
  return JsonWriter().Object().Key(c.key).Number(c.value.uint64Value).End().Take();
}

Result<std::string> ReadHtp(const ConfigRow& row, const QnnHtpGraph_CustomConfig_t& c,
                            const std::string& before, GraphOptions* options) {
  switch (c.option) {
    case QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION:
      return ReadOptimization(row, c.optimizationOption, before);
    case QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION:
      if (NumberOf(c.precision) != QNN_PRECISION_FLOAT32 &&
          NumberOf(c.precision) != QNN_PRECISION_FLOAT16)
        return InvalidConfig(
            row, "the precision is FLOAT32 (0) or FLOAT16 (1), got " + NumberText(c.precision));
      options->precision =
          c.precision == QNN_PRECISION_FLOAT16 ? Precision::kFloat16 : Precision::kFloat32;
      return Json(std::string(c.precision == QNN_PRECISION_FLOAT16 ? "FLOAT16" : "FLOAT32"));
    case QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB:
      return Json(uint64_t{c.vtcmSizeInMB});
    case QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS:
      if (c.numHvxThreads > static_cast<uint64_t>(kMaxThreads))
        return InvalidConfig(row, "numHvxThreads is from 0 (all) to " +
                                      std::to_string(kMaxThreads) + ", got " +
                                      std::to_string(c.numHvxThreads));
      options->threads = std::min(static_cast<int>(c.numHvxThreads), Threads::DefaultLimit());
      return Json(c.numHvxThreads);
    case QNN_HTP_GRAPH_CONFIG_OPTION_FINALIZE_CONFIG:
      return ReadFinalize(row, c.finalizeConfig);
    case QNN_HTP_GRAPH_CONFIG_OPTION_NUM_CORES:
      return Json(uint64_t{c.numCores});
    case QNN_HTP_GRAPH_CONFIG_OPTION_PARALLEL_GRAPH_EXECUTION_CONFIG:
      if (const uint32_t number = NumberOf(c.parallelGraphExecutionConfig.concurrency);
          number != QNN_HTP_GRAPH_CONCURRENCY_OPTION_DEFAULT &&
          number != QNN_HTP_GRAPH_CONCURRENCY_OPTION_ALL_SHARED)
        return InvalidConfig(row, "concurrency is DEFAULT (0) or ALL_SHARED (1)");
      return Json(uint64_t{c.parallelGraphExecutionConfig.concurrency});
    case QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_BYTES:
      return Json(uint64_t{c.vtcmSizeInBytes});
    case QNN_HTP_GRAPH_CONFIG_OPTION_HMX_BOUNDING:
      return JsonWriter()
          .Array()
          .Number(c.hmxBoundingInfo.targetHmxFreqHz)
          .Number(c.hmxBoundingInfo.targetDspCoreFreq)
          .End()
          .Take();
    case QNN_HTP_GRAPH_CONFIG_OPTION_FP16_CLAMP_OVERFLOW:
      options->clamp_half = c.fp16ClampOverflow;
      return Json(c.fp16ClampOverflow);
    default:
      return Json(c.weightsPacking);  // the others are all one bool
  }
}

Status ReadCustom(const Backend& backend, const void* custom, uint8_t call, GraphOptions* options,
                  GraphSettings* settings) {
  const BackendTraits& traits = *backend.traits;
  uint32_t first;  // our magic, or the backend's own option
  std::memcpy(&first, custom, sizeof(first));
  if (first == QNNRT_GRAPH_CONFIG_MAGIC) {
    // Clients of before FLOAT32_NODE have smaller structs, for which four bytes are aligned.
    Qnnrt_GraphConfig_t c{};
    std::memcpy(&c, custom, offsetof(Qnnrt_GraphConfig_t, numThreads) + sizeof(c.numThreads));
    if (c.option == QNNRT_GRAPH_OPTION_FLOAT32_NODE) std::memcpy(&c, custom, sizeof(c));
    QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                           AdmitConfig(traits, ConfigScope::kRuntimeGraph, c.option, call));
    QNNRT_ASSIGN_OR_RETURN(settings->record[row], ReadRuntime(*row, c, options));
    return Status::Ok();
  }
  if (traits.configs == ConfigSet::kLpai)
    return ReadLpaiGraphConfig(backend, custom, call, settings);
  if (traits.configs == ConfigSet::kGpu)
    return ReadGpuGraphConfig(traits, custom, call, &settings->record);
  QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                         AdmitConfig(traits, ConfigScope::kHtpGraph, first, call));
  const auto& c = *static_cast<const QnnHtpGraph_CustomConfig_t*>(custom);
  QNNRT_ASSIGN_OR_RETURN(std::string value, ReadHtp(*row, c, settings->record[row], options));
  settings->record[row] = std::move(value);
  return Status::Ok();
}

Result<std::string> Read(const ConfigRow& row, const QnnGraph_Config_t& c,
                         GraphSettings* settings) {
  switch (c.option) {
    case QNN_GRAPH_CONFIG_OPTION_PRIORITY:
      QNNRT_RETURN_IF_ERROR(CheckPriority(row, NumberOf(c.priority)));
      settings->priority = c.priority;
      return Json(std::string(PriorityName(c.priority)));
    case QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE:
      settings->profile = c.profileHandle;
      return Json(c.profileHandle != nullptr);
    case QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE: {
      const uint32_t state = NumberOf(c.profilingState);
      if (state != QNN_GRAPH_PROFILING_STATE_ENABLED && state != QNN_GRAPH_PROFILING_STATE_DISABLED)
        return InvalidConfig(
            row, "the state is ENABLED (1) or DISABLED (2), got " + NumberText(c.profilingState));
      settings->profiling = state == QNN_GRAPH_PROFILING_STATE_ENABLED;
      return Json(*settings->profiling);
    }
    default:  // SET_PROFILING_NUM_EXECUTIONS
      settings->profiled_executions = c.numProfilingExecutions;
      return Json(uint64_t{c.numProfilingExecutions});
  }
}

}  // namespace

Status ReadGraphConfig(const Backend& backend, const QnnGraph_Config_t** config, uint8_t call,
                       GraphOptions* options, GraphSettings* settings) {
  const BackendTraits& traits = *backend.traits;
  GraphOptions read_options = *options;
  GraphSettings read = *settings;
  QNNRT_RETURN_IF_ERROR(api::ForEachConfig(config, [&](const QnnGraph_Config_t& c) -> Status {
    QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                           AdmitConfig(traits, ConfigScope::kGraph, c.option, call));
    if (c.option == QNN_GRAPH_CONFIG_OPTION_CUSTOM) {
      if (c.customConfig == nullptr)
        return InvalidConfig(*row, "the custom config must not be null");
      return ReadCustom(backend, c.customConfig, call, &read_options, &read);
    }
    QNNRT_ASSIGN_OR_RETURN(read.record[row], Read(*row, c, &read));
    return Status::Ok();
  }));
  *options = read_options;
  *settings = std::move(read);
  return Status::Ok();
}

}  // namespace qnnrt
