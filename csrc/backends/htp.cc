// The htp backend: the memory rules of the accelerator on the CPU runtime. It sees shared buffers
// alone, so RAW memory is staged through buffers of the runtime's own and handles cost nothing.
#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "backends/backend.h"
#include "backends/capabilities.h"

namespace qnnrt {
namespace {

constexpr std::array kHtpProperties = {QNN_PROPERTY_CONTEXT_SUPPORT_CREATE_FROM_BINARY_WITH_SIGNALS,
                                       QNN_PROPERTY_CONTEXT_SUPPORT_DEFERRED_GRAPH_INIT,
                                       QNN_PROPERTY_CONTEXT_SUPPORT_CUSTOM_PROPERTY,
                                       QNN_PROPERTY_GRAPH_SUPPORT_SIGNALS,
                                       QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION,
                                       QNN_PROPERTY_GRAPH_SUPPORT_FINALIZE_SIGNAL,
                                       QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_SIGNAL,
                                       QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_ASYNC_SIGNAL,
                                       QNN_PROPERTY_GRAPH_SUPPORT_CONTINUOUS_PROFILING,
                                       QNN_PROPERTY_GRAPH_SUPPORT_PROFILING_STATE,
                                       QNN_PROPERTY_GRAPH_SUPPORT_SET_PROFILING_NUM_EXECUTIONS,
                                       QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_BIND_MEM_HANDLES,
                                       QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_POPULATE_CLIENT_BUFS,
                                       QNN_PROPERTY_GROUP_SIGNAL,
                                       QNN_PROPERTY_SIGNAL_SUPPORT_ABORT,
                                       QNN_PROPERTY_SIGNAL_SUPPORT_TIMEOUT,
                                       QNN_PROPERTY_PROFILE_SUPPORT_OPTRACE_CONFIG,
                                       QNN_PROPERTY_GROUP_DEVICE,
                                       QNN_PROPERTY_DEVICE_SUPPORT_INFRASTRUCTURE};
constexpr auto kHtpCapabilities = WithCommonCapabilities(WithOpPackages(kHtpProperties));

}  // namespace

const BackendTraits& HtpBackend() {
  static const BackendTraits traits = [] {
    BackendTraits t;
    t.id = QNN_BACKEND_ID_HTP;
    t.provider = QNN_PROVIDER_NAME_HTP;
    t.api_version = {5, 51, 0};
    t.custom_memory = CustomMem::kHtp;
    t.memory_kinds = kCpuReachableKinds | KindBit(MemKind::kWeights) | KindBit(MemKind::kSpillFill);
    t.stages_raw = true;
    t.has_device = true;
    t.configs = ConfigSet::kHtp;
    t.async = true;
    t.signals = true;
    t.environments = true;
    t.op_packages = true;
    t.capabilities = kHtpCapabilities.data();
    return t;
  }();
  return traits;
}

}  // namespace qnnrt
