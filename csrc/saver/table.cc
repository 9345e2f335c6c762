// The SAVER backend's function table. Calls that make, change or free something are recorded; what
// would need a backend's answer is answered with a dummy code.
#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnn_saver.h"
#include "saver/calls.h"
#include "support/version.h"

namespace qnnrt::saver {
namespace {

constexpr Qnn_ApiVersion_t kVersion = {kCoreApiVersion, {1, 1, 0}};

// ---- log ----

Qnn_ErrorHandle_t LogCreate(QnnLog_Callback_t, QnnLog_Level_t level, Qnn_LogHandle_t* log) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_RETURN_IF_ERROR(NotNull(log, QNN_LOG_ERROR_INVALID_ARGUMENT));
    Call call(&r, "the callback is not recorded");
    return Make(r, &call, Kind::kLog, "Qnn_LogHandle_t", "logCreate",
                "NULL, (QnnLog_Level_t)" + std::to_string(static_cast<unsigned>(level)), nullptr,
                log);
  });
}

Qnn_ErrorHandle_t LogSetLevel(Qnn_LogHandle_t log, QnnLog_Level_t level) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_ASSIGN_OR_RETURN(std::string name,
                           Variable(r, log, Kind::kLog, QNN_LOG_ERROR_INVALID_HANDLE));
    Call call(&r, "logSetLogLevel");
    call.Check("logSetLogLevel",
               name + ", (QnnLog_Level_t)" + std::to_string(static_cast<unsigned>(level)));
    return call.Write();
  });
}

// ---- what is freed ----

template <Kind kKind, ErrorCode kCode>
Status Free(Recorder& r, void* handle, const char* function, const std::string& more) {
  QNNRT_ASSIGN_OR_RETURN(std::string name, Variable(r, handle, kKind, kCode));
  Call call(&r, function);
  call.Check(function, name + more);
  QNNRT_RETURN_IF_ERROR(call.Write());
  r.Remove(handle);
  return Status::Ok();
}

Qnn_ErrorHandle_t LogFree(Qnn_LogHandle_t log) {
  return Recorded([&](Recorder& r) {
    return Free<Kind::kLog, QNN_LOG_ERROR_INVALID_HANDLE>(r, log, "logFree", "");
  });
}

Qnn_ErrorHandle_t BackendFree(Qnn_BackendHandle_t backend) {
  return Recorded([&](Recorder& r) {
    return Free<Kind::kBackend, QNN_BACKEND_ERROR_INVALID_HANDLE>(r, backend, "backendFree", "");
  });
}

Qnn_ErrorHandle_t DeviceFree(Qnn_DeviceHandle_t device) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_ASSIGN_OR_RETURN(std::string name,
                           Variable(r, device, Kind::kDevice, QNN_DEVICE_ERROR_INVALID_HANDLE));
    Call call(&r, "deviceFree");
    call.Line("if (" + name + ") check(\"deviceFree\", qnn.deviceFree(" + name + "));");
    QNNRT_RETURN_IF_ERROR(call.Write());
    r.Remove(device);
    return Status::Ok();
  });
}

Qnn_ErrorHandle_t ProfileFree(Qnn_ProfileHandle_t profile) {
  return Recorded([&](Recorder& r) {
    return Free<Kind::kProfile, QNN_PROFILE_ERROR_INVALID_HANDLE>(r, profile, "profileFree", "");
  });
}

Qnn_ErrorHandle_t ContextFree(Qnn_ContextHandle_t context, Qnn_ProfileHandle_t profile) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_ASSIGN_OR_RETURN(std::string with,
                           Optional(r, profile, Kind::kProfile, QNN_CONTEXT_ERROR_SET_PROFILE));
    return Free<Kind::kContext, QNN_CONTEXT_ERROR_INVALID_HANDLE>(r, context, "contextFree",
                                                                  ", " + with);
  });
}

// ---- backend, device, profile ----

Qnn_ErrorHandle_t BackendCreate(Qnn_LogHandle_t log, const QnnBackend_Config_t** config,
                                Qnn_BackendHandle_t* backend) {
  return Recorded([&](Recorder& r) -> Status {
    constexpr ErrorCode kBad = QNN_BACKEND_ERROR_INVALID_ARGUMENT;
    QNNRT_RETURN_IF_ERROR(NotNull(backend, kBad));
    QNNRT_ASSIGN_OR_RETURN(std::string with, Optional(r, log, Kind::kLog, kBad));
    Call call(&r, "backendCreate");
    QNNRT_ASSIGN_OR_RETURN(std::string configs, call.Configs(config));
    return Make(r, &call, Kind::kBackend, "Qnn_BackendHandle_t", "backendCreate",
                with + ", " + configs, nullptr, backend);
  });
}

