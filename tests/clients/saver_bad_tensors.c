/* Tensors that no library can read: a SAVER library refuses to record them, too.
 *
 *   saver_bad_tensors SAVER_LIBRARY
 *
 * Records into the working folder. Prints "ok" and exits 0. */
#include "client_checks.h"

int main(int argc, char** argv) {
  if (argc != 2) FAIL("SAVER_LIBRARY");
  QnnInterface_GetProvidersFn_t get_providers;
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) FAIL(dlerror());
  resolve(library, "QnnInterface_getProviders", &get_providers, sizeof get_providers);
  OK(get_providers(&providers, &count));
  qnn = providers[0]->v2_32;
  Qnn_BackendHandle_t backend = NULL;
  Qnn_ContextHandle_t context = NULL;
  Qnn_GraphHandle_t graph = NULL;
  OK(qnn.backendCreate(NULL, NULL, &backend));
  OK(qnn.contextCreate(backend, NULL, NULL, &context));
  OK(qnn.graphCreate(context, "g", NULL, &graph));

  uint32_t dims[] = {2, 3};
  Qnn_Tensor_t x = tensor_of("x", QNN_TENSOR_TYPE_APP_WRITE, QNN_DATATYPE_FLOAT_32, 2, NULL);
  REFUSED(qnn.tensorCreateGraphTensor(graph, &x), QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM);
  REFUSED(qnn.tensorCreateContextTensor(context, &x), QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM);
  x.v1.dimensions = dims;
  x.v1.rank = 1u << 31;
  REFUSED(qnn.tensorCreateGraphTensor(graph, &x), QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM);

  /* Its scales are counted by a dimension. */
  Qnn_ScaleOffset_t scales[] = {{1.0f, 0}, {1.0f, 0}};
  uint8_t blocks[] = {1, 1};
  Qnn_BlockwiseExpansion_t expansion = {0, scales, 1, 4, 0, {blocks}};
  Qnn_Tensor_t w = tensor_of("w", QNN_TENSOR_TYPE_STATIC, QNN_DATATYPE_SFIXED_POINT_8, 2, NULL);
  w.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_DEFINED;
  w.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION;
  w.v1.quantizeParams.blockwiseExpansion = &expansion;
  REFUSED(qnn.tensorCreateGraphTensor(graph, &w), QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM);
  w.v1.dimensions = dims;
  OK(qnn.tensorCreateGraphTensor(graph, &w));
  x.v1.rank = 2;
  OK(qnn.tensorCreateGraphTensor(graph, &x));
  OK(qnn.backendFree(backend));
  printf("ok\n");
  return 0;
}
