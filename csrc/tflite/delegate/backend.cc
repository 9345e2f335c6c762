#include "tflite/delegate/backend.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "abi/qnn_errors.h"
#include "tflite/delegate/qnn_tensors.h"

extern "C" {
Qnn_ErrorHandle_t qnnrt_cpu_get_providers(const QnnInterface_t*** list, uint32_t* n);
Qnn_ErrorHandle_t qnnrt_htp_get_providers(const QnnInterface_t*** list, uint32_t* n);
}

namespace qnnrt::tflite {
namespace {

void OnLog(const char* format, QnnLog_Level_t level, uint64_t, va_list args) {
  static const char* const kNames[] = {"", "ERROR", "WARNING", "INFO", "VERBOSE", "DEBUG"};
  char text[1024];
  std::vsnprintf(text, sizeof text, format, args);
  std::fprintf(stderr, "%s: [QNN] %s\n", kNames[static_cast<int>(level) <= 5 ? level : 5], text);
}

}  // namespace

Status Backend::Failed(Qnn_ErrorHandle_t error, const std::string& what) const {
  const char* text = nullptr;
  std::string said;
  if (qnn_.errorGetVerboseMessage != nullptr &&
      qnn_.errorGetVerboseMessage(error, &text) == QNN_SUCCESS && text != nullptr) {
    said = text;
    qnn_.errorFreeVerboseMessage(text);
  } else if (qnn_.errorGetMessage != nullptr && qnn_.errorGetMessage(error, &text) == QNN_SUCCESS &&
             text != nullptr) {
    said = text;
  }
  const auto code = static_cast<uint32_t>(QNN_GET_ERROR_CODE(error));
  return Error(code, "%s failed with %u: %s", what.c_str(), code, said.c_str());
}

Result<std::shared_ptr<Backend>> Backend::Open(const Options& options, const Log* log) {
  std::shared_ptr<Backend> backend(new Backend);
  QnnInterface_GetProvidersFn_t get = nullptr;
  if (options.library_path.empty()) {
    const bool cpu = static_cast<int>(options.c.backend_type) == kQnnrtCpuBackend;
    get = cpu ? qnnrt_cpu_get_providers : qnnrt_htp_get_providers;
  } else {
    const char* path = options.library_path.c_str();
    backend->library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (backend->library_ == nullptr)
      return Error(QNN_COMMON_ERROR_LOADING_BINARIES, "library_path: %s", dlerror());
    void* symbol = dlsym(backend->library_, "QnnInterface_getProviders");
    if (symbol == nullptr)
      return Error(QNN_COMMON_ERROR_LOADING_BINARIES,
                   "library_path: %s has no QnnInterface_getProviders: it is no QNN backend", path);
    std::memcpy(&get, &symbol, sizeof get);
  }
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  if (get(&list, &count) != QNN_SUCCESS || count == 0 || list[0] == nullptr)
    return Status(QNN_COMMON_ERROR_LOADING_BINARIES, "the backend's library lists no interface");
  backend->qnn_ = list[0]->v2_32;
  backend->id_ = list[0]->backendId;
  const auto& qnn = backend->qnn_;
  // A QNN log of level info is a page for each graph: errors only, unless more is wanted.
  const int level = log->level() >= kLogLevelVerbose ? log->level() : kLogLevelError;
  if (log->level() > kLogOff && qnn.logCreate != nullptr)
    qnn.logCreate(OnLog, static_cast<QnnLog_Level_t>(level), &backend->log_);
  Qnn_ErrorHandle_t error = qnn.backendCreate(backend->log_, nullptr, &backend->handle_);
  if (error != QNN_SUCCESS) return backend->Failed(error, "backendCreate");
  return backend;
}

Backend::~Backend() {
  if (handle_ != nullptr) qnn_.backendFree(handle_);
  if (log_ != nullptr) qnn_.logFree(log_);
  // The library is not closed: vendors' libraries leave threads and exit handlers behind.
}

Status Backend::Validate(const Plan& plan) const {
  QnnTensors tensors(plan);
  for (const PlannedOp& op : plan.ops) {
    const Qnn_ErrorHandle_t error = qnn_.backendValidateOpConfig(handle_, tensors.Op(op));
    if (error != QNN_SUCCESS) return Failed(error, std::string("validating ") + op.type);
  }
  return Status::Ok();
}

}  // namespace qnnrt::tflite
