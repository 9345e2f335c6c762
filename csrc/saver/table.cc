// The SAVER backend's function table: it answers queries about itself and refuses the rest.
#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnn_saver.h"
#include "api/functions.h"
#include "support/version.h"

namespace qnnrt::saver {
namespace {

constexpr Qnn_ApiVersion_t kVersion = {kCoreApiVersion, {1, 1, 0}};

Qnn_ErrorHandle_t GetApiVersion(Qnn_ApiVersion_t* version) {
  if (version == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
  *version = kVersion;
  return QNN_SUCCESS;
}

void Fill(QnnInterface_ImplementationV2_32_t* t) {
  using api::Refuse;
  constexpr ErrorCode kNo = QNN_COMMON_ERROR_NOT_SUPPORTED;
  Refuse<kNo>(&t->propertyHasCapability);
  Refuse<kNo>(&t->backendCreate);
  Refuse<kNo>(&t->backendSetConfig);
  Refuse<kNo>(&t->backendGetApiVersion);
  Refuse<kNo>(&t->backendGetBuildId);
  Refuse<kNo>(&t->backendRegisterOpPackage);
  Refuse<kNo>(&t->backendGetSupportedOperations);
  Refuse<kNo>(&t->backendValidateOpConfig);
  Refuse<kNo>(&t->backendFree);
  Refuse<kNo>(&t->contextCreate);
  Refuse<kNo>(&t->contextSetConfig);
  Refuse<kNo>(&t->contextGetBinarySize);
  Refuse<kNo>(&t->contextGetBinary);
  Refuse<kNo>(&t->contextCreateFromBinary);
  Refuse<kNo>(&t->contextFree);
  Refuse<kNo>(&t->graphCreate);
  Refuse<kNo>(&t->graphCreateSubgraph);
  Refuse<kNo>(&t->graphSetConfig);
  Refuse<kNo>(&t->graphAddNode);
  Refuse<kNo>(&t->graphFinalize);
  Refuse<kNo>(&t->graphRetrieve);
  Refuse<kNo>(&t->graphExecute);
  Refuse<kNo>(&t->graphExecuteAsync);
  Refuse<kNo>(&t->tensorCreateContextTensor);
  Refuse<kNo>(&t->tensorCreateGraphTensor);
  Refuse<kNo>(&t->logCreate);
  Refuse<kNo>(&t->logSetLogLevel);
  Refuse<kNo>(&t->logFree);
  Refuse<kNo>(&t->profileCreate);
  Refuse<kNo>(&t->profileSetConfig);
  Refuse<kNo>(&t->profileGetEvents);
  Refuse<kNo>(&t->profileGetSubEvents);
  Refuse<kNo>(&t->profileGetEventData);
  Refuse<kNo>(&t->profileGetExtendedEventData);
  Refuse<kNo>(&t->profileFree);
  Refuse<kNo>(&t->memRegister);
  Refuse<kNo>(&t->memDeRegister);
  Refuse<kNo>(&t->deviceGetPlatformInfo);
  Refuse<kNo>(&t->deviceFreePlatformInfo);
  Refuse<kNo>(&t->deviceGetInfrastructure);
  Refuse<kNo>(&t->deviceCreate);
  Refuse<kNo>(&t->deviceSetConfig);
  Refuse<kNo>(&t->deviceGetInfo);
  Refuse<kNo>(&t->deviceFree);
  Refuse<kNo>(&t->signalCreate);
  Refuse<kNo>(&t->signalSetConfig);
  Refuse<kNo>(&t->signalTrigger);
  Refuse<kNo>(&t->signalFree);
  Refuse<kNo>(&t->errorGetMessage);
  Refuse<kNo>(&t->errorGetVerboseMessage);
  Refuse<kNo>(&t->errorFreeVerboseMessage);
  Refuse<kNo>(&t->graphPrepareExecutionEnvironment);
  Refuse<kNo>(&t->graphReleaseExecutionEnvironment);
  Refuse<kNo>(&t->graphGetProperty);
  Refuse<kNo>(&t->contextValidateBinary);
  Refuse<kNo>(&t->contextCreateFromBinaryWithSignal);
  Refuse<kNo>(&t->contextCreateFromBinaryListAsync);
  Refuse<kNo>(&t->tensorUpdateGraphTensors);
  Refuse<kNo>(&t->tensorUpdateContextTensors);
  Refuse<kNo>(&t->contextGetBinarySectionSize);
  Refuse<kNo>(&t->contextGetBinarySection);
  Refuse<kNo>(&t->contextApplyBinarySection);
  Refuse<kNo>(&t->backendGetProperty);
  Refuse<kNo>(&t->contextGetProperty);
  Refuse<kNo>(&t->contextGetIncrementalBinary);
  Refuse<kNo>(&t->contextReleaseIncrementalBinary);
  Refuse<kNo>(&t->contextFinalize);
  Refuse<kNo>(&t->globalConfigSet);
  Refuse<kNo>(&t->contextCreateFromBinaryWithCallback);
  Refuse<kNo>(&t->contextGetBinarySectionUpdate);
  Refuse<kNo>(&t->contextFreeBinarySectionUpdate);
  t->backendGetApiVersion = GetApiVersion;
  api::FillLog(t);
  api::FillError(t);
}

const QnnInterface_t* Provider() {
  static const Qnnrt_PaddedInterface_t provider = [] {
    Qnnrt_PaddedInterface_t p;
    std::memset(&p, 0, sizeof(p));
    p.interface.backendId = QNN_BACKEND_ID_SAVER;
    p.interface.providerName = QNN_PROVIDER_NAME_SAVER;
    p.interface.apiVersion = kVersion;
    Fill(&p.interface.v2_32);
    return p;
  }();
  return &provider.interface;
}

}  // namespace
}  // namespace qnnrt::saver

extern "C" {

QNN_API Qnn_ErrorHandle_t qnnrt_saver_get_providers(const QnnInterface_t*** list, uint32_t* n) {
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    if (list == nullptr || n == nullptr) return QNN_INTERFACE_ERROR_INVALID_PARAMETER;
    static const QnnInterface_t* providers[] = {qnnrt::saver::Provider()};
    *list = providers;
    *n = 1;
    return QNN_SUCCESS;
  });
}

QNN_API Qnn_ErrorHandle_t qnnrt_saver_initialize(const QnnSaver_Config_t**) {
  return QNN_COMMON_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
