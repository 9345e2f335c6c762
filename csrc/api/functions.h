// The function table's entries, by component. Those that differ between backends take the backend's
// traits; interface.cc binds them.
#pragma once

#include "abi/qnn_interface.h"
#include "api/runtime.h"

namespace qnnrt::api {

Qnn_ErrorHandle_t HasCapability(const BackendTraits& traits, QnnProperty_Key_t key);
Qnn_ErrorHandle_t BackendCreate(const BackendTraits& traits, Qnn_LogHandle_t log,
                                const QnnBackend_Config_t** config, Qnn_BackendHandle_t* backend);
Qnn_ErrorHandle_t GetApiVersion(const BackendTraits& traits, Qnn_ApiVersion_t* version);

void FillBackend(QnnInterface_ImplementationV2_32_t* table);
void FillContext(QnnInterface_ImplementationV2_32_t* table);
void FillGraph(QnnInterface_ImplementationV2_32_t* table);
void FillTensor(QnnInterface_ImplementationV2_32_t* table);
void FillLog(QnnInterface_ImplementationV2_32_t* table);
void FillProfile(QnnInterface_ImplementationV2_32_t* table);
void FillMem(QnnInterface_ImplementationV2_32_t* table);
void FillDevice(QnnInterface_ImplementationV2_32_t* table);
void FillSignal(QnnInterface_ImplementationV2_32_t* table);
void FillError(QnnInterface_ImplementationV2_32_t* table);

// An entry of any type that refuses: what a slot holds whose feature this backend has not.
template <ErrorCode kCode, typename Function>
struct Refusal;
template <ErrorCode kCode, typename... Args>
struct Refusal<kCode, Qnn_ErrorHandle_t (*)(Args...)> {
  static Qnn_ErrorHandle_t Call(Args...) { return kCode; }
};
template <ErrorCode kCode, typename... Args>
void Refuse(Qnn_ErrorHandle_t (**slot)(Args...)) {
  *slot = &Refusal<kCode, Qnn_ErrorHandle_t (*)(Args...)>::Call;
}

// Where a call writes its profile events: the client's profile, emptied first, or nothing.
class ProfileCall {
 public:
  // Errors: 12000 (as `code`) when the handle is no profile.
  static Result<ProfileCall> Begin(Qnn_ProfileHandle_t handle, ErrorCode code);
  ProfileScope* scope() { return profile_ ? &profile_->events : nullptr; }
  ~ProfileCall();
  ProfileCall(ProfileCall&&) = default;

 private:
  using Pin = decltype(Runtime::profiles)::Pin;
  explicit ProfileCall(Pin profile) : profile_(std::move(profile)) {}
  Pin profile_;
  std::unique_lock<std::mutex> lock_;
};

// Walks a NULL-terminated list of config pointers; a null list is an empty one.
template <typename Config, typename Visit>
Status ForEachConfig(const Config** list, Visit visit) {
  for (; list != nullptr && *list != nullptr; ++list) QNNRT_RETURN_IF_ERROR(visit(**list));
  return Status::Ok();
}

}  // namespace qnnrt::api
