// The one place where exceptions stop: at the functions and threads that C programs see.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <new>

#include "abi/qnn_errors.h"
#include "support/status.h"

namespace qnnrt {

// The exception that is being handled, as a Status; to say that memory is short takes none.
inline Status CurrentException() noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return Status::OutOfMemory();
    } catch (const std::exception& e) {
      return Status(QNN_COMMON_ERROR_GENERAL, e.what());
    } catch (...) {  // of a callback: the runtime throws nothing else
      return Status(QNN_COMMON_ERROR_GENERAL, "a callback of the client threw an exception");
    }
  } catch (...) {
    return Status::OutOfMemory();
  }
}

// Whether this thread can throw. What the C++ library keeps for a thread's exceptions is made at
// the first one, and where there is no memory for it the C library ends the process: so it is made
// before, as long as there is some.
inline bool CanThrow() noexcept {
  // In the thread's own block, which needs no memory.
  __attribute__((tls_model("initial-exec"))) static thread_local const void* globals = nullptr;
  if (globals != nullptr) return true;
  void* probe = std::malloc(1024);
  if (probe == nullptr) return false;
  std::free(probe);
  globals = abi::__cxa_get_globals();
  return true;
}

// body(), or failed(status) for an exception. `failed` must not throw.
template <typename Body, typename Failed>
auto Contained(Body&& body, Failed&& failed) -> decltype(body()) {
  if (!CanThrow()) return failed(Status::OutOfMemory());
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    throw;  // pthread_cancel and pthread_exit, which nobody may stop
  } catch (...) {
    return failed(CurrentException());
  }
}

// The same for what returns nothing and reports nothing. Such calls give something back: they run
// on a thread without memory, too, and nobody would call them again.
template <typename Body>
void Contained(Body&& body) {
  (void)CanThrow();
  try {
    body();
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
  }
}

}  // namespace qnnrt