Qnn_ErrorHandle_t BackendSetConfig(Qnn_BackendHandle_t backend,
                                   const QnnBackend_Config_t** config) {
  return Recorded([&](Recorder& r) {
    return SetConfigs<Kind::kBackend, QNN_BACKEND_ERROR_INVALID_HANDLE>(r, backend, config,
                                                                        "backendSetConfig");
  });
}

Qnn_ErrorHandle_t RegisterOpPackage(Qnn_BackendHandle_t backend, const char* path,
                                    const char* provider, const char* target) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_ASSIGN_OR_RETURN(std::string name,
                           Variable(r, backend, Kind::kBackend, QNN_BACKEND_ERROR_INVALID_HANDLE));
    Call call(&r, "backendRegisterOpPackage");
    call.Check("backendRegisterOpPackage",
               name + ", " + Quoted(path) + ", " + Quoted(provider) + ", " + Quoted(target));
    return call.Write();
  });
}

Qnn_ErrorHandle_t ValidateOpConfig(Qnn_BackendHandle_t backend, Qnn_OpConfig_t op) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_ASSIGN_OR_RETURN(std::string name,
                           Variable(r, backend, Kind::kBackend, QNN_BACKEND_ERROR_INVALID_HANDLE));
    Call call(&r, std::string("validate ") + (op.v1.name == nullptr ? "" : op.v1.name));
    QNNRT_ASSIGN_OR_RETURN(std::string config, call.Op(op, {}));
    // Clients ask before they decide: a refusal is no failure.
    call.Line("note(\"backendValidateOpConfig\", qnn.backendValidateOpConfig(" + name + ", " +
              config + "));");
    return call.Write();
  });
}

Qnn_ErrorHandle_t DeviceCreate(Qnn_LogHandle_t log, const QnnDevice_Config_t** config,
                               Qnn_DeviceHandle_t* device) {
  return Recorded([&](Recorder& r) -> Status {
    constexpr ErrorCode kBad = QNN_DEVICE_ERROR_INVALID_HANDLE;
    QNNRT_RETURN_IF_ERROR(NotNull(device, QNN_COMMON_ERROR_INVALID_ARGUMENT));
    QNNRT_ASSIGN_OR_RETURN(std::string with, Optional(r, log, Kind::kLog, kBad));
    Call call(&r, "deviceCreate: on a backend without devices the handle stays NULL");
    QNNRT_ASSIGN_OR_RETURN(std::string configs, call.Configs(config));
    std::string variable;
    *device = r.Add(Kind::kDevice, nullptr, &variable);
    call.Declare("Qnn_DeviceHandle_t", variable);
    call.Line("note(\"deviceCreate\", qnn.deviceCreate(" + with + ", " + configs + ", &" +
              variable + "));");
    return call.Write();
  });
}

Qnn_ErrorHandle_t DeviceSetConfig(Qnn_DeviceHandle_t device, const QnnDevice_Config_t** config) {
  return Recorded([&](Recorder& r) {
    return SetConfigs<Kind::kDevice, QNN_DEVICE_ERROR_INVALID_HANDLE>(r, device, config,
                                                                      "deviceSetConfig");
  });
}

Qnn_ErrorHandle_t ProfileCreate(Qnn_BackendHandle_t backend, QnnProfile_Level_t level,
                                Qnn_ProfileHandle_t* profile) {
  return Recorded([&](Recorder& r) -> Status {
    constexpr ErrorCode kBad = QNN_PROFILE_ERROR_INVALID_ARGUMENT;
    QNNRT_RETURN_IF_ERROR(NotNull(profile, kBad));
    QNNRT_ASSIGN_OR_RETURN(std::string name, Variable(r, backend, Kind::kBackend, kBad));
    Call call(&r, "profileCreate");
    return Make(r, &call, Kind::kProfile, "Qnn_ProfileHandle_t", "profileCreate",
                name + ", " + std::to_string(level), nullptr, profile);
  });
}

Qnn_ErrorHandle_t ProfileSetConfig(Qnn_ProfileHandle_t profile,
                                   const QnnProfile_Config_t** config) {
  return Recorded([&](Recorder& r) {
    return SetConfigs<Kind::kProfile, QNN_PROFILE_ERROR_INVALID_HANDLE>(r, profile, config,
                                                                        "profileSetConfig");
  });
}

// ---- context ----

