/* The API as functions: y = relu(x), in the words of a tutorial. The backend's library is argv[1].
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "HTP/QnnHtpMem.h"
#include "QnnFunctions.h"
#include "QnnInterface.h"
#include "QnnMem.h"
#include "System/QnnSystemInterface.h"

#define CHECK(call)                                                             \
  do {                                                                          \
    const Qnn_ErrorHandle_t error_ = (call);                                    \
    if (error_ != QNN_SUCCESS) {                                                \
      fprintf(stderr, "%s: %u\n", #call, (unsigned)QNN_GET_ERROR_CODE(error_)); \
      return 1;                                                                 \
    }                                                                           \
  } while (0)
#define EXPECT(condition)                      \
  do {                                         \
    if (!(condition)) {                        \
      fprintf(stderr, "not %s\n", #condition); \
      return 1;                                \
    }                                          \
  } while (0)

enum { kElements = 4 };

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  Qnn_BackendHandle_t backend = NULL;
  EXPECT(QnnBackend_create(NULL, NULL, &backend) == QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);

  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  EXPECT(library != NULL);
  QnnInterface_GetProvidersFn_t get_providers;
  *(void**)&get_providers = dlsym(library, "QnnInterface_getProviders");
  EXPECT(get_providers != NULL);
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  CHECK(get_providers(&providers, &count));
  EXPECT(count == 1);

  QnnInterface_t other = *providers[0];
  other.apiVersion.coreApiVersion.major += 1;
  EXPECT(qnnrt_use_interface(&other) == QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES);
  other = *providers[0];
  other.apiVersion.coreApiVersion.minor = QNN_API_VERSION_MINOR - 1;
  EXPECT(qnnrt_use_interface(&other) == QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES);
  other = *providers[0];
  other.QNN_INTERFACE_VER_NAME.contextFinalize = NULL;
  CHECK(qnnrt_use_interface(&other));
  EXPECT(QnnContext_finalize(NULL, NULL) == QNN_COMMON_ERROR_NOT_SUPPORTED);
  CHECK(qnnrt_use_interface(providers[0]));

  Qnn_ApiVersion_t version = QNN_API_VERSION_INIT;
  CHECK(QnnBackend_getApiVersion(&version));
  EXPECT(version.coreApiVersion.major == QNN_API_VERSION_MAJOR);
  Qnn_ContextHandle_t context = NULL;
  Qnn_GraphHandle_t graph = NULL;
  CHECK(QnnBackend_create(NULL, NULL, &backend));
  CHECK(QnnContext_create(backend, NULL, NULL, &context));
  CHECK(QnnGraph_create(context, "relu", NULL, &graph));

  uint32_t dimensions[] = {kElements};
  Qnn_Tensor_t x = QNN_TENSOR_INIT;
  QNN_TENSOR_SET_NAME(x, "x");
  QNN_TENSOR_SET_TYPE(x, QNN_TENSOR_TYPE_APP_WRITE);
  QNN_TENSOR_SET_DATA_TYPE(x, QNN_DATATYPE_FLOAT_32);
  QNN_TENSOR_SET_RANK(x, 1);
  QNN_TENSOR_SET_DIMENSIONS(x, dimensions);
  Qnn_Tensor_t y = x;
  QNN_TENSOR_SET_NAME(y, "y");
  QNN_TENSOR_SET_TYPE(y, QNN_TENSOR_TYPE_APP_READ);
  CHECK(QnnTensor_createGraphTensor(graph, &x));
  CHECK(QnnTensor_createGraphTensor(graph, &y));
  Qnn_OpConfig_t op = QNN_OPCONFIG_INIT;
  QNN_OP_VER_PTR(op)->name = "relu";
  QNN_OP_CFG_SET_PACKAGE_NAME(op, "qti.aisw");
  QNN_OP_CFG_SET_TYPE_NAME(op, "Relu");
  QNN_OP_CFG_SET_NUM_INPUTS(op, 1);
  QNN_OP_CFG_SET_INPUTS(op, &x);
  QNN_OP_CFG_SET_NUM_OUTPUTS(op, 1);
  QNN_OP_CFG_SET_OUTPUTS(op, &y);
  CHECK(QnnBackend_validateOpConfig(backend, op));
  CHECK(QnnGraph_addNode(graph, op));
  CHECK(QnnGraph_finalize(graph, NULL, NULL));

  float in[kElements] = {-2, -1, 1, 2}, out[kElements] = {9, 9, 9, 9};
  const float expected[kElements] = {0, 0, 1, 2};
  Qnn_ClientBuffer_t buffer = QNN_CLIENT_BUFFER_INIT;
  buffer.dataSize = sizeof(in);
  buffer.data = in;
  QNN_TENSOR_SET_CLIENT_BUF(x, buffer);
  buffer.data = out;
  QNN_TENSOR_SET_CLIENT_BUF(y, buffer);
  CHECK(QnnGraph_execute(graph, &x, 1, &y, 1, NULL, NULL));
  EXPECT(memcmp(out, expected, sizeof(out)) == 0);

  /* A descriptor whose fields are not set names no memory. */
  Qnn_MemDescriptor_t descriptor = QNN_MEM_DESCRIPTOR_INIT;
  Qnn_MemHandle_t handle = NULL;
  EXPECT(descriptor.ionInfo.fd == QNN_INVALID_FD);
  EXPECT(QnnMem_register(context, &descriptor, 1, &handle) != QNN_SUCCESS);
  EXPECT(QnnMem_deregister(&handle, 1) != QNN_SUCCESS);

  CHECK(QnnContext_free(context, NULL));
  CHECK(QnnBackend_free(backend));
  CHECK(qnnrt_use_interface(NULL));
  EXPECT(QnnBackend_free(backend) == QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
  EXPECT(QnnSystemContext_create(NULL) == QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
  puts("done");
  return 0;
}
