// The calls of a model library's functions. Header only; part of the binding.
#pragma once

#include <cxxabi.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <type_traits>

#include "abi/qnn_model.h"

namespace qnnrt::client {

// The function table as a model library gets it: by value, while its size is that of the headers
// which the library was compiled with, and nobody says which ones. On x86-64 it lies on the stack
// with the last three parameters behind it, so a library reads these from inside or from behind of
// what is passed here, wherever its own table ends.
//
// So whatever can lie behind a library's table is zero: its missing entries are NULL, debug is
// false, the callback is NULL and the level 0. The first 51 entries, sorted by component, are those
// of every 2.x table; what came later was appended, and nothing of it composes graphs.
struct ComposingTable {
  static constexpr size_t kFirst =
      offsetof(QnnInterface_ImplementationV2_32_t, graphPrepareExecutionEnvironment);
  static constexpr size_t kBytes = 2048;  // 200 entries more than there are

  explicit ComposingTable(const QnnInterface_ImplementationV2_32_t& table) : bytes{} {
    std::memcpy(bytes, &table, kFirst);
  }
  alignas(void*) std::byte bytes[kBytes];
};

using ComposeFn = ModelError_t (*)(Qnn_BackendHandle_t, ComposingTable, Qnn_ContextHandle_t,
                                   const GraphConfigInfo_t**, uint32_t, GraphInfo_t***, uint32_t*,
                                   bool, QnnLog_Callback_t, QnnLog_Level_t);

// The C++ exception that ended a call; what() of it, cut off where it is longer.
struct Thrown {
  bool any = false;
  char what[512] = {};
};

// body(), or `failed` and `thrown` filled: above is C, where an exception would end the process.
template <typename Body>
int CallLibrary(Thrown* thrown, int failed, Body&& body) {
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    throw;  // of a thread that ends, which nobody may stop
  } catch (const std::exception& e) {
    std::snprintf(thrown->what, sizeof thrown->what, "%s", e.what());
  } catch (...) {
    std::snprintf(thrown->what, sizeof thrown->what, "no std::exception");
  }
  thrown->any = true;
  return failed;
}

// As composeGraphs, with nothing in debug, logCallback and maxLogLevel. An old library without the
// last two does not look for them.
inline int ComposeGraphs(void* function, Qnn_BackendHandle_t backend,
                         const QnnInterface_ImplementationV2_32_t& table,
                         Qnn_ContextHandle_t context, GraphInfo_t*** graphs, uint32_t* count,
                         Thrown* thrown) {
  // Copied as plain bytes, as a C struct is: a class with a destructor or a copy constructor of its
  // own would be passed by reference.
  static_assert(std::is_trivially_copyable_v<ComposingTable>);
  const ComposingTable padded(table);
  return CallLibrary(thrown, MODEL_UNKNOWN_ERROR, [&] {
    return static_cast<int>(reinterpret_cast<ComposeFn>(function)(
        backend, padded, context, nullptr, 0, graphs, count, false, nullptr, QnnLog_Level_t{}));
  });
}

inline int FreeGraphsInfo(QnnModel_FreeGraphsInfoFn_t function, GraphInfo_t*** graphs,
                          uint32_t count, Thrown* thrown) {
  return CallLibrary(thrown, MODEL_UNKNOWN_ERROR,
                     [&] { return static_cast<int>(function(graphs, count)); });
}

}  // namespace qnnrt::client
