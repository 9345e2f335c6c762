/* A C program that is linked with qnnrt: y = relu(x) on the backend whose name is given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "QNN/QnnFunctions.h"
#include "QNN/QnnInterface.h"
#include "qnnrt/rpcmem.h"

enum { kElements = 6 };

static void check(const char* what, Qnn_ErrorHandle_t error) {
  const char* text = NULL;
  if (error == QNN_SUCCESS) return;
  if (QnnError_getMessage(error, &text) != QNN_SUCCESS) text = "?";
  fprintf(stderr, "%s: error %u: %s\n", what, (unsigned)QNN_GET_ERROR_CODE(error), text);
  exit(1);
}

/* The library lists all its backends: CPU_QTI_AISW, HTP_QTI_AISW, LPAI_QTI_AISW. */
static void choose(const char* name) {
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  check("getProviders", QnnInterface_getProviders(&providers, &count));
  for (uint32_t i = 0; i < count; ++i) {
    if (strcmp(providers[i]->providerName, name) != 0) continue;
    check("the interface", qnnrt_use_interface(providers[i]));
    return;
  }
  fprintf(stderr, "there is no backend %s\n", name);
  exit(1);
}

int main(int argc, char** argv) {
  choose(argc > 1 ? argv[1] : "CPU_QTI_AISW");
  Qnn_BackendHandle_t backend = NULL;
  Qnn_ContextHandle_t context = NULL;
  Qnn_GraphHandle_t graph = NULL;
  check("QnnBackend_create", QnnBackend_create(NULL, NULL, &backend));
  check("QnnContext_create", QnnContext_create(backend, NULL, NULL, &context));
  check("QnnGraph_create", QnnGraph_create(context, "relu", NULL, &graph));

  uint32_t dimensions[1] = {kElements};
  Qnn_Tensor_t tensors[2] = {QNN_TENSOR_INIT, QNN_TENSOR_INIT};
  for (int i = 0; i < 2; ++i) {
    tensors[i].v1.name = i == 0 ? "x" : "y";
    tensors[i].v1.type = i == 0 ? QNN_TENSOR_TYPE_APP_WRITE : QNN_TENSOR_TYPE_APP_READ;
    tensors[i].v1.dataType = QNN_DATATYPE_FLOAT_32;
    tensors[i].v1.rank = 1;
    tensors[i].v1.dimensions = dimensions;
    tensors[i].v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
    tensors[i].v1.memHandle = NULL;
    check("QnnTensor_createGraphTensor", QnnTensor_createGraphTensor(graph, &tensors[i]));
  }
  Qnn_OpConfig_t op = QNN_OPCONFIG_INIT;
  op.v1.name = "relu";
  op.v1.packageName = "qti.aisw";
  op.v1.typeName = "Relu";
  op.v1.numOfInputs = 1;
  op.v1.inputTensors = &tensors[0];
  op.v1.numOfOutputs = 1;
  op.v1.outputTensors = &tensors[1];
  check("QnnGraph_addNode", QnnGraph_addNode(graph, op));
  check("QnnGraph_finalize", QnnGraph_finalize(graph, NULL, NULL));

  float* memory[2];
  Qnn_MemHandle_t handles[2];
  for (int i = 0; i < 2; ++i) {
    memory[i] = (float*)rpcmem_alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS,
                                     kElements * sizeof(float));
    if (!memory[i]) check("rpcmem_alloc", QNN_COMMON_ERROR_MEM_ALLOC);
    Qnn_MemDescriptor_t descriptor = QNN_MEM_DESCRIPTOR_INIT;
    descriptor.memShape.numDim = 1;
    descriptor.memShape.dimSize = dimensions;
    descriptor.dataType = QNN_DATATYPE_FLOAT_32;
    descriptor.memType = QNN_MEM_TYPE_ION;
    descriptor.ionInfo.fd = rpcmem_to_fd(memory[i]);
    check("QnnMem_register", QnnMem_register(context, &descriptor, 1, &handles[i]));
    tensors[i].v1.memHandle = handles[i];
  }
  for (int i = 0; i < kElements; ++i) memory[0][i] = (float)(i - 3);
  check("QnnGraph_execute", QnnGraph_execute(graph, &tensors[0], 1, &tensors[1], 1, NULL, NULL));
  printf("y =");
  for (int i = 0; i < kElements; ++i) printf(" %g", (double)memory[1][i]);
  printf("\n");

  check("QnnMem_deRegister", QnnMem_deRegister(handles, 2));
  for (int i = 0; i < 2; ++i) rpcmem_free(memory[i]);
  check("QnnContext_free", QnnContext_free(context, NULL));
  check("QnnBackend_free", QnnBackend_free(backend));
  return 0;
}
