// A log callback is the client's own code: it may call back, of whatever call it is told.
#include <cstdarg>
#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "check.h"

extern "C" Qnn_ErrorHandle_t qnnrt_htp_get_providers(const QnnInterface_t*** list, uint32_t* n);

namespace {

const QnnInterface_ImplementationV2_32_t& Table() {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  qnnrt_htp_get_providers(&list, &count);
  return list[0]->v2_32;
}
const QnnInterface_ImplementationV2_32_t q = Table();

Qnn_LogHandle_t log_handle = nullptr;
Qnn_DeviceHandle_t device = nullptr;
Qnn_ContextHandle_t context = nullptr;
Qnn_GraphHandle_t graph = nullptr;
int told = 0;

// Each takes a lock of what the failed call was about.
void CallBack(const char*, QnnLog_Level_t level, uint64_t, va_list) {
  static bool within = false;  // of what fails below it is told, too
  if (level != QNN_LOG_LEVEL_ERROR || within) return;
  within = true;
  ++told;
  Qnn_GraphHandle_t found = nullptr;
  CHECK_EQ(q.graphRetrieve(context, "g", &found), 0u);
  CHECK(found == graph);
  const QnnDevice_PlatformInfo_t* info = nullptr;
  CHECK_EQ(q.deviceGetInfo(device, &info), 0u);
  Qnn_ContextBinarySize_t size = 0;
  CHECK_EQ(q.contextGetBinarySize(context, &size) & 0xFFFF,
           unsigned{QNN_CONTEXT_ERROR_NOT_FINALIZED});
  CHECK_EQ(q.logSetLogLevel(log_handle, QNN_LOG_LEVEL_ERROR), 0u);
  within = false;
}

}  // namespace

TEST(a_log_callback_may_call_back) {
  Qnn_BackendHandle_t backend = nullptr;
  CHECK_EQ(q.logCreate(CallBack, QNN_LOG_LEVEL_ERROR, &log_handle), 0u);
  CHECK_EQ(q.backendCreate(log_handle, nullptr, &backend), 0u);
  CHECK_EQ(q.deviceCreate(log_handle, nullptr, &device), 0u);
  CHECK_EQ(q.contextCreate(backend, device, nullptr, &context), 0u);
  CHECK_EQ(q.graphCreate(context, "g", nullptr, &graph), 0u);
  CHECK_EQ(told, 0);

  Qnn_GraphHandle_t second = graph;
  CHECK_EQ(q.graphCreate(context, "g", nullptr, &second) & 0xFFFF,
           unsigned{QNN_GRAPH_ERROR_INVALID_NAME});
  CHECK(second == nullptr);
  CHECK_EQ(told, 1);

  QnnContext_Config_t of_context;
  std::memset(&of_context, 0, sizeof(of_context));
  of_context.option = QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH;  // for contextCreate alone
  const QnnContext_Config_t* context_configs[] = {&of_context, nullptr};
  CHECK(q.contextSetConfig(context, context_configs) != 0);
  CHECK_EQ(told, 2);

  QnnDevice_Config_t of_device;
  std::memset(&of_device, 0, sizeof(of_device));
  of_device.option = QNN_DEVICE_CONFIG_OPTION_UNDEFINED;
  const QnnDevice_Config_t* device_configs[] = {&of_device, nullptr};
  CHECK(q.deviceSetConfig(device, device_configs) != 0);
  CHECK_EQ(told, 3);
  CHECK_EQ(q.deviceFree(device) & 0xFFFF, unsigned{QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT});
  CHECK_EQ(told, 4);

  Qnn_ContextBinarySize_t size = 0;
  CHECK(q.contextGetBinarySize(context, &size) != 0);
  CHECK_EQ(told, 5);

  // The name is free again where the call failed after it had been taken.
  QnnGraph_Config_t of_graph;
  std::memset(&of_graph, 0, sizeof(of_graph));
  of_graph.option = QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE;
  of_graph.profileHandle = graph;  // no profile
  const QnnGraph_Config_t* graph_configs[] = {&of_graph, nullptr};
  CHECK(q.graphCreate(context, "h", graph_configs, &second) != 0);
  CHECK_EQ(told, 6);
  CHECK_EQ(q.graphCreate(context, "h", nullptr, &second), 0u);

  CHECK_EQ(q.contextFree(context, nullptr), 0u);
  CHECK_EQ(q.deviceFree(device), 0u);
  CHECK_EQ(q.backendFree(backend), 0u);
  CHECK_EQ(q.logFree(log_handle), 0u);
}

CHECK_MAIN("log_callback_test")
