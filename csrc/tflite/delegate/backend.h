// A QNN backend as the delegate's client sees it: a library, its function table, one backend
// handle.
#pragma once

#include <memory>
#include <string>

#include "abi/qnn_interface.h"
#include "support/status.h"
#include "tflite/delegate/log.h"
#include "tflite/delegate/options.h"
#include "tflite/lowering/plan.h"

namespace qnnrt::tflite {

class Backend {
 public:
  static Result<std::shared_ptr<Backend>> Open(const Options& options, const Log* log);
  ~Backend();
  Backend(const Backend&) = delete;

  const QnnInterface_ImplementationV2_32_t& qnn() const { return qnn_; }
  Qnn_BackendHandle_t handle() const { return handle_; }
  uint32_t id() const { return id_; }
  bool ours() const { return library_ == nullptr; }

  // Whether the backend takes every operation of the plan; the reason of the first one it does not.
  Status Validate(const Plan& plan) const;
  // `what`, and the backend's message for the error.
  Status Failed(Qnn_ErrorHandle_t error, const std::string& what) const;

 private:
  Backend() = default;

  void* library_ = nullptr;  // null: this runtime's
  QnnInterface_ImplementationV2_32_t qnn_{};
  uint32_t id_ = 0;
  Qnn_LogHandle_t log_ = nullptr;
  Qnn_BackendHandle_t handle_ = nullptr;
};

}  // namespace qnnrt::tflite
