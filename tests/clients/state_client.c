/* State of a C client: one tensor that two graphs of a context read and write, in one buffer of
 * shared memory, through execution, a context binary and again.
 *
 *   state_client LIBRARY RPC_LIBRARY   a backend of qnnrt's, cpu or htp
 *   state_client LIBRARY               another maker's: the code that it refuses the tensor with
 *
 * Prints what it copied or was answered, and exits 0, or says at which line what was expected and
 * exits 1. */
#include "client_checks.h"
#include "qnnrt/qnnrt_ext.h"

enum { kRows = 16, kColumns = 8, kBytes = kRows * kColumns * 4 };

static uint64_t (*graph_copies)(Qnn_GraphHandle_t, Qnnrt_CopyRecord_t*, uint32_t, uint32_t*);

static uint32_t cache_dims[2] = {kRows, kColumns};

/* `count` rows of the cache are replaced; then all rows are summed. */
typedef struct Step {
  Qnn_GraphHandle_t graph;
  Qnn_Tensor_t inputs[3];  /* cache, at, rows */
  Qnn_Tensor_t outputs[2]; /* sum, cache */
  uint32_t at_dims[2], row_dims[2], sum_dims[2];
  int32_t at[kRows];
  float rows[kRows * kColumns], sum[kColumns];
} Step;

static void use_raw(Qnn_Tensor_t* t, void* data, size_t bytes) {
  t->v1.memType = QNN_TENSORMEMTYPE_RAW;
  t->v1.clientBuf.data = data;
  t->v1.clientBuf.dataSize = (uint32_t)bytes;
}

static void use_handle(Qnn_Tensor_t* t, Qnn_MemHandle_t handle) {
  t->v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  t->v1.memHandle = handle;
}

static void compose(Step* s, Qnn_ContextHandle_t context, const char* name, uint32_t count) {
  memset(s, 0, sizeof *s);
  s->at_dims[0] = s->row_dims[0] = count;
  s->at_dims[1] = s->sum_dims[0] = 1;
  s->row_dims[1] = s->sum_dims[1] = kColumns;
  Qnn_Tensor_t* t = s->inputs;
  t[0] = tensor_of("cache", QNN_TENSOR_TYPE_APP_READWRITE, QNN_DATATYPE_FLOAT_32, 2, cache_dims);
  t[0].v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  t[1] = tensor_of("at", QNN_TENSOR_TYPE_APP_WRITE, QNN_DATATYPE_INT_32, 2, s->at_dims);
  t[2] = tensor_of("rows", QNN_TENSOR_TYPE_APP_WRITE, QNN_DATATYPE_FLOAT_32, 2, s->row_dims);
  s->outputs[0] = tensor_of("sum", QNN_TENSOR_TYPE_APP_READ, QNN_DATATYPE_FLOAT_32, 2, s->sum_dims);
  OK(qnn.graphCreate(context, name, NULL, &s->graph));
  for (int i = 0; i < 3; ++i) OK(qnn.tensorCreateGraphTensor(s->graph, &t[i]));
  OK(qnn.tensorCreateGraphTensor(s->graph, &s->outputs[0]));
  OK(qnn.graphAddNode(s->graph, op("put", "ScatterNd", NULL, 0, t, 3, &t[0])));
  uint32_t axis[1] = {0}, one[1] = {1};
  Qnn_Param_t params[2];
  memset(params, 0, sizeof params);
  params[0].paramType = QNN_PARAMTYPE_TENSOR;
  params[0].name = "axes";
  params[0].tensorParam = tensor_of("axes", QNN_TENSOR_TYPE_STATIC, QNN_DATATYPE_UINT_32, 1, one);
  use_raw(&params[0].tensorParam, axis, sizeof axis);
  params[1].paramType = QNN_PARAMTYPE_SCALAR;
  params[1].name = "keep_dims";
  params[1].scalarParam.dataType = QNN_DATATYPE_BOOL_8;
  params[1].scalarParam.bool8Value = 1;
  OK(qnn.graphAddNode(s->graph, op("sum", "ReduceSum", params, 2, t, 1, &s->outputs[0])));
  OK(qnn.graphFinalize(s->graph, NULL, NULL));
}

