// The cpu backend: every buffer that the CPU can address is used where it is, so RAW costs nothing
// and handles are a convenience; there is no device to open.
#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "backends/backend.h"
#include "backends/capabilities.h"

namespace qnnrt {
namespace {

constexpr std::array kCpuProperties = {QNN_PROPERTY_CONTEXT_SUPPORT_DEFERRED_GRAPH_INIT};
constexpr auto kCpuCapabilities = WithCommonCapabilities(WithOpPackages(kCpuProperties));

}  // namespace

const BackendTraits& CpuBackend() {
  static const BackendTraits traits = [] {
    BackendTraits t;
    t.id = QNN_BACKEND_ID_CPU;
    t.provider = QNN_PROVIDER_NAME_CPU;
    t.api_version = {1, 1, 0};
    t.custom_memory = CustomMem::kHtp;
    t.memory_kinds = kCpuReachableKinds;
    t.op_packages = true;
    t.capabilities = kCpuCapabilities.data();
    return t;
  }();
  return traits;
}

}  // namespace qnnrt
