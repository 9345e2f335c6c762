#include "backends/ir.h"

#include "abi/qnn_errors.h"
#include "abi/qnn_property.h"

namespace qnnrt {
namespace {

constexpr uint32_t kIrCapabilities[] = {QNN_PROPERTY_GROUP_CORE,
                                        QNN_PROPERTY_GROUP_ERROR,
                                        QNN_PROPERTY_ERROR_GET_VERBOSE_MESSAGE,
                                        QNN_PROPERTY_GROUP_LOG,
                                        QNN_PROPERTY_LOG_SUPPORTS_DEFAULT_STREAM,
                                        0};

}  // namespace

const BackendTraits& IrBackend() {
  static const BackendTraits traits = [] {
    BackendTraits t;
    t.id = QNN_BACKEND_ID_IR;
    t.provider = QNN_PROVIDER_NAME_IR;
    t.api_version = {0, 1, 0};
    t.capabilities = kIrCapabilities;
    return t;
  }();
  return traits;
}

Status IrBackendUnavailable() {
  return Status(QNN_BACKEND_ERROR_NOT_SUPPORTED,
                "graphs cannot be written into DLC files here: libQnnSaver.so records them as a "
                "program and its weights, libQnnCpu.so and libQnnHtp.so run them and write context "
                "binaries");
}

}  // namespace qnnrt
