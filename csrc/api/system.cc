// The system library's provider, its log and its stateless functions.
#include "api/system.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "abi/qnnrt_ext.h"
#include "api/functions.h"
#include "ir/match.h"
#include "support/checked.h"

namespace qnnrt::system {
namespace {

// ---- log: the backends' logs, and a list of those that were made here ----

class Logs {
 public:
  static Logs& Get() {
    static Logs* logs = new Logs;
    return *logs;
  }
  void Add(const std::shared_ptr<Log>& log) {
    std::lock_guard<std::mutex> lock(mutex_);
    logs_.erase(std::remove_if(logs_.begin(), logs_.end(), [](auto& l) { return l.expired(); }),
                logs_.end());
    logs_.push_back(log);
  }
  void Write(const Status& status) {
    std::vector<std::weak_ptr<Log>> logs;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      try {
        logs = logs_;
      } catch (const std::bad_alloc&) {
        return;  // the code says it, too
      }
    }
    // With no lock held: a client's callback may call this library.
    for (const std::weak_ptr<Log>& entry : logs) {
      if (std::shared_ptr<Log> log = entry.lock())
        log->Write(QNN_LOG_LEVEL_ERROR, "error %u: %s", status.code(), status.message().c_str());
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Log>> logs_;
};

const QnnInterface_ImplementationV2_32_t& CoreLog() {
  static const QnnInterface_ImplementationV2_32_t table = [] {
    QnnInterface_ImplementationV2_32_t t;
    std::memset(&t, 0, sizeof(t));
    api::FillLog(&t);
    return t;
  }();
  return table;
}

Qnn_ErrorHandle_t LogCreate(QnnLog_Callback_t callback, QnnLog_Level_t level,
                            Qnn_LogHandle_t* handle) {
  return Guarded([&] {
    Qnn_ErrorHandle_t code = CoreLog().logCreate(callback, level, handle);
    if (code != QNN_SUCCESS) return code;
    try {
      if (auto log = Runtime::Get().logs.Find(*handle)) Logs::Get().Add(log->log);
    } catch (...) {
      CoreLog().logFree(*handle);
      *handle = nullptr;
      throw;
    }
    return code;
  });
}

// ---- tensors ----

Status Footprint(const Qnn_Tensor_t& tensor, uint64_t* bytes) {
  if (!HasKnownVersion(tensor)) {
    return Error(QNN_SYSTEM_TENSOR_ERROR_INVALID_TENSOR, "tensor version %d is unknown: 1 or 2",
                 static_cast<int>(tensor.version));
  }
  const Qnn_TensorV1_t& t = tensor.v1;  // version 2 begins as version 1 does
  uint64_t size = ElementSize(t.dataType);
  if (size == 0) {
    return Error(QNN_SYSTEM_TENSOR_ERROR_INVALID_TENSOR,
                 "elements of data type 0x%x have no size of their own",
                 static_cast<unsigned>(t.dataType));
  }
  if (t.rank != 0 && t.dimensions == nullptr)
    return Error(QNN_SYSTEM_TENSOR_ERROR_INVALID_TENSOR, "rank %u without dimensions", t.rank);
  uint64_t elements;
  if (!ElementCount(Shape(t.dimensions, t.dimensions + t.rank), &elements) ||
      !CheckedMul(size, elements, bytes))
    return Status(QNN_SYSTEM_TENSOR_ERROR_INVALID_TENSOR, "the size does not fit 63 bits");
  return Status::Ok();
}

Qnn_ErrorHandle_t GetMemoryFootprint(Qnn_Tensor_t tensor, uint64_t* bytes) {
  return Guarded([&] {
    if (bytes == nullptr)
      return ReportToLogs(
          Status(QNN_SYSTEM_TENSOR_ERROR_INVALID_ARGUMENT, "the size to fill in must not be null"));
    return ReportToLogs(Footprint(tensor, bytes));
  });
}

const QnnSystemInterface_t* Provider() {
  static const Qnnrt_PaddedSystemInterface_t provider = [] {
    Qnnrt_PaddedSystemInterface_t p;
    std::memset(&p, 0, sizeof(p));
    p.interface.backendId = QNN_BACKEND_ID_NULL;
    p.interface.providerName = QNN_PROVIDER_NAME_SYSTEM;
    p.interface.systemApiVersion = kApiVersion;
    QnnSystemInterface_ImplementationV1_7_t* table = &p.interface.v1_7;
    FillContext(table);
    FillProfile(table);
    table->systemTensorGetMemoryFootprint = GetMemoryFootprint;
    table->systemLogCreate = LogCreate;
    table->systemLogSetLogLevel = CoreLog().logSetLogLevel;
    table->systemLogFree = CoreLog().logFree;
    // DLC is the vendor's container for networks; here these are ONNX, TFLite or a binary.
    constexpr ErrorCode kNo = QNN_SYSTEM_DLC_ERROR_UNSUPPORTED_FEATURE;
    api::Refuse<kNo>(&table->systemDlcCreateFromFile);
    api::Refuse<kNo>(&table->systemDlcCreateFromBinary);
    api::Refuse<kNo>(&table->systemDlcComposeGraphs);
    api::Refuse<kNo>(&table->systemDlcGetOpMappings);
    api::Refuse<kNo>(&table->systemDlcFree);
    return p;
  }();
  return &provider.interface;
}

}  // namespace

Qnn_ErrorHandle_t ReportToLogs(const Status& status) {
  if (!status.ok()) Logs::Get().Write(status);
  return Report(status);
}

}  // namespace qnnrt::system

extern "C" {

QNN_API Qnn_ErrorHandle_t qnnrt_system_get_providers(const QnnSystemInterface_t*** list,
                                                     uint32_t* n) {
  return qnnrt::Guarded([&]() -> Qnn_ErrorHandle_t {
    if (list == nullptr || n == nullptr) return QNN_SYSTEM_INTERFACE_ERROR_INVALID_PARAMETER;
    static const QnnSystemInterface_t* providers[] = {qnnrt::system::Provider()};
    *list = providers;
    *n = 1;
    return QNN_SUCCESS;
  });
}

const char* qnnrt_error_message(void) { return qnnrt::LastError().message().c_str(); }

}  // extern "C"
