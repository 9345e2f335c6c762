// The entries of the function table that write and read context binaries, of whatever the graphs of
// a backend are: their checks of arguments, and the order of what they do.
#pragma once

#include <cinttypes>

#include "api/binary.h"
#include "api/functions.h"

namespace qnnrt::api {

// What a context binary is written from. `Content` has Status Hold(Context*), which pins and locks
// a context's graphs, Status CheckWeights(), and with that size() and Write(uint8_t*).
template <typename Content>
Qnn_ErrorHandle_t SizeOfContent(Qnn_ContextHandle_t handle, Qnn_ContextBinarySize_t* size) {
  return Guarded([&] {
    auto object = Runtime::Get().contexts.Find(handle);
    if (!object) return Report(StaleContext());
    Log* log = object->context->backend->log.get();
    if (size == nullptr)
      return Report(Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT, "the size must not be null"), log);
    *size = 0;
    // Logged when its locks are gone: loggers are client's code.
    const auto ask = [&]() -> Status {
      QNNRT_RETURN_IF_ERROR(CheckNotServed(*object->context));
      Content content;
      Status status = content.Hold(object->context.get());
      if (status.ok()) *size = content.size();
      return status;
    };
    return Report(ask(), log);
  });
}

template <typename Content>
Qnn_ErrorHandle_t WriteContent(Qnn_ContextHandle_t handle, void* buffer,
                               Qnn_ContextBinarySize_t size, Qnn_ContextBinarySize_t* written) {
  return Guarded([&] {
    auto object = Runtime::Get().contexts.Find(handle);
    if (!object) return Report(StaleContext());
    Log* log = object->context->backend->log.get();
    if (buffer == nullptr || written == nullptr) {
      return Report(Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT,
                           "the buffer and the size written must not be null"),
                    log);
    }
    *written = 0;
    const auto write = [&]() -> Status {
      QNNRT_RETURN_IF_ERROR(CheckNotServed(*object->context));
      Content content;
      QNNRT_RETURN_IF_ERROR(content.Hold(object->context.get()));
      QNNRT_RETURN_IF_ERROR(content.CheckWeights());
      if (size < content.size()) {
        return Error(QNN_CONTEXT_ERROR_GET_BINARY_FAILED,
                     "the buffer has %" PRIu64 " bytes, the context binary needs %" PRIu64
                     ": ask contextGetBinarySize",
                     static_cast<uint64_t>(size), static_cast<uint64_t>(content.size()));
      }
      content.Write(static_cast<uint8_t*>(buffer));
      *written = content.size();
      return Status::Ok();
    };
    return Report(write(), log);
  });
}

// The backend of a handle, pinned, if it is live; `only`: and one of these, null: any.
inline decltype(Runtime::backends)::Pin LiveBackend(Qnn_BackendHandle_t handle,
                                                    const BackendTraits* only) {
  auto backend = Runtime::Get().backends.Find(handle);
  if (backend && only != nullptr && backend->backend->traits != only) return {};
  return backend;
}

// make(backend, profile scope, interrupt) creates the context.
template <typename Make>
Qnn_ErrorHandle_t CreateFromContent(Qnn_BackendHandle_t backend_handle, const BackendTraits* only,
                                    Qnn_ProfileHandle_t profile_handle,
                                    Qnn_SignalHandle_t signal_handle, Qnn_ContextHandle_t* handle,
                                    Make make) {
  return Guarded([&] {
    if (handle == nullptr) {
      return Report(Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT,
                           "the context handle to fill in must not be null"));
    }
    *handle = nullptr;
    auto backend = LiveBackend(backend_handle, only);
    if (!backend) return Report(NoBackend(backend_handle));
    const auto create = [&]() -> Status {
      if (signal_handle != nullptr && !backend->backend->traits->signals) {
        return Status(QNN_CONTEXT_ERROR_UNSUPPORTED_FEATURE, "this backend has no signals");
      }
      QNNRT_ASSIGN_OR_RETURN(SignalUse signal,
                             SignalUse::Begin(signal_handle, kContextSignalCodes));
      QNNRT_ASSIGN_OR_RETURN(ProfileCall profile,
                             ProfileCall::Begin(profile_handle, QNN_CONTEXT_ERROR_SET_PROFILE));
      return make(backend->backend, profile.scope(), signal.interrupt());
    };
    return Report(create(), backend->backend->log.get());
  });
}

// All checks of loading, on graphs that are discarded. check(loader, description, graph) is for
// each of them, which is declared.
template <typename Check>
Qnn_ErrorHandle_t ValidateContent(Qnn_BackendHandle_t backend_handle, const BackendTraits* only,
                                  Qnn_DeviceHandle_t device, const QnnContext_Config_t** config,
                                  const void* data, Qnn_ContextBinarySize_t size, Check check) {
  return Guarded([&] {
    auto backend = LiveBackend(backend_handle, only);
    if (!backend) return Report(NoBackend(backend_handle));
    const auto validate = [&]() -> Status {
      const Backend& b = *backend->backend;
      QNNRT_RETURN_IF_ERROR(UseDevice(*b.traits, device).status());
      ContextOptions options;
      QNNRT_RETURN_IF_ERROR(ReadContextConfig(b, config, kAtCreateFromBinary, &options));
      options.persistent_binary = true;  // the memory is valid until this returns
      Loader loader(b, options);
      QNNRT_RETURN_IF_ERROR(loader.Open(data, size));
      GraphHost host;
      host.admit = b.traits->admit;
      for (const BinaryGraph* described : loader.graphs()) {
        Graph graph(described->name, 0, OptionsFor(b, *described), host);
        QNNRT_RETURN_IF_ERROR(graph.Declare(*described));
        QNNRT_RETURN_IF_ERROR(check(loader, *described, &graph));
      }
      return Status::Ok();
    };
    return Report(validate(), backend->backend->log.get());
  });
}

}  // namespace qnnrt::api
