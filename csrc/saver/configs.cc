// Lists of configs in the recorded program. The struct behind a CUSTOM option is its backend's own:
// known for htp when QnnSaver_initialize names that, and where it is one of qnnrt's. Others, and
// those that hold pointers, are left out, and a comment says so.
#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnnrt_ext.h"
#include "saver/program.h"
#include "support/number_of.h"

namespace qnnrt::saver {
namespace {}  // namespace

std::string Call::Bytes(const void* value, uint64_t size) {
  const std::string name = recorder_->NewName("custom");
  const auto* bytes = static_cast<const unsigned char*>(value);
  std::string list;
  for (uint64_t i = 0; i < size; ++i) list += (i == 0 ? "" : ", ") + Number(bytes[i]);
  Line("static union { unsigned char bytes[" + Number(size) + "]; uint64_t align; } " + name +
       " = {{" + list + "}};");
  return "&" + name;
}

// fill(config, lvalue) writes the fields; false leaves the config out.
template <typename Config, typename Fill>
Result<std::string> Call::List(const char* type, const Config** list, Fill fill) {
  if (list == nullptr) return std::string("NULL");
  uint32_t count = 0;
  while (list[count] != nullptr) ++count;
  const std::string name = recorder_->NewName("configs"), pointers = name + "_list";
  if (count != 0) Line(std::string("static ") + type + " " + name + "[" + Number(count) + "];");
  Line(std::string("static const ") + type + "* " + pointers + "[" + Number(count + 1) + "];");
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string element = name + "[" + Number(kept) + "]";
    QNNRT_ASSIGN_OR_RETURN(bool filled, fill(*list[i], element));
    if (!filled) {
      Line("/* left out: option " + Number(static_cast<uint32_t>(list[i]->option)) +
           ", whose struct is its backend's own, or holds pointers */");
      continue;
    }
    Line(element + ".option = (" + std::string(type).replace(std::strlen(type) - 2, 2, "") +
         "Option_t)" + Number(static_cast<uint32_t>(list[i]->option)) + ";");
    Line(pointers + "[" + Number(kept) + "] = &" + element + ";");
    ++kept;
  }
  return pointers;
}

Result<std::string> Call::Configs(const QnnBackend_Config_t** list) {
  return List(
      "QnnBackend_Config_t", list,
      [&](const QnnBackend_Config_t& c, const std::string& at) -> Result<bool> {
        switch (c.option) {
          case QNN_BACKEND_CONFIG_OPTION_ERROR_REPORTING:
            Line(at + ".errorConfig.reportingLevel = " + Number(c.errorConfig.reportingLevel) +
                 ";");
            Line(at + ".errorConfig.storageLimit = " + Number(c.errorConfig.storageLimit) + ";");
            return true;
          case QNN_BACKEND_CONFIG_OPTION_PLATFORM:
            Line(at + ".platformOption = " + Quoted(c.platformOption) + ";");
            return true;
          default:
            return false;
        }
      });
}

Result<std::string> Call::Configs(const QnnContext_Config_t** list) {
  const auto names = [&](const std::string& at, const char* const* values) {
    const std::string name = recorder_->NewName("names");
    std::string text;
    for (; values != nullptr && *values != nullptr; ++values) text += Quoted(*values) + ", ";
    Line("static const char* " + name + "[] = {" + text + "NULL};");
    Line(at + " = " + name + ";");
  };
  return List(
      "QnnContext_Config_t", list,
      [&](const QnnContext_Config_t& c, const std::string& at) -> Result<bool> {
        switch (c.option) {
          case QNN_CONTEXT_CONFIG_OPTION_CUSTOM: {
            if (c.customConfig == nullptr || recorder_->backend_id() != QNN_BACKEND_ID_HTP)
              return false;
            const auto* htp = static_cast<const QnnHtpContext_CustomConfig_t*>(c.customConfig);
            if (htp->option == QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS ||
                htp->option == QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING)
              return false;
            Line(at + ".customConfig = " + Bytes(htp, sizeof(*htp)) + ";");
            return true;
          }
          case QNN_CONTEXT_CONFIG_OPTION_PRIORITY:
            Line(at + ".priority = (Qnn_Priority_t)" + Number(NumberOf(c.priority)) + ";");
            return true;
          case QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING:
            Line(at + ".errorConfig.reportingLevel = " + Number(c.errorConfig.reportingLevel) +
                 ";");
            Line(at + ".errorConfig.storageLimit = " + Number(c.errorConfig.storageLimit) + ";");
            return true;
          case QNN_CONTEXT_CONFIG_OPTION_OEM_STRING:
            Line(at + ".oemString = " + Quoted(c.oemString) + ";");
            return true;
          case QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH:
            Line(at + ".asyncExeQueueDepth.type = (QnnContext_AsyncExecutionQueueDepthType_t)" +
                 Number(NumberOf(c.asyncExeQueueDepth.type)) + ";");
            Line(at + ".asyncExeQueueDepth.depth = " + Number(c.asyncExeQueueDepth.depth) + ";");
            return true;
          case QNN_CONTEXT_CONFIG_ENABLE_GRAPHS:
            names(at + ".enableGraphs", c.enableGraphs);
            return true;
          case QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER:
            names(at + ".graphRetentionOrder", c.graphRetentionOrder);
            return true;
          case QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT:
            Line(at + ".memoryLimitHint = " + Number(c.memoryLimitHint) + "u;");
            return true;
          case QNN_CONTEXT_CONFIG_PERSISTENT_BINARY:
            Line(at + ".isPersistentBinary = " + Number(c.isPersistentBinary) + ";");
            return true;
          case QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY:
            Line(at + ".binaryCompatibilityType = (QnnContext_BinaryCompatibilityType_t)" +
                 Number(NumberOf(c.binaryCompatibilityType)) + ";");
            return true;
          case QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT:
            Line(at + ".isGraphInitDeferred = " + Number(c.isGraphInitDeferred) + ";");
            return true;
          default:
            return false;
        }
      });
}

