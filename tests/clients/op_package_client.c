/* A C client of op packages: y = relu(scale * x + shift), by an op of a package and one of
 * qti.aisw, prepared, saved, loaded again. Arguments: backend library, package library. */
#include <stdarg.h>

#include "client_checks.h"
#include "qnnrt/qnn.h"
#include "qnnrt/qnnrt_op_package.h"

enum { kElements = 6 };
static const float kInput[kElements] = {-2, -1, 0, 1, 2, 3};
static int said_hello, said_goodbye;

static void on_log(const char* format, QnnLog_Level_t level, uint64_t timestamp, va_list args) {
  char line[512];
  (void)level;
  (void)timestamp;
  vsnprintf(line, sizeof line, format, args);
  said_hello += strstr(line, "test.ops: hello") != NULL;
  said_goodbye += strstr(line, "test.ops: goodbye") != NULL;
}

static void run(Qnn_GraphHandle_t graph, Qnn_Tensor_t x, Qnn_Tensor_t y) {
  float out[kElements];
  int i;
  x.v1.clientBuf.data = (void*)kInput;
  y.v1.clientBuf.data = out;
  x.v1.clientBuf.dataSize = y.v1.clientBuf.dataSize = sizeof out;
  OK(qnn.graphExecute(graph, &x, 1, &y, 1, NULL, NULL));
  for (i = 0; i < kElements; ++i) {
    const float sum = kInput[i] * 2 + (float)(i % 3);
    EXPECT(out[i] == (sum > 0 ? sum : 0));
  }
}

int main(int argc, char** argv) {
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0, dims[2] = {2, 3}, channels[1] = {3};
  QnnInterface_GetProvidersFn_t get;
  Qnn_LogHandle_t log = NULL;
  Qnn_BackendHandle_t backend = NULL;
  Qnn_ContextHandle_t context = NULL;
  Qnn_GraphHandle_t graph = NULL;
  const QnnBackend_OperationName_t* operations = NULL;
  float shift[3] = {0, 1, 2};
  Qnn_Param_t params[2];
  Qnn_OpConfig_t scale, relu;
  Qnn_ContextBinarySize_t size = 0, written = 0;
  int (*live)(void);
  int (*initialized)(void);
  uint32_t i, found = 0;
  void *library, *package, *binary;
  if (argc != 3) FAIL("a backend library and a package");
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  package = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL || package == NULL) FAIL(dlerror());
  resolve(library, "QnnInterface_getProviders", &get, sizeof get);
  resolve(package, "test_ops_live", &live, sizeof live);
  resolve(package, "test_ops_initialized", &initialized, sizeof initialized);
  OK(get(&providers, &count));
  qnn = providers[0]->v2_32;

  OK(qnn.propertyHasCapability(QNN_PROPERTY_BACKEND_SUPPORT_OP_PACKAGE));
  OK(qnn.logCreate(on_log, QNN_LOG_LEVEL_INFO, &log));
  OK(qnn.backendCreate(log, NULL, &backend));
  REFUSED(qnn.backendRegisterOpPackage(backend, NULL, "TestOps", "CPU"), 4004);
  REFUSED(qnn.backendRegisterOpPackage(backend, argv[2], "TestOps", "HTP"), 4004);
  REFUSED(qnn.backendRegisterOpPackage(backend, "libNone.so", "TestOps", "CPU"), 4005);
  REFUSED(qnn.backendRegisterOpPackage(backend, argv[2], "NoProvider", "CPU"), 4006);
  REFUSED(qnn.backendRegisterOpPackage(backend, argv[2], "FailingInit", "CPU"), 4007);
  REFUSED(qnn.backendRegisterOpPackage(backend, argv[1], "QnnInterface_getProviders", "CPU"), 4008);
  OK(qnn.backendRegisterOpPackage(backend, argv[2], "TestOps", "CPU"));
  OK(qnn.backendRegisterOpPackage(backend, argv[2], "TestHandles", NULL));
  REFUSED(qnn.backendRegisterOpPackage(backend, argv[2], "TestOps", "CPU"), 4009);
  EXPECT(said_hello == 1 && initialized() == 2);
  OK(qnn.backendGetSupportedOperations(backend, &count, &operations));
  for (i = 0; i < count; ++i) found += strcmp(operations[i].packageName, "test.ops") == 0;
  EXPECT(found == 4);

  OK(qnn.contextCreate(backend, NULL, NULL, &context));
  OK(qnn.graphCreate(context, "net", NULL, &graph));
  Qnn_Tensor_t x = tensor_of("x", QNN_TENSOR_TYPE_APP_WRITE, QNN_DATATYPE_FLOAT_32, 2, dims);
  Qnn_Tensor_t h = tensor_of("h", QNN_TENSOR_TYPE_NATIVE, QNN_DATATYPE_FLOAT_32, 2, dims);
  Qnn_Tensor_t y = tensor_of("y", QNN_TENSOR_TYPE_APP_READ, QNN_DATATYPE_FLOAT_32, 2, dims);
  OK(qnn.tensorCreateGraphTensor(graph, &x));
  OK(qnn.tensorCreateGraphTensor(graph, &h));
  OK(qnn.tensorCreateGraphTensor(graph, &y));
  params[0] = number_param("scale", 2);
  memset(&params[1], 0, sizeof params[1]);
  params[1].paramType = QNN_PARAMTYPE_TENSOR;
  params[1].name = "shift";
  params[1].tensorParam =
      tensor_of("shift", QNN_TENSOR_TYPE_STATIC, QNN_DATATYPE_FLOAT_32, 1, channels);
  params[1].tensorParam.v1.clientBuf.data = shift;
  params[1].tensorParam.v1.clientBuf.dataSize = sizeof shift;
  scale = op_of("scale", "test.ops", "ScaleShift", &x, 1, &h);
  REFUSED(qnn.backendValidateOpConfig(backend, scale), 3110);
  scale.v1.numOfParams = 2;
  scale.v1.params = params;
  OK(qnn.backendValidateOpConfig(backend, scale));
  OK(qnn.graphAddNode(graph, scale));
  relu = op("relu", "Relu", NULL, 0, &h, 1, &y);
  OK(qnn.graphAddNode(graph, relu));
  scale.v1.packageName = "no.such";
  REFUSED(qnn.backendValidateOpConfig(backend, scale), 4005);
  OK(qnn.graphFinalize(graph, NULL, NULL));
  EXPECT(live() == 1);
  run(graph, x, y);

  OK(qnn.contextGetBinarySize(context, &size));
  binary = malloc(size);
  OK(qnn.contextGetBinary(context, binary, size, &written));
  OK(qnn.contextFree(context, NULL));
  EXPECT(live() == 0);
  OK(qnn.contextCreateFromBinary(backend, NULL, NULL, binary, written, &context, NULL));
  EXPECT(live() == 1);
  OK(qnn.graphRetrieve(context, "net", &graph));
  run(graph, x, y);
  OK(qnn.contextFree(context, NULL));

  OK(qnn.backendFree(backend));
  EXPECT(said_goodbye == 1 && initialized() == 0 && live() == 0);
  OK(qnn.backendCreate(NULL, NULL, &backend));
  REFUSED(qnn.contextCreateFromBinary(backend, NULL, NULL, binary, written, &context, NULL), 5008);
  OK(qnn.backendFree(backend));
  OK(qnn.logFree(log));
  free(binary);
  puts("ok");
  return 0;
}