static void bind(Step* s, Qnn_MemHandle_t cache, Qnn_MemHandle_t others[3]) {
  use_handle(&s->inputs[0], cache);
  use_handle(&s->inputs[1], others[0]);
  use_handle(&s->inputs[2], others[1]);
  use_handle(&s->outputs[0], others[2]);
  s->outputs[1] = s->inputs[0];
}

static uint64_t copied(Qnn_GraphHandle_t graph) {
  Qnnrt_CopyRecord_t records[8];
  uint32_t count = 0;
  uint64_t bytes = 0;
  OK(graph_copies(graph, records, 8, &count));
  for (uint32_t i = 0; i < count; ++i) bytes += records[i].bytes;
  return bytes;
}

static Qnn_MemHandle_t shared(Qnn_ContextHandle_t context, void* memory, int fd,
                              Qnn_DataType_t type, uint32_t* dims) {
  Qnn_MemDescriptor_t d;
  Qnn_MemHandle_t handle = NULL;
  (void)memory;
  memset(&d, 0, sizeof d);
  d.memShape.numDim = 2;
  d.memShape.dimSize = dims;
  d.dataType = type;
  d.memType = QNN_MEM_TYPE_ION;
  d.ionInfo.fd = fd;
  OK(qnn.memRegister(context, &d, 1, &handle));
  return handle;
}

static void* (*rpc_alloc)(int, uint32_t, int);
static int (*rpc_to_fd)(void*);
static void (*rpc_free)(void*);

/* Both graphs on one cache. */
static void run_both(Qnn_ContextHandle_t context, Step* prefill, Step* decode, float* cache) {
  Step* const steps[2] = {prefill, decode};
  Qnn_MemHandle_t all[7];
  void* memory[6];
  memset(cache, 0, kBytes);
  all[0] = shared(context, cache, rpc_to_fd(cache), QNN_DATATYPE_FLOAT_32, cache_dims);
  for (int g = 0; g < 2; ++g) {
    Step* s = steps[g];
    Qnn_Tensor_t* t[3] = {&s->inputs[1], &s->inputs[2], &s->outputs[0]};
    for (int i = 0; i < 3; ++i) {
      void* m = memory[3 * g + i] = rpc_alloc(25, 1, kBytes);
      EXPECT(m != NULL);
      all[1 + 3 * g + i] = shared(context, m, rpc_to_fd(m), t[i]->v1.dataType, t[i]->v1.dimensions);
    }
    bind(s, all[0], &all[1 + 3 * g]);
  }
  float expected = 0;
  for (int step = 0; step < 6; ++step) {
    Step* s = step == 0 ? prefill : decode;
    const int count = step == 0 ? 4 : 1, first = step == 0 ? 0 : 3 + step;
    int32_t* at = memory[step == 0 ? 0 : 3];
    float *rows = memory[step == 0 ? 1 : 4], *sum = memory[step == 0 ? 2 : 5];
    for (int i = 0; i < count; ++i) {
      at[i] = first + i;
      for (int c = 0; c < kColumns; ++c) rows[i * kColumns + c] = (float)(first + i + 1);
      expected += (float)(first + i + 1);
    }
    /* Among the inputs alone, or among the outputs, too. */
    OK(qnn.graphExecute(s->graph, s->inputs, 3, s->outputs, step % 2 == 0 ? 1 : 2, NULL, NULL));
    EXPECT(sum[0] == expected && sum[kColumns - 1] == expected);
    for (int i = 0; i < kRows; ++i)
      EXPECT(cache[i * kColumns] == (i < first + count ? (float)(i + 1) : 0.0f));
  }
  /* Elsewhere among the outputs: refused, and nothing is written. */
  use_raw(&decode->outputs[1], decode->rows, kBytes);
  *(int32_t*)memory[3] = 0;
  REFUSED(qnn.graphExecute(decode->graph, decode->inputs, 3, decode->outputs, 2, NULL, NULL),
          QNN_GRAPH_ERROR_INVALID_TENSOR);
  EXPECT(cache[0] == 1);
  printf("copied %llu\n", (unsigned long long)(copied(prefill->graph) + copied(decode->graph)));
  OK(qnn.memDeRegister(all, 7));
  for (int i = 0; i < 6; ++i) rpc_free(memory[i]);
}

