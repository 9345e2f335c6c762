/* A C program on the QNN API: y = relu(a + b) over shared buffers, with libQnnCpu.so or any other
 * backend library, and libcdsprpc.so for the memory.
 *
 *   cc embed.c -o embed -I"$(qnnrt include-dir)" -ldl
 *   LD_LIBRARY_PATH="$(qnnrt lib-dir)" ./embed libQnnCpu.so
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "qnnrt/qnn.h"
#include "qnnrt/rpcmem.h"

enum { kElements = 8 };

static QnnInterface_ImplementationV2_32_t qnn;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "embed: %s: %s\n", what, why);
  exit(1);
}

/* Every QNN call returns 0 or a code; the backend has the message for it. */
static void check(const char* what, Qnn_ErrorHandle_t error) {
  const char* text = NULL;
  if (error == QNN_SUCCESS) return;
  if (!qnn.errorGetMessage || qnn.errorGetMessage(error, &text) != QNN_SUCCESS || !text) text = "?";
  fprintf(stderr, "embed: error %u: ", (unsigned)QNN_GET_ERROR_CODE(error));
  fail(what, text);
}

static void* symbol(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (!address) fail(name, dlerror());
  return address;
}

/* A float tensor of the graph. MEMHANDLE says that shared memory will be bound when it runs. */
static Qnn_Tensor_t tensor(const char* name, Qnn_TensorType_t type, uint32_t* dimensions) {
  Qnn_Tensor_t t = {.version = QNN_TENSOR_VERSION_1};
  t.v1.name = name;
  t.v1.type = type;
  t.v1.dataType = QNN_DATATYPE_FLOAT_32;
  t.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
  t.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
  t.v1.rank = 1;
  t.v1.dimensions = dimensions;
  t.v1.memType =
      type == QNN_TENSOR_TYPE_NATIVE ? QNN_TENSORMEMTYPE_RAW : QNN_TENSORMEMTYPE_MEMHANDLE;
  return t;
}

static void add_node(Qnn_GraphHandle_t graph, const char* type, Qnn_Tensor_t* inputs,
                     uint32_t count, Qnn_Tensor_t* output) {
  Qnn_OpConfig_t op = {.version = QNN_OPCONFIG_VERSION_1};
  op.v1.name = type;
  op.v1.packageName = "qti.aisw";
  op.v1.typeName = type;
  op.v1.numOfInputs = count;
  op.v1.inputTensors = inputs;
  op.v1.numOfOutputs = 1;
  op.v1.outputTensors = output;
  check(type, qnn.graphAddNode(graph, op));
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "libQnnCpu.so";
  void* backend_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!backend_library) fail(path, dlerror());
  void* rpc = dlopen("libcdsprpc.so", RTLD_NOW | RTLD_LOCAL);
  if (!rpc) fail("libcdsprpc.so", dlerror());
  void* (*alloc)(int, uint32_t, int) = (void* (*)(int, uint32_t, int))symbol(rpc, "rpcmem_alloc");
  int (*to_fd)(void*) = (int (*)(void*))symbol(rpc, "rpcmem_to_fd");
  void (*release)(void*) = (void (*)(void*))symbol(rpc, "rpcmem_free");

  /* The function table of the backend: its major version must be ours. */
  QnnInterface_GetProvidersFn_t get_providers =
      (QnnInterface_GetProvidersFn_t)symbol(backend_library, "QnnInterface_getProviders");
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  if (get_providers(&providers, &count) != QNN_SUCCESS || count == 0) fail(path, "no provider");
  if (providers[0]->apiVersion.coreApiVersion.major != QNN_API_VERSION_MAJOR)
    fail(path, "another major version of the QNN API");
  qnn = providers[0]->v2_32;
  printf("%s, core API %u.%u\n", providers[0]->providerName,
         providers[0]->apiVersion.coreApiVersion.major,
         providers[0]->apiVersion.coreApiVersion.minor);

  Qnn_BackendHandle_t backend = NULL;
  Qnn_ContextHandle_t context = NULL;
  Qnn_GraphHandle_t graph = NULL;
  check("backendCreate", qnn.backendCreate(NULL, NULL, &backend));
  check("contextCreate", qnn.contextCreate(backend, NULL, NULL, &context));
  check("graphCreate", qnn.graphCreate(context, "add_relu", NULL, &graph));

  uint32_t dimensions[1] = {kElements};
  Qnn_Tensor_t in[2] = {tensor("a", QNN_TENSOR_TYPE_APP_WRITE, dimensions),
                        tensor("b", QNN_TENSOR_TYPE_APP_WRITE, dimensions)};
  Qnn_Tensor_t sum = tensor("sum", QNN_TENSOR_TYPE_NATIVE, dimensions);
  Qnn_Tensor_t out = tensor("y", QNN_TENSOR_TYPE_APP_READ, dimensions);
  Qnn_Tensor_t* all[] = {&in[0], &in[1], &sum, &out};
  for (int i = 0; i < 4; ++i)
    check(all[i]->v1.name, qnn.tensorCreateGraphTensor(graph, all[i])); /* fills in the id */
  add_node(graph, "ElementWiseAdd", in, 2, &sum);
  add_node(graph, "Relu", &sum, 1, &out);
  check("graphFinalize", qnn.graphFinalize(graph, NULL, NULL));

  /* One shared buffer for each input and output, registered once. */
  Qnn_Tensor_t* bound[] = {&in[0], &in[1], &out};
  float* memory[3];
  Qnn_MemHandle_t handles[3];
  for (int i = 0; i < 3; ++i) {
    memory[i] = alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, kElements * sizeof(float));
    if (!memory[i]) fail("rpcmem_alloc", "no memory");
    Qnn_MemDescriptor_t descriptor = {.memShape = {1, dimensions, NULL},
                                      .dataType = QNN_DATATYPE_FLOAT_32,
                                      .memType = QNN_MEM_TYPE_ION,
                                      .ionInfo = {to_fd(memory[i])}};
    check("memRegister", qnn.memRegister(context, &descriptor, 1, &handles[i]));
    bound[i]->v1.memHandle = handles[i];
  }

  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kElements; ++i) {
      memory[0][i] = (float)i;
      memory[1][i] = (float)(-2 * round);
    }
    check("graphExecute", qnn.graphExecute(graph, in, 2, &out, 1, NULL, NULL));
    printf("y =");
    for (int i = 0; i < kElements; ++i) printf(" %g", memory[2][i]);
    printf("\n");
  }

  /* In this order: deregister, free the memory, then context and backend. */
  check("memDeRegister", qnn.memDeRegister(handles, 3));
  for (int i = 0; i < 3; ++i) release(memory[i]);
  check("contextFree", qnn.contextFree(context, NULL));
  check("backendFree", qnn.backendFree(backend));
  return 0;
}