Qnn_ErrorHandle_t ContextCreate(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
                                const QnnContext_Config_t** config, Qnn_ContextHandle_t* context) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_RETURN_IF_ERROR(NotNull(context, QNN_CONTEXT_ERROR_INVALID_ARGUMENT));
    QNNRT_ASSIGN_OR_RETURN(std::string owner,
                           Variable(r, backend, Kind::kBackend, QNN_BACKEND_ERROR_INVALID_HANDLE));
    QNNRT_ASSIGN_OR_RETURN(std::string on,
                           Optional(r, device, Kind::kDevice, QNN_CONTEXT_ERROR_INVALID_ARGUMENT));
    Call call(&r, "contextCreate");
    QNNRT_ASSIGN_OR_RETURN(std::string configs, call.Configs(config));
    return Make(r, &call, Kind::kContext, "Qnn_ContextHandle_t", "contextCreate",
                owner + ", " + on + ", " + configs, nullptr, context);
  });
}

Qnn_ErrorHandle_t CreateFromBinary(Qnn_BackendHandle_t backend, Qnn_DeviceHandle_t device,
                                   const QnnContext_Config_t** config, const void* binary,
                                   Qnn_ContextBinarySize_t size, Qnn_ContextHandle_t* context,
                                   Qnn_ProfileHandle_t profile) {
  return Recorded([&](Recorder& r) -> Status {
    constexpr ErrorCode kBad = QNN_CONTEXT_ERROR_INVALID_ARGUMENT;
    QNNRT_RETURN_IF_ERROR(NotNull(context, kBad));
    if (binary == nullptr || size == 0) return Status(kBad, "a context binary must not be empty");
    QNNRT_ASSIGN_OR_RETURN(std::string owner,
                           Variable(r, backend, Kind::kBackend, QNN_BACKEND_ERROR_INVALID_HANDLE));
    QNNRT_ASSIGN_OR_RETURN(std::string on, Optional(r, device, Kind::kDevice, kBad));
    QNNRT_ASSIGN_OR_RETURN(std::string with,
                           Optional(r, profile, Kind::kProfile, QNN_CONTEXT_ERROR_SET_PROFILE));
    Call call(&r, "contextCreateFromBinary");
    QNNRT_ASSIGN_OR_RETURN(std::string configs, call.Configs(config));
    QNNRT_ASSIGN_OR_RETURN(std::string data, call.Data(binary, size));
    std::string variable;
    void* made = r.Add(Kind::kContext, nullptr, &variable);
    call.Declare("Qnn_ContextHandle_t", variable);
    call.Check("contextCreateFromBinary", owner + ", " + on + ", " + configs + ", " + data + ", " +
                                              std::to_string(size) + ", &" + variable + ", " +
                                              with);
    *context = made;
    return call.Write();
  });
}

Qnn_ErrorHandle_t ContextSetConfig(Qnn_ContextHandle_t context,
                                   const QnnContext_Config_t** config) {
  return Recorded([&](Recorder& r) {
    return SetConfigs<Kind::kContext, QNN_CONTEXT_ERROR_INVALID_HANDLE>(r, context, config,
                                                                        "contextSetConfig");
  });
}

Qnn_ErrorHandle_t ContextFinalize(Qnn_ContextHandle_t context, Qnn_ProfileHandle_t profile) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_ASSIGN_OR_RETURN(std::string name,
                           Variable(r, context, Kind::kContext, QNN_CONTEXT_ERROR_INVALID_HANDLE));
    QNNRT_ASSIGN_OR_RETURN(std::string with,
                           Optional(r, profile, Kind::kProfile, QNN_CONTEXT_ERROR_SET_PROFILE));
    Call call(&r, "contextFinalize");
    call.Check("contextFinalize", name + ", " + with);
    return call.Write();
  });
}

// The program writes the binary of the backend that it runs on, when one is asked for; there is
// none here.
Qnn_ErrorHandle_t SaveBinary(Qnn_ContextHandle_t context) {
  return Recorded([&](Recorder& r) -> Status {
    QNNRT_ASSIGN_OR_RETURN(std::string name,
                           Variable(r, context, Kind::kContext, QNN_CONTEXT_ERROR_INVALID_HANDLE));
    Call call(&r, "contextGetBinary");
    call.Line("save_binary(" + name + ", " + Quoted((name + ".bin").c_str()) + ");");
    QNNRT_RETURN_IF_ERROR(call.Write());
    return Status(QNN_SAVER_ERROR_DUMMY_RETVALUE, "the saver has no binary: the program makes it");
  });
}

Qnn_ErrorHandle_t GetBinarySize(Qnn_ContextHandle_t context, Qnn_ContextBinarySize_t*) {
  return SaveBinary(context);
}

Qnn_ErrorHandle_t GetBinary(Qnn_ContextHandle_t context, void*, Qnn_ContextBinarySize_t,
                            Qnn_ContextBinarySize_t*) {
  return SaveBinary(context);
}

