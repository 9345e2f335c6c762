// The cpu backend: every buffer that the CPU can address is used where it is, so RAW costs nothing
// and handles are a convenience; there is no device to open.
#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "backends/backend.h"

namespace qnnrt {
namespace {

constexpr uint32_t kCapabilities[] = {QNN_PROPERTY_GROUP_CORE,
                                      QNN_PROPERTY_GROUP_BACKEND,
                                      QNN_PROPERTY_BACKEND_SUPPORT_COMPOSITION,
                                      QNN_PROPERTY_GROUP_CONTEXT,
                                      QNN_PROPERTY_CONTEXT_SUPPORT_CONFIGURATION,
                                      QNN_PROPERTY_GROUP_GRAPH,
                                      QNN_PROPERTY_GRAPH_SUPPORT_CONFIG,
                                      QNN_PROPERTY_GRAPH_SUPPORT_PRIORITY_CONTROL,
                                      QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE,
                                      QNN_PROPERTY_GRAPH_SUPPORT_EXECUTE_PER_API_PROFILING,
                                      QNN_PROPERTY_GRAPH_SUPPORT_ONLINE_PREPARE,
                                      QNN_PROPERTY_GROUP_TENSOR,
                                      QNN_PROPERTY_TENSOR_SUPPORT_MEMHANDLE_TYPE,
                                      QNN_PROPERTY_GROUP_ERROR,
                                      QNN_PROPERTY_ERROR_GET_VERBOSE_MESSAGE,
                                      QNN_PROPERTY_GROUP_MEMORY,
                                      QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_ION,
                                      QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_CUSTOM,
                                      QNN_PROPERTY_MEMORY_SUPPORT_MEM_TYPE_DMA_BUF,
                                      QNN_PROPERTY_GROUP_LOG,
                                      QNN_PROPERTY_LOG_SUPPORTS_DEFAULT_STREAM,
                                      QNN_PROPERTY_GROUP_PROFILE,
                                      QNN_PROPERTY_PROFILE_SUPPORT_MAX_EVENTS_CONFIG,
                                      QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT,
                                      0};

}  // namespace

const BackendTraits& CpuBackend() {
  static const BackendTraits traits = {QNN_BACKEND_ID_CPU, QNN_PROVIDER_NAME_CPU, {1, 1, 0},
                                       CustomMem::kHtp,    kCpuReachableKinds,    kCapabilities};
  return traits;
}

}  // namespace qnnrt
