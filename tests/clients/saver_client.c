/* What a SAVER library answers to each kind of call: a line "CALL CODE" each. */
#include <dlfcn.h>
#include <stdio.h>

#include "QnnInterface.h"
#include "QnnTypes.h"
#include "Saver/QnnSaver.h"

#define SAY(call)                                                          \
  do {                                                                     \
    const Qnn_ErrorHandle_t code_ = qnn.call;                              \
    int end_ = 0;                                                          \
    while (#call[end_] != '(') ++end_;                                     \
    printf("%.*s %u\n", end_, #call, (unsigned)QNN_GET_ERROR_CODE(code_)); \
  } while (0)

static QNN_INTERFACE_VER_TYPE qnn;

static void log_nothing(const char* format, QnnLog_Level_t level, uint64_t time, va_list args) {
  (void)format;
  (void)level;
  (void)time;
  (void)args;
}

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  Qnn_ErrorHandle_t (*initialize)(const QnnSaver_Config_t**);
  QnnInterface_GetProvidersFn_t get_providers;
  if (!library) return 1;
  *(void**)&get_providers = dlsym(library, "QnnInterface_getProviders");
  *(void**)&initialize = dlsym(library, "QnnSaver_initialize");
  const QnnInterface_t** list = NULL;
  uint32_t count = 0;
  if (!get_providers || !initialize || get_providers(&list, &count) != QNN_SUCCESS) return 1;
  printf("provider %u %s\n", list[0]->backendId, list[0]->providerName);
  qnn = list[0]->QNN_INTERFACE_VER_NAME;

  QnnSaver_Config_t directory = QNN_SAVER_CONFIG_INIT;
  directory.option = QNN_SAVER_CONFIG_OPTION_OUTPUT_DIRECTORY;
  directory.outputDirectory = "chosen";
  const QnnSaver_Config_t* configs[] = {&directory, NULL};
  printf("initialize %u\n", (unsigned)initialize(configs));
  printf("initialize %u\n", (unsigned)initialize(configs));

  Qnn_LogHandle_t log = NULL;
  Qnn_BackendHandle_t backend = NULL, second = NULL;
  Qnn_DeviceHandle_t device = NULL;
  Qnn_ContextHandle_t context = NULL, other = NULL;
  Qnn_GraphHandle_t graph = NULL, retrieved = NULL;
  Qnn_ApiVersion_t version;
  const char* text = NULL;
  SAY(logCreate(log_nothing, QNN_LOG_LEVEL_ERROR, &log));
  SAY(backendGetBuildId(&text));
  SAY(backendGetApiVersion(&version));
  SAY(propertyHasCapability(QNN_PROPERTY_GROUP_GRAPH));
  SAY(backendCreate(log, NULL, &backend));
  SAY(backendCreate(log, NULL, &second));
  uint32_t number = 0;
  const QnnBackend_OperationName_t* operations = NULL;
  SAY(backendGetSupportedOperations(backend, &number, &operations));
  const QnnDevice_PlatformInfo_t* info = NULL;
  QnnDevice_Infrastructure_t infrastructure = NULL;
  SAY(deviceGetPlatformInfo(log, &info));
  SAY(deviceCreate(log, NULL, &device));
  SAY(deviceGetInfrastructure(&infrastructure));
  SAY(deviceGetInfo(device, &info));
  SAY(contextCreate((void*)0x123456, NULL, NULL, &other));
  SAY(contextCreate(backend, device, NULL, &context));
  SAY(graphCreate(context, "g", NULL, &graph));
  SAY(graphCreate(context, "g", NULL, &retrieved));
  SAY(graphRetrieve(context, "g", &retrieved));
  SAY(graphRetrieve(context, "of a binary", &retrieved));

  uint32_t dimensions[] = {2, 3};
  Qnn_Tensor_t x = QNN_TENSOR_INIT;
  x.v1.name = "x";
  x.v1.type = QNN_TENSOR_TYPE_APP_WRITE;
  x.v1.dataType = QNN_DATATYPE_FLOAT_32;
  x.v1.rank = 2;
  x.v1.dimensions = dimensions;
  Qnn_Tensor_t y = x;
  y.v1.name = "y";
  y.v1.type = QNN_TENSOR_TYPE_APP_READ;
  SAY(tensorCreateGraphTensor(graph, &x));
  SAY(tensorCreateGraphTensor(graph, &y));
  SAY(tensorCreateGraphTensor(NULL, &y));
  printf("ids %u %u\n", x.v1.id, y.v1.id);
  Qnn_OpConfig_t op = QNN_OPCONFIG_INIT;
  op.v1.name = "relu";
  op.v1.packageName = "qti.aisw";
  op.v1.typeName = "Nonsense";
  op.v1.numOfInputs = 1;
  op.v1.inputTensors = &x;
  op.v1.numOfOutputs = 1;
  op.v1.outputTensors = &y;
  SAY(backendValidateOpConfig(backend, op));
  op.v1.typeName = "Relu";
  SAY(backendValidateOpConfig(backend, op));
  SAY(graphAddNode(graph, op));
  SAY(graphFinalize(graph, NULL, NULL));
  float in[6] = {1, 2, 3, 4, 5, 6}, out[6] = {9, 9, 9, 9, 9, 9};
  x.v1.clientBuf.data = in;
  x.v1.clientBuf.dataSize = sizeof(in);
  y.v1.clientBuf.data = out;
  y.v1.clientBuf.dataSize = sizeof(out);
  SAY(graphExecute(graph, &x, 1, &y, 1, NULL, NULL));
  printf("out %g\n", (double)out[0]);
  SAY(graphExecuteAsync(graph, &x, 1, &y, 1, NULL, NULL, NULL, NULL));

  Qnn_ContextBinarySize_t size = 0;
  char binary[64] = {0};
  SAY(contextGetBinarySize(context, &size));
  SAY(contextGetBinary(context, binary, sizeof(binary), &size));
  SAY(contextCreateFromBinary(backend, NULL, NULL, binary, sizeof(binary), &other, NULL));
  Qnn_ProfileHandle_t profile = NULL;
  const QnnProfile_EventId_t* events = NULL;
  SAY(profileCreate(backend, QNN_PROFILE_LEVEL_BASIC, &profile));
  SAY(profileGetEvents(profile, &events, &number));
  SAY(profileFree(profile));
  Qnn_SignalHandle_t signal = NULL;
  SAY(signalCreate(backend, NULL, &signal));
  Qnn_MemDescriptor_t descriptor = QNN_MEM_DESCRIPTOR_INIT;
  Qnn_MemHandle_t handle = NULL;
  SAY(memRegister(context, &descriptor, 1, &handle));
  SAY(memDeRegister(&handle, 1));
  SAY(backendRegisterOpPackage(backend, "package.so", "provider", "CPU"));
  SAY(contextFree(context, NULL));
  SAY(contextFree((void*)0x123456, NULL));
  SAY(deviceFree(device));
  SAY(backendFree(backend));
  SAY(backendFree(backend));
  SAY(logFree(log));
  printf("initialize %u\n", (unsigned)initialize(configs));
  return 0;
}
