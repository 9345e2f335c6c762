// What the C functions of this folder are written with.
#pragma once

#include "abi/qnn_errors.h"
#include "ipc/ipc_api.h"
#include "memory/memory.h"
#include "support/guard.h"
#include "support/per_thread.h"

namespace qnnrt::ipc {

inline LastStatus& Errors() {
  static LastStatus errors;
  return errors;
}

inline uint64_t Code(const Status& status) {
  if (!status.ok()) Errors().Set(status);
  return status.code();
}

// Runs an entry, a Status: no exception leaves a C function.
template <typename F>
uint64_t Entry(F call) {
  return Contained([&] { return Code(call()); }, Code);
}

inline Status NullArgument() {
  return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "expected a pointer, got null");
}

// f(pinned buffer), a Status.
template <typename F>
Status WithBuffer(qnnrt_buffer_t handle, F f) {
  const BufferPin b = Memory::Get().Pin(handle);
  if (!b) {
    return Error(QNN_MEM_ERROR_INVALID_HANDLE, "buffer handle 0x%llx was closed or never made",
                 static_cast<unsigned long long>(handle));
  }
  return f(b.get());
}

}  // namespace qnnrt::ipc