Qnn_ErrorHandle_t GetApiVersion(Qnn_ApiVersion_t* version) {
  if (version == nullptr) return QNN_BACKEND_ERROR_INVALID_ARGUMENT;
  *version = kVersion;
  return QNN_SUCCESS;
}

void FillQueries(QnnInterface_ImplementationV2_32_t* t) {
  using api::Refuse;
  constexpr ErrorCode kDummy = QNN_SAVER_ERROR_DUMMY_RETVALUE;
  Refuse<kDummy>(&t->propertyHasCapability);
  Refuse<kDummy>(&t->backendGetSupportedOperations);
  Refuse<kDummy>(&t->backendGetProperty);
  Refuse<kDummy>(&t->contextGetProperty);
  Refuse<kDummy>(&t->contextValidateBinary);
  Refuse<kDummy>(&t->graphGetProperty);
  Refuse<kDummy>(&t->profileGetEvents);
  Refuse<kDummy>(&t->profileGetSubEvents);
  Refuse<kDummy>(&t->profileGetEventData);
  Refuse<kDummy>(&t->profileGetExtendedEventData);
  Refuse<kDummy>(&t->deviceGetPlatformInfo);
  Refuse<kDummy>(&t->deviceFreePlatformInfo);
  Refuse<kDummy>(&t->deviceGetInfrastructure);
  Refuse<kDummy>(&t->deviceGetInfo);
}

void FillRefused(QnnInterface_ImplementationV2_32_t* t) {
  using api::Refuse;
  constexpr ErrorCode kNo = QNN_COMMON_ERROR_NOT_SUPPORTED;
  Refuse<kNo>(&t->graphCreateSubgraph);
  Refuse<kNo>(&t->graphExecuteAsync);
  Refuse<kNo>(&t->memRegister);
  Refuse<kNo>(&t->memDeRegister);
  Refuse<kNo>(&t->signalCreate);
  Refuse<kNo>(&t->signalSetConfig);
  Refuse<kNo>(&t->signalTrigger);
  Refuse<kNo>(&t->signalFree);
  Refuse<kNo>(&t->graphPrepareExecutionEnvironment);
  Refuse<kNo>(&t->graphReleaseExecutionEnvironment);
  Refuse<kNo>(&t->contextCreateFromBinaryWithSignal);
  Refuse<kNo>(&t->contextCreateFromBinaryListAsync);
  Refuse<kNo>(&t->tensorUpdateGraphTensors);
  Refuse<kNo>(&t->tensorUpdateContextTensors);
  Refuse<kNo>(&t->contextGetBinarySectionSize);
  Refuse<kNo>(&t->contextGetBinarySection);
  Refuse<kNo>(&t->contextApplyBinarySection);
  Refuse<kNo>(&t->contextGetIncrementalBinary);
  Refuse<kNo>(&t->contextReleaseIncrementalBinary);
  Refuse<kNo>(&t->globalConfigSet);
  Refuse<kNo>(&t->contextCreateFromBinaryWithCallback);
  Refuse<kNo>(&t->contextGetBinarySectionUpdate);
  Refuse<kNo>(&t->contextFreeBinarySectionUpdate);
}

void Fill(QnnInterface_ImplementationV2_32_t* t) {
  api::FillBackend(CpuBackend(), t);  // for the build id: the rest of it is replaced
  FillQueries(t);
  FillRefused(t);
  api::FillError(t);
  t->backendCreate = BackendCreate;
  t->backendSetConfig = BackendSetConfig;
  t->backendGetApiVersion = GetApiVersion;
  t->backendRegisterOpPackage = RegisterOpPackage;
  t->backendValidateOpConfig = ValidateOpConfig;
  t->backendFree = BackendFree;
  t->contextCreate = ContextCreate;
  t->contextSetConfig = ContextSetConfig;
  t->contextGetBinary = GetBinary;
  t->contextGetBinarySize = GetBinarySize;
  t->contextCreateFromBinary = CreateFromBinary;
  t->contextFinalize = ContextFinalize;
  t->contextFree = ContextFree;
  FillGraphCalls(t);
  t->logCreate = LogCreate;
  t->logSetLogLevel = LogSetLevel;
  t->logFree = LogFree;
  t->profileCreate = ProfileCreate;
  t->profileSetConfig = ProfileSetConfig;
  t->profileFree = ProfileFree;
  t->deviceCreate = DeviceCreate;
  t->deviceSetConfig = DeviceSetConfig;
  t->deviceFree = DeviceFree;
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

QNN_API Qnn_ErrorHandle_t qnnrt_saver_initialize(const QnnSaver_Config_t** config) {
  return qnnrt::saver::Recorded(
      [&](qnnrt::saver::Recorder& recorder) { return recorder.Configure(config); });
}

}  // extern "C"
