#include "api/config_gpu.h"

#include "abi/qnn_gpu.h"
#include "abi/qnnrt_ext.h"
#include "api/runtime.h"
#include "support/number_of.h"

namespace qnnrt {
namespace {

Result<std::string> ReadBool(const ConfigRow& row, uint8_t value) {
  if (value > 1) return InvalidConfig(row, "it is 0 or 1, got " + std::to_string(value));
  return std::string(value == 1 ? "true" : "false");
}

Result<std::string> ReadPath(const ConfigRow& row, const char* path) {
  if (path == nullptr || *path == '\0')
    return InvalidConfig(row, "the path must not be null or empty");
  return JsonWriter().String(path).Take();
}

// The name of value 0, 1, ... as JSON.
template <size_t kCount>
Result<std::string> ReadName(const ConfigRow& row, const char* const (&names)[kCount],
                             uint32_t value) {
  if (value < kCount) return JsonWriter().String(names[value]).Take();
  return InvalidConfig(
      row, "it is from 0 to " + std::to_string(kCount - 1) + ", got " + std::to_string(value));
}

constexpr const char* kPerfHints[] = {"high", "normal", "low"};
constexpr const char* kPrecisions[] = {"fp32", "fp16", "hybrid", "user"};

void DescribeBackend(const Backend& backend, JsonWriter* json) {
  json->Key("backend").Object();
  WriteRecord(backend.record, json);
  json->End();
}

void DescribeContext(Context* context, JsonWriter* json) {
  DescribeBackend(*context->backend, json);
  std::lock_guard<std::mutex> lock(context->mutex);
  json->Key("context").Object();
  WriteRecord(context->options.record, json);
  json->End();
}

void DescribeGraph(GraphObject* object, JsonWriter* json) {
  DescribeContext(object->context.get(), json);
  GraphOptions options;
  {
    auto lock = object->graph.Lock();
    options = object->graph.options();
  }
  std::lock_guard<std::mutex> lock(object->settings_mutex);
  json->Key("graph").Object();
  WriteRecord(object->settings.record, json);
  json->End().Key("portable").Bool(options.portable_only);
  json->Key("plan_milliseconds").Number(uint64_t{options.plan_milliseconds});
}

bool IsGpu(const Backend& backend) { return backend.traits->configs == ConfigSet::kGpu; }

std::string Describe(void* handle) {
  JsonWriter json;
  json.Object();
  if (auto graph = Runtime::Get().graphs.Find(handle)) {
    if (!IsGpu(*graph->context->backend)) return "";
    DescribeGraph(&*graph, &json);
  } else if (auto context = Runtime::Get().contexts.Find(handle)) {
    if (!IsGpu(*context->context->backend)) return "";
    DescribeContext(context->context.get(), &json);
  } else if (auto backend = Runtime::Get().backends.Find(handle)) {
    if (!IsGpu(*backend->backend)) return "";
    DescribeBackend(*backend->backend, &json);
  } else {
    return "";
  }
  return json.End().Take();
}

}  // namespace

Status ReadGpuBackendConfig(const BackendTraits& traits, const void* custom, uint8_t call,
                            ConfigRecord* record) {
  const auto& c = *static_cast<const QnnGpuBackend_CustomConfig_t*>(custom);
  QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                         AdmitConfig(traits, ConfigScope::kGpuBackend, c.option, call));
  if (c.option == QNN_GPU_BACKEND_CONFIG_OPTION_PERFORMANCE_CACHE_DIR) {
    QNNRT_ASSIGN_OR_RETURN((*record)[row], ReadPath(*row, c.performanceCacheDir));
  } else {  // the others are all one byte
    QNNRT_ASSIGN_OR_RETURN((*record)[row], ReadBool(*row, c.enableTuningMode));
  }
  return Status::Ok();
}

Status ReadGpuContextConfig(const BackendTraits& traits, const void* custom, uint8_t call,
                            ConfigRecord* record) {
  const auto& c = *static_cast<const QnnGpuContext_CustomConfig_t*>(custom);
  QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                         AdmitConfig(traits, ConfigScope::kGpuContext, c.option, call));
  const auto read = [&]() -> Result<std::string> {
    switch (c.option) {
      case QNN_GPU_CONTEXT_CONFIG_OPTION_PERF_HINT:
        return ReadName(*row, kPerfHints, NumberOf(c.perfHint));
      case QNN_GPU_CONTEXT_CONFIG_OPTION_KERNEL_REPO_DIR:
        return ReadPath(*row, c.kernelRepoDir);
      default:
        return ReadBool(*row, c.useGLBuffers);
    }
  };
  QNNRT_ASSIGN_OR_RETURN(std::string value, read());
  if (c.option == QNN_GPU_CONTEXT_CONFIG_OPTION_USE_GL_BUFFERS && value == "true") {
    return Status(QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE,
                  "USE_GL_BUFFERS: memory is OpenCL's alone here, without GL");
  }
  (*record)[row] = std::move(value);
  return Status::Ok();
}

Status ReadGpuGraphConfig(const BackendTraits& traits, const void* custom, uint8_t call,
                          ConfigRecord* record) {
  const auto& c = *static_cast<const QnnGpuGraph_CustomConfig_t*>(custom);
  const uint8_t flags[] = {c.disableMemoryOptimizations, c.disableNodeOptimizations,
                           c.disableQueueRecording};
  ConfigRecord read;
  for (uint32_t field = 0; field < 4; ++field) {  // in the order of the struct and of the table
    QNNRT_ASSIGN_OR_RETURN(const ConfigRow* row,
                           AdmitConfig(traits, ConfigScope::kGpuGraph, field, call));
    if (field == 0) {
      QNNRT_ASSIGN_OR_RETURN(read[row], ReadName(*row, kPrecisions, NumberOf(c.precision)));
    } else {
      QNNRT_ASSIGN_OR_RETURN(read[row], ReadBool(*row, flags[field - 1]));
    }
  }
  for (auto& [row, value] : read) (*record)[row] = std::move(value);
  return Status::Ok();
}

}  // namespace qnnrt

extern "C" const char* qnnrt_gpu_config(void* handle) {
  return qnnrt::TextOrNull([&] { return qnnrt::Describe(handle); });
}
