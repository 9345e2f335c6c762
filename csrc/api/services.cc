// The function table's entries for log, memory and device.
#include "api/functions.h"
#include "memory/memory.h"

namespace qnnrt::api {
namespace {

// ---- log ----

bool IsLevel(QnnLog_Level_t level) {
  return level >= QNN_LOG_LEVEL_ERROR && level <= QNN_LOG_LEVEL_DEBUG;
}

Qnn_ErrorHandle_t LogCreate(QnnLog_Callback_t callback, QnnLog_Level_t level,
                            Qnn_LogHandle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr)
      return Report(
          Status(QNN_LOG_ERROR_INVALID_ARGUMENT, "the log handle to fill in must not be null"));
    *handle = nullptr;
    if (!IsLevel(level))
      return Report(Error(QNN_LOG_ERROR_INVALID_ARGUMENT,
                          "log level %d is unknown: ERROR is 1, DEBUG is 5",
                          static_cast<int>(level)));
    auto object = std::make_unique<LogObject>();
    object->log = std::make_shared<Log>(callback, level);
    *handle = Runtime::Get().logs.Add(std::move(object));
    if (*handle == nullptr) return Report(Status(QNN_LOG_ERROR_MEM_ALLOC, "too many live logs"));
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t LogSetLevel(Qnn_LogHandle_t handle, QnnLog_Level_t level) {
  return Guarded([&] {
    auto log = Runtime::Get().logs.Find(handle);
    if (!log) return Report(Status(QNN_LOG_ERROR_INVALID_HANDLE, "this is no live log handle"));
    if (!IsLevel(level))
      return Report(Error(QNN_LOG_ERROR_INVALID_ARGUMENT,
                          "log level %d is unknown: ERROR is 1, DEBUG is 5",
                          static_cast<int>(level)));
    log->log->set_level(level);
    std::vector<std::shared_ptr<Backend>> backends;
    Runtime::Get().backends.ForEach([&](BackendObject& object) {
      if (object.backend->log == log->log) backends.push_back(object.backend);
    });
    for (const auto& backend : backends) backend->packages.SetLogLevel(level);
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t LogFree(Qnn_LogHandle_t handle) {
  return Guarded([&] {
    std::unique_ptr<LogObject> object;
    if (Runtime::Get().logs.Take(handle, &object) != decltype(Runtime::logs)::Taken::kYes) {
      return Report(Status(QNN_LOG_ERROR_INVALID_HANDLE, "this is no live log handle"));
    }
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

// ---- memory ----

Qnn_ErrorHandle_t MemRegister(Qnn_ContextHandle_t handle, const Qnn_MemDescriptor_t* descriptors,
                              uint32_t count, Qnn_MemHandle_t* handles) {
  return Guarded([&] {
    ClearHandles(descriptors, count, handles);
    auto object = Runtime::Get().contexts.Find(handle);
    if (!object)
      return Report(Status(QNN_MEM_ERROR_INVALID_HANDLE, "this is no live context handle"));
    const Backend& backend = *object->context->backend;
    return Report(RegisterQnn(&Memory::Get().registry(), object->context->id, descriptors, count,
                              backend.traits->custom_memory, backend.traits->memory_kinds, handles,
                              DomainOf(*backend.traits)),
                  backend.log.get());
  });
}

Qnn_ErrorHandle_t MemDeRegister(const Qnn_MemHandle_t* handles, uint32_t count) {
  return Guarded([&] { return Report(DeregisterQnn(&Memory::Get().registry(), handles, count)); });
}

}  // namespace

void FillLog(QnnInterface_ImplementationV2_32_t* table) {
  table->logCreate = LogCreate;
  table->logSetLogLevel = LogSetLevel;
  table->logFree = LogFree;
}

void FillMem(const BackendTraits&, QnnInterface_ImplementationV2_32_t* table) {
  table->memRegister = MemRegister;
  table->memDeRegister = MemDeRegister;
}

}  // namespace qnnrt::api
