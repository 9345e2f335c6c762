// What the entries of the function table have in common.
#pragma once

#include <mutex>
#include <string>

#include "abi/qnn_errors.h"
#include "api/functions.h"
#include "saver/program.h"

namespace qnnrt::saver {

void FillGraphCalls(QnnInterface_ImplementationV2_32_t* table);

// body(recorder) -> Status, one call at a time.
template <typename Body>
Qnn_ErrorHandle_t Recorded(Body body) {
  return Guarded([&] {
    Recorder& recorder = Recorder::Get();
    std::lock_guard<std::mutex> lock(recorder.mutex());
    return Report(body(recorder));
  });
}

// The variable of a handle. Errors: `code` where it is none of that kind.
inline Result<std::string> Variable(Recorder& r, const void* handle, Kind kind, ErrorCode code) {
  const Object* object = r.Find(handle, kind);
  if (object != nullptr) return object->variable;
  return Status(code, "this is no live handle of the saver's, or of another kind");
}
// The same, and NULL for null.
inline Result<std::string> Optional(Recorder& r, const void* handle, Kind kind, ErrorCode code) {
  if (handle == nullptr) return std::string("NULL");
  return Variable(r, handle, kind, code);
}

inline Status NoSignals(const void* signal) {
  if (signal == nullptr) return Status::Ok();
  return Status(QNN_COMMON_ERROR_NOT_SUPPORTED, "the saver has no signals");
}

// A call that makes an object: `arguments` end with where its handle goes.
inline Status Make(Recorder& r, Call* call, Kind kind, const char* type, const char* function,
                   const std::string& arguments, void* parent, void** handle) {
  std::string variable;
  void* made = r.Add(kind, parent, &variable);
  call->Declare(type, variable);
  call->Check(function, arguments + (arguments.empty() ? "&" : ", &") + variable);
  Status status = call->Write();
  if (!status.ok()) {
    r.Remove(made);
    return status;
  }
  *handle = made;
  return Status::Ok();
}

inline Status NotNull(const void* pointer, ErrorCode code) {
  if (pointer != nullptr) return Status::Ok();
  return Status(code, "the place for the handle must not be null");
}

// A call that applies configs to an object.
template <Kind kKind, ErrorCode kCode, typename Config>
Status SetConfigs(Recorder& r, void* handle, const Config** config, const char* function) {
  QNNRT_ASSIGN_OR_RETURN(std::string name, Variable(r, handle, kKind, kCode));
  Call call(&r, function);
  QNNRT_ASSIGN_OR_RETURN(std::string configs, call.Configs(config));
  call.Check(function, name + ", " + configs);
  return call.Write();
}

}  // namespace qnnrt::saver