Result<std::string> Call::Configs(const QnnDevice_Config_t** list) {
  return List("QnnDevice_Config_t", list,
              [&](const QnnDevice_Config_t& c, const std::string& at) -> Result<bool> {
                if (c.option != QNN_DEVICE_CONFIG_OPTION_CUSTOM || c.customConfig == nullptr ||
                    recorder_->backend_id() != QNN_BACKEND_ID_HTP)
                  return false;
                Line(at + ".customConfig = " +
                     Bytes(c.customConfig, sizeof(QnnHtpDevice_CustomConfig_t)) + ";");
                return true;
              });
}

Result<std::string> Call::Configs(const QnnGraph_Config_t** list) {
  return List(
      "QnnGraph_Config_t", list,
      [&](const QnnGraph_Config_t& c, const std::string& at) -> Result<bool> {
        switch (c.option) {
          case QNN_GRAPH_CONFIG_OPTION_CUSTOM: {
            if (c.customConfig == nullptr) return false;
            uint32_t first;
            std::memcpy(&first, c.customConfig, sizeof(first));
            if (first == QNNRT_GRAPH_CONFIG_MAGIC) {
              const auto* own = static_cast<const Qnnrt_GraphConfig_t*>(c.customConfig);
              if (own->option == QNNRT_GRAPH_OPTION_FLOAT32_NODE) return false;
              Line(at + ".customConfig = " + Bytes(own, sizeof(*own)) + ";");
              return true;
            }
            if (recorder_->backend_id() != QNN_BACKEND_ID_HTP) return false;
            const auto* htp = static_cast<const QnnHtpGraph_CustomConfig_t*>(c.customConfig);
            if (htp->option == QNN_HTP_GRAPH_CONFIG_OPTION_RESERVED) return false;
            Line(at + ".customConfig = " + Bytes(htp, sizeof(*htp)) + ";");
            return true;
          }
          case QNN_GRAPH_CONFIG_OPTION_PRIORITY:
            Line(at + ".priority = (Qnn_Priority_t)" + Number(NumberOf(c.priority)) + ";");
            return true;
          case QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE: {
            const Object* profile = recorder_->Find(c.profileHandle, Kind::kProfile);
            if (profile == nullptr)
              return Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT, "this is no live profile handle");
            Line(at + ".profileHandle = " + profile->variable + ";");
            return true;
          }
          case QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE:
            Line(at + ".profilingState = (QnnGraph_ProfilingState_t)" +
                 Number(NumberOf(c.profilingState)) + ";");
            return true;
          case QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS:
            Line(at + ".numProfilingExecutions = " + Number(c.numProfilingExecutions) + ";");
            return true;
          default:
            return false;
        }
      });
}

Result<std::string> Call::Configs(const QnnProfile_Config_t** list) {
  return List("QnnProfile_Config_t", list,
              [&](const QnnProfile_Config_t& c, const std::string& at) -> Result<bool> {
                switch (c.option) {
                  case QNN_PROFILE_CONFIG_OPTION_MAX_EVENTS:
                    Line(at + ".numMaxEvents = " + Number(c.numMaxEvents) + "u;");
                    return true;
                  case QNN_PROFILE_CONFIG_OPTION_ENABLE_OPTRACE:
                    Line(at + ".enableOptrace = " + Number(c.enableOptrace) + ";");
                    return true;
                  default:
                    return false;
                }
              });
}

}  // namespace qnnrt::saver
