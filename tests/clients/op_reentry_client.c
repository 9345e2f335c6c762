/* An op of the program's own that calls the API from each of its functions: for another context it
 * may, for the one it serves each call is refused, since it would wait for the function.
 *
 *   op_reentry_client LIBRARY       a backend of qnnrt's, cpu or htp
 *
 * Prints "ok", or says at which line what was expected and exits 1. */
#include <unistd.h>

#include "client_checks.h"
#include "qnnrt/qnnrt_op_package.h"

enum { kCount = 4 };

static Qnn_BackendHandle_t backend;
static Qnn_ContextHandle_t context;
static Qnn_GraphHandle_t graph;
static uint32_t dims[1] = {kCount};
static const char* names[] = {"Copy"};
static QnnOpPackage_Info_t info;
static int validated, created, executed, freed;

static void call_the_api(void) {
  Qnn_Tensor_t x = tensor_of("late", QNN_TENSOR_TYPE_NATIVE, QNN_DATATYPE_FLOAT_32, 1, dims);
  Qnn_GraphHandle_t other_graph;
  Qnn_ContextHandle_t other;
  Qnn_ContextBinarySize_t size;
  char byte;
  REFUSED(qnn.contextFree(context, NULL), 1005);
  REFUSED(qnn.contextSetConfig(context, NULL), 1005);
  REFUSED(qnn.contextGetBinarySize(context, &size), 1005);
  REFUSED(qnn.contextGetBinary(context, &byte, 1, &size), 1005);
  REFUSED(qnn.contextFinalize(context, NULL), 1005);
  REFUSED(qnn.graphCreate(context, "inner", NULL, &other_graph), 1005);
  REFUSED(qnn.graphRetrieve(context, "net", &other_graph), 1005);
  REFUSED(qnn.tensorCreateGraphTensor(graph, &x), 1005);
  REFUSED(qnn.graphAddNode(graph, op("late", "Relu", NULL, 0, &x, 1, &x)), 1005);
  REFUSED(qnn.graphSetConfig(graph, NULL), 1005);
  REFUSED(qnn.graphFinalize(graph, NULL, NULL), 1005);
  REFUSED(qnn.graphExecute(graph, &x, 1, &x, 1, NULL, NULL), 1005);
  OK(qnn.contextCreate(backend, NULL, NULL, &other));
  OK(qnn.graphCreate(other, "net", NULL, &other_graph));
  OK(qnn.tensorCreateGraphTensor(other_graph, &x));
  OK(qnn.contextFree(other, NULL));
}

static Qnn_ErrorHandle_t init(const Qnnrt_OpHost_t* host) { return host == NULL; }

static Qnn_ErrorHandle_t get_info(const QnnOpPackage_Info_t** out) {
  info.packageName = "reentry.ops";
  info.operationNames = names;
  info.numOperations = 1;
  *out = &info;
  return QNN_SUCCESS;
}

static Qnn_ErrorHandle_t validate(const Qnn_OpConfig_t* config) {
  if (config->v1.numOfInputs != 1) return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  if (++validated == 2) call_the_api(); /* the first is of no context */
  return QNN_SUCCESS;
}

static Qnn_ErrorHandle_t execute(void* state, const Qnnrt_OpExecution_t* e) {
  if (state == NULL) return QNN_OP_PACKAGE_ERROR_GENERAL;
  ++executed;
  call_the_api();
  memcpy(e->outputs[0], e->inputs[0], kCount * sizeof(float));
  return QNN_SUCCESS;
}

static Qnn_ErrorHandle_t create(const Qnn_OpConfig_t* config, Qnnrt_OpImpl_t* impl) {
  if (config->v1.numOfInputs != 1) return QNN_OP_PACKAGE_ERROR_GENERAL;
  ++created;
  call_the_api();
  impl->state = &created;
  impl->execute = execute;
  return QNN_SUCCESS;
}

static Qnn_ErrorHandle_t free_impl(Qnnrt_OpImpl_t* impl) {
  Qnn_Tensor_t x = tensor_of("later", QNN_TENSOR_TYPE_NATIVE, QNN_DATATYPE_FLOAT_32, 1, dims);
  freed += impl->state == &created;
  EXPECT(qnn.contextFree(context, NULL) != QNN_SUCCESS); /* which is being freed */
  EXPECT(qnn.tensorCreateGraphTensor(graph, &x) != QNN_SUCCESS);
  return QNN_SUCCESS;
}

int main(int argc, char** argv) {
  uint64_t (*register_ops)(Qnn_BackendHandle_t, const QnnOpPackage_Interface_t*);
  QnnInterface_GetProvidersFn_t get_providers;
  const QnnInterface_t** providers = NULL;
  QnnOpPackage_Interface_t package;
  float in[kCount] = {1, -2, 3, -4}, out[kCount] = {0};
  uint32_t count = 0;
  if (argc != 2) FAIL("a library");
  alarm(120); /* a call that waits for itself ends here */
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) FAIL(dlerror());
  resolve(library, "QnnInterface_getProviders", &get_providers, sizeof get_providers);
  resolve(library, "qnnrt_backend_register_ops", &register_ops, sizeof register_ops);
  OK(get_providers(&providers, &count));
  EXPECT(count == 1);
  qnn = providers[0]->v2_32;

  memset(&package, 0, sizeof package);
  package.interfaceVersion.major = 1;
  package.v1_4.init = (QnnOpPackage_InitFn_t)init;
  package.v1_4.getInfo = (QnnOpPackage_GetInfoFn_t)get_info;
  package.v1_4.validateOpConfig = (QnnOpPackage_ValidateOpConfigFn_t)validate;
  package.v1_4.createOpImpl = (QnnOpPackage_CreateOpImplFn_t)create;
  package.v1_4.freeOpImpl = (QnnOpPackage_FreeOpImplFn_t)free_impl;
  OK(qnn.backendCreate(NULL, NULL, &backend));
  OK(register_ops(backend, &package));
  OK(qnn.contextCreate(backend, NULL, NULL, &context));
  OK(qnn.graphCreate(context, "net", NULL, &graph));
  Qnn_Tensor_t x = tensor_of("x", QNN_TENSOR_TYPE_APP_WRITE, QNN_DATATYPE_FLOAT_32, 1, dims);
  Qnn_Tensor_t y = tensor_of("y", QNN_TENSOR_TYPE_APP_READ, QNN_DATATYPE_FLOAT_32, 1, dims);
  OK(qnn.tensorCreateGraphTensor(graph, &x));
  OK(qnn.tensorCreateGraphTensor(graph, &y));
  Qnn_OpConfig_t copy = op_of("copy", "reentry.ops", "Copy", &x, 1, &y);
  OK(qnn.backendValidateOpConfig(backend, copy));
  OK(qnn.graphAddNode(graph, copy));
  OK(qnn.graphFinalize(graph, NULL, NULL));
  x.v1.clientBuf.data = in;
  y.v1.clientBuf.data = out;
  x.v1.clientBuf.dataSize = y.v1.clientBuf.dataSize = sizeof in;
  OK(qnn.graphExecute(graph, &x, 1, &y, 1, NULL, NULL));
  OK(qnn.graphExecute(graph, &x, 1, &y, 1, NULL, NULL));
  EXPECT(memcmp(in, out, sizeof in) == 0);
  OK(qnn.contextFree(context, NULL));
  OK(qnn.backendFree(backend));
  EXPECT(validated >= 2 && created == 1 && executed == 2 && freed == 1);
  puts("ok");
  return 0;
}
