// The gpu backend's side of the API: graphs are declared and checked like all others, and executed
// by OpenCL command lists of the binding's (api/executor.h). Memory handles are the binding's, too.
#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "backends/backend.h"
#include "backends/capabilities.h"

namespace qnnrt {
namespace {

constexpr std::array kGpuProperties = {QNN_PROPERTY_GRAPH_SUPPORT_SIGNALS,
                                       QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION,
                                       QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_SIGNAL,
                                       QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_ASYNC_SIGNAL,
                                       QNN_PROPERTY_GRAPH_SUPPORT_CONTINUOUS_PROFILING,
                                       QNN_PROPERTY_GRAPH_SUPPORT_PROFILING_STATE,
                                       QNN_PROPERTY_GRAPH_SUPPORT_SET_PROFILING_NUM_EXECUTIONS,
                                       QNN_PROPERTY_GROUP_SIGNAL,
                                       QNN_PROPERTY_SIGNAL_SUPPORT_ABORT,
                                       QNN_PROPERTY_SIGNAL_SUPPORT_TIMEOUT};
// No context binaries, since the runtime does not compile these graphs; the only memory kind is
// OpenCL's.
constexpr uint32_t kNot[] = {
    QNN_PROPERTY_CONTEXT_SUPPORT_CACHING,
    QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_ENABLE_GRAPHS,
    QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_PERSISTENT_BINARY,
    QNN_PROPERTY_CONTEXT_SUPPORT_CONFIG_BINARY_COMPATIBILITY_TYPE,
    QNN_PROPERTY_CONTEXT_SUPPORT_VALIDATE_BINARY,
    QNN_PROPERTY_GRAPH_SUPPORT_EARLY_TERMINATION,
    QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_ION,
    QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_DMA_BUF,
};

constexpr auto Without(decltype(WithCommonCapabilities(kGpuProperties)) all) {
  size_t n = 0;
  for (uint32_t key : all) {
    bool has = true;
    for (uint32_t not_this : kNot) has = has && key != not_this;
    if (has) all[n++] = key;
  }
  while (n < all.size()) all[n++] = 0;
  return all;
}
constexpr auto kGpuCapabilities = Without(WithCommonCapabilities(kGpuProperties));

}  // namespace

const BackendTraits& GpuBackend() {
  static const BackendTraits traits = [] {
    BackendTraits t;
    t.id = QNN_BACKEND_ID_GPU;
    t.provider = QNN_PROVIDER_NAME_GPU;
    t.api_version = {3, 15, 0};
    t.configs = ConfigSet::kGpu;
    t.external = true;
    t.async = true;
    t.signals = true;
    t.capabilities = kGpuCapabilities.data();
    return t;
  }();
  return traits;
}

}  // namespace qnnrt