static void retrieve(Step* s, Qnn_ContextHandle_t context, const char* name) {
  OK(qnn.graphRetrieve(context, name, &s->graph));
}

static Qnn_ErrorHandle_t create_alone(Qnn_BackendHandle_t backend) {
  Qnn_ContextHandle_t context;
  Qnn_GraphHandle_t graph;
  Qnn_Tensor_t t =
      tensor_of("cache", QNN_TENSOR_TYPE_APP_READWRITE, QNN_DATATYPE_FLOAT_32, 2, cache_dims);
  OK(qnn.contextCreate(backend, NULL, NULL, &context));
  OK(qnn.graphCreate(context, "g", NULL, &graph));
  Qnn_ErrorHandle_t error = qnn.tensorCreateGraphTensor(graph, &t);
  OK(qnn.contextFree(context, NULL));
  return error;
}

int main(int argc, char** argv) {
  EXPECT(argc == 2 || argc == 3);
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) FAIL(dlerror());
  QnnInterface_GetProvidersFn_t get_providers;
  resolve(library, "QnnInterface_getProviders", &get_providers, sizeof get_providers);
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  EXPECT(get_providers(&providers, &count) == QNN_SUCCESS && count >= 1);
  qnn = providers[0]->v2_32;
  Qnn_BackendHandle_t backend;
  OK(qnn.backendCreate(NULL, NULL, &backend));
  if (argc == 2) {
    printf("answered %u\n", (unsigned)QNN_GET_ERROR_CODE(create_alone(backend)));
    OK(qnn.backendFree(backend));
    return 0;
  }
  void* rpc = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (rpc == NULL) FAIL(dlerror());
  resolve(rpc, "rpcmem_alloc", &rpc_alloc, sizeof rpc_alloc);
  resolve(rpc, "rpcmem_to_fd", &rpc_to_fd, sizeof rpc_to_fd);
  resolve(rpc, "rpcmem_free", &rpc_free, sizeof rpc_free);
  resolve(library, "qnnrt_graph_copies", &graph_copies, sizeof graph_copies);

  Qnn_ContextHandle_t context;
  static Step prefill, decode;
  OK(qnn.contextCreate(backend, NULL, NULL, &context));
  compose(&prefill, context, "prefill", 4);
  compose(&decode, context, "decode", 1);
  float* cache = rpc_alloc(25, 1, kBytes);
  EXPECT(cache != NULL);
  run_both(context, &prefill, &decode, cache);

  Qnn_ContextBinarySize_t size = 0, written = 0;
  OK(qnn.contextGetBinarySize(context, &size));
  void* binary = malloc(size);
  EXPECT(binary != NULL);
  OK(qnn.contextGetBinary(context, binary, size, &written));
  OK(qnn.contextFree(context, NULL));
  OK(qnn.contextCreateFromBinary(backend, NULL, NULL, binary, written, &context, NULL));
  retrieve(&prefill, context, "prefill");
  retrieve(&decode, context, "decode");
  run_both(context, &prefill, &decode, cache);
  OK(qnn.contextFree(context, NULL));
  OK(qnn.backendFree(backend));
  free(binary);
  rpc_free(cache);
  return 0;
}
