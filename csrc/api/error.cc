#include <cstring>

#include "api/error_table.h"
#include "api/functions.h"

namespace qnnrt::api {
namespace {

Qnn_ErrorHandle_t GetMessage(Qnn_ErrorHandle_t error, const char** message) {
  if (message == nullptr) return QNN_ERROR_INVALID_ARGUMENT;
  uint32_t code = QNN_GET_ERROR_CODE(error);
  *message = code == QNN_SUCCESS ? "success" : ErrorMessage(code);
  if (*message != nullptr) return QNN_SUCCESS;
  *message = "";
  return QNN_ERROR_INVALID_ERROR_HANDLE;
}

// The message of this thread's last error if that had this code, else the code's plain message. The
// client frees it.
Qnn_ErrorHandle_t GetVerboseMessage(Qnn_ErrorHandle_t error, const char** message) {
  if (message == nullptr) return QNN_ERROR_INVALID_ARGUMENT;
  *message = nullptr;
  const char* plain;
  Qnn_ErrorHandle_t known = GetMessage(error, &plain);
  uint32_t code = QNN_GET_ERROR_CODE(error);
  const Status& last = LastError();
  bool fits = code != QNN_SUCCESS && last.code() == code && !last.message().empty();
  if (!fits && known != QNN_SUCCESS) return known;
  *message = strdup(fits ? last.message().c_str() : plain);
  return *message == nullptr ? Qnn_ErrorHandle_t{QNN_COMMON_ERROR_MEM_ALLOC}
                             : Qnn_ErrorHandle_t{QNN_SUCCESS};
}

Qnn_ErrorHandle_t FreeVerboseMessage(const char* message) {
  if (message == nullptr) return QNN_ERROR_INVALID_ARGUMENT;
  std::free(const_cast<char*>(message));
  return QNN_SUCCESS;
}

}  // namespace

void FillError(QnnInterface_ImplementationV2_32_t* table) {
  table->errorGetMessage = GetMessage;
  table->errorGetVerboseMessage = GetVerboseMessage;
  table->errorFreeVerboseMessage = FreeVerboseMessage;
}

}  // namespace qnnrt::api
