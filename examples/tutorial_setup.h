// What the tutorials leave to their reader: loading the libraries, and checking what calls return.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "QNN/QnnFunctions.h"
#include "QNN/QnnInterface.h"
#include "QNN/System/QnnSystemInterface.h"

namespace tutorial {

[[noreturn]] inline void Fail(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::exit(1);
}

// Every QNN call returns 0 or a code, for which the backend has a message.
inline void Check(const char* what, Qnn_ErrorHandle_t error) {
  if (error == QNN_SUCCESS) return;
  const char* text = nullptr;
  if (QnnError_getMessage(error, &text) != QNN_SUCCESS || text == nullptr) text = "no message";
  std::fprintf(stderr, "error %u: ", static_cast<unsigned>(QNN_GET_ERROR_CODE(error)));
  Fail(what, text);
}

// A symbol of a library that the loader finds, as the type of a function pointer.
template <typename Function>
Function Symbol(const char* library, const char* name) {
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) Fail(library, dlerror());
  void* found = dlsym(loaded, name);
  if (found == nullptr) Fail(name, dlerror());
  return reinterpret_cast<Function>(found);
}

// From here on the functions of QnnFunctions.h are this backend's.
inline void UseBackend(const char* library) {
  const QnnInterface_t** providers = nullptr;
  uint32_t count = 0;
  const auto get = Symbol<QnnInterface_GetProvidersFn_t>(library, "QnnInterface_getProviders");
  if (get(&providers, &count) != QNN_SUCCESS || count == 0) Fail(library, "no provider");
  Check(library, qnnrt_use_interface(providers[0]));
}

inline const QnnSystemInterface_ImplementationV1_7_t* System() {
  const QnnSystemInterface_t** providers = nullptr;
  uint32_t count = 0;
  const auto get = Symbol<QnnSystemInterface_GetProvidersFn_t>("libQnnSystem.so",
                                                               "QnnSystemInterface_getProviders");
  if (get(&providers, &count) != QNN_SUCCESS || count == 0) Fail("libQnnSystem.so", "no provider");
  return &providers[0]->v1_7;
}

}  // namespace tutorial
