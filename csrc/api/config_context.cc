#include "abi/qnn_htp.h"
#include "api/config_gpu.h"
#include "api/config_lpai.h"
#include "api/functions.h"
#include "support/number_of.h"

namespace qnnrt {
namespace {

// A client's list of graph names ends with NULL.
Result<std::vector<std::string>> ReadNames(const ConfigRow& row, const char* const* names) {
  if (names == nullptr) return InvalidConfig(row, "the list of graph names must not be null");
  std::vector<std::string> list;
  for (; *names != nullptr; ++names) list.emplace_back(*names);
  return list;
}

// A group is named by its first context: null while that one is being created.
Result<std::string> ReadGroup(const ConfigRow& row, const QnnHtpContext_GroupRegistration_t& g,
                              ContextOptions* options) {
  if (g.firstGroupHandle != nullptr) {
    auto first = Runtime::Get().contexts.Find(g.firstGroupHandle);
    if (!first)
      return InvalidConfig(row, "firstGroupHandle is no live context: null starts a group");
    options->group_scope = first->context->share_scope();
  }
  return JsonWriter()
      .Object()
      .Key("first")
      .Bool(g.firstGroupHandle == nullptr)
      .Key("maxSpillFillBuffer")
      .Number(g.maxSpillFillBuffer)
      .End()
      .Take();
}

Result<std::string> ReadHtp(const ConfigRow& row, const QnnHtpContext_CustomConfig_t& c,
                            ContextOptions* options) {
  switch (c.option) {
    case QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED:
      options->weight_sharing = c.weightSharingEnabled;
      return Json(c.weightSharingEnabled);
    case QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS:
      return ReadGroup(row, c.groupRegistration, options);
    case QNN_HTP_CONTEXT_CONFIG_OPTION_FILE_READ_MEMORY_BUDGET:
      options->file_read_budget_mb = c.fileReadMemoryBudgetInMb;
      return Json(c.fileReadMemoryBudgetInMb);
    case QNN_HTP_CONTEXT_CONFIG_OPTION_PREPARE_ONLY:
      options->prepare_only = c.isPrepareOnly;
      return Json(c.isPrepareOnly);
    case QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES_OPTIMIZATION_TYPE: {
      static const char* const kTypes[] = {"SEQUENTIAL_WITH_VA_OPTIMIZATION",
                                           "SEQUENTIAL_WITHOUT_VA_OPTIMIZATION",
                                           "CONCURRENT_OPTIMIZATION"};
      const uint32_t type = NumberOf(c.shareResOptType);
      if (type > CONCURRENT_OPTIMIZATION)
        return InvalidConfig(row, "the type is 0, 1 or 2, got " + NumberText(c.shareResOptType));
      return Json(std::string(kTypes[type]));
    }
    case QNN_HTP_CONTEXT_CONFIG_OPTION_NUM_PREPARE_THREADS:
      return Json(uint64_t{c.numPrepareThreads});
    case QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING:
      return ReadGroup(row, c.concurrentGroupRegistration, options);
    default:
      return Json(c.shareResources);  // the others are all one bool
  }
}

Result<std::string> Read(const ConfigRow& row, const QnnContext_Config_t& c,
                         ContextOptions* options) {
  switch (c.option) {
    case QNN_CONTEXT_CONFIG_OPTION_PRIORITY:
      QNNRT_RETURN_IF_ERROR(CheckPriority(row, NumberOf(c.priority)));
      options->priority = c.priority;
      return Json(std::string(PriorityName(c.priority)));
    case QNN_CONTEXT_CONFIG_OPTION_OEM_STRING:
      if (c.oemString == nullptr) return InvalidConfig(row, "the string must not be null");
      options->oem_string = c.oemString;
      return Json(options->oem_string);
    case QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH: {
      const auto& depth = c.asyncExeQueueDepth;
      if (NumberOf(depth.type) != QNN_CONTEXT_ASYNC_EXECUTION_QUEUE_DEPTH_TYPE_NUMERIC)
        return InvalidConfig(row, "its type must be NUMERIC (0)");
      if (depth.depth < 1 || depth.depth > kMaxQueueDepth)
        return InvalidConfig(row, "the depth is from 1 to " + std::to_string(kMaxQueueDepth) +
                                      ", got " + std::to_string(depth.depth));
      options->async_queue_depth = depth.depth;
      return Json(uint64_t{depth.depth});
    }
    case QNN_CONTEXT_CONFIG_ENABLE_GRAPHS: {
      QNNRT_ASSIGN_OR_RETURN(options->enable_graphs, ReadNames(row, c.enableGraphs));
      return Json(*options->enable_graphs);
    }
    case QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT:
      options->memory_limit_hint_mb = c.memoryLimitHint;
      return Json(c.memoryLimitHint);
    case QNN_CONTEXT_CONFIG_PERSISTENT_BINARY:
      options->persistent_binary = c.isPersistentBinary != 0;
      return Json(options->persistent_binary);
    case QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY: {
      const uint32_t type = NumberOf(c.binaryCompatibilityType);
      if (type != QNN_CONTEXT_BINARY_COMPATIBILITY_PERMISSIVE &&
          type != QNN_CONTEXT_BINARY_COMPATIBILITY_STRICT)
        return InvalidConfig(row, "it is PERMISSIVE (0) or STRICT (1), got " +
                                      NumberText(c.binaryCompatibilityType));
      options->strict_compatibility = type == QNN_CONTEXT_BINARY_COMPATIBILITY_STRICT;
      return Json(std::string(options->strict_compatibility ? "STRICT" : "PERMISSIVE"));
    }
    case QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT:
      options->defer_graph_init = c.isGraphInitDeferred != 0;
      return Json(options->defer_graph_init);
    case QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER: {
      QNNRT_ASSIGN_OR_RETURN(options->graph_retention_order, ReadNames(row, c.graphRetentionOrder));
      return Json(options->graph_retention_order);
    }
    default:  // ERROR_REPORTING
      return Json(uint64_t{c.errorConfig.storageLimit});
  }
}

}  // namespace

const char* PriorityName(uint32_t priority) {
  switch (priority) {
    case QNN_PRIORITY_LOW:
      return "low";
    case QNN_PRIORITY_NORMAL:
      return "normal";
    case QNN_PRIORITY_NORMAL_HIGH:
      return "normal_high";
    case QNN_PRIORITY_HIGH:
      return "high";
    default:
      return nullptr;
  }
}

Status CheckPriority(const ConfigRow& row, uint32_t priority) {
  if (PriorityName(priority) != nullptr) return Status::Ok();
  return InvalidConfig(
      row, "a priority is LOW (0), NORMAL (100), NORMAL_HIGH (150) or HIGH (200), got " +
               NumberText(priority));
}

Status ReadContextConfig(const Backend& backend, const QnnContext_Config_t** config, uint8_t call,
                         ContextOptions* options) {
  const BackendTraits& traits = *backend.traits;
  ContextOptions read = *options;
  QNNRT_RETURN_IF_ERROR(api::ForEachConfig(config, [&](const QnnContext_Config_t& c) -> Status {
    const bool custom = c.option == QNN_CONTEXT_CONFIG_OPTION_CUSTOM;
    QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                           AdmitConfig(traits, ConfigScope::kContext, c.option, call));
    if (custom) {
      if (c.customConfig == nullptr)
        return InvalidConfig(*row, "the custom config must not be null");
      if (traits.configs == ConfigSet::kLpai)
        return ReadLpaiContextConfig(backend, c.customConfig, call, &read);
      if (traits.configs == ConfigSet::kGpu)
        return ReadGpuContextConfig(traits, c.customConfig, call, &read.record);
      const auto& htp = *static_cast<const QnnHtpContext_CustomConfig_t*>(c.customConfig);
      QNNRT_ASSIGN_OR_RETURN(row, AdmitConfig(traits, ConfigScope::kHtpContext, htp.option, call));
      QNNRT_ASSIGN_OR_RETURN(read.record[row], ReadHtp(*row, htp, &read));
      return Status::Ok();
    }
    QNNRT_ASSIGN_OR_RETURN(read.record[row], Read(*row, c, &read));
    return Status::Ok();
  }));
  if (call == kAtCreateFromBinary && backend.lpai.direct_mode && !read.persistent_binary) {
    return Status(QNN_CONTEXT_ERROR_INVALID_CONFIG,
                  "in direct mode a binary is used where it lies: give PERSISTENT_BINARY, and keep "
                  "it there until contextFree");
  }
  *options = std::move(read);
  return Status::Ok();
}

}  // namespace qnnrt
