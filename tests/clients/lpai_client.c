/* A C11 client of the lpai backend, built on the installed headers alone, in the order that the
 * pages "QNN LPAI memory management" and "memory allocations" give:
 *
 *   lpai_client BACKEND_LIBRARY
 *
 *   1  query the alignment of the backend         5  give both pools to the graph
 *   2  query the size of the scratch memory       6  finalize
 *   3  query the size of the persistent memory    7  bring buffers for inputs and outputs, or not
 *   4  allocate aligned memory                    8  execute
 *
 * First on a graph that is composed here, then on the same graph out of a context binary, which is
 * finalized after it was retrieved; then two graphs that update one state, which copy nothing.
 * Prints "ok" and exits 0, or says at which line what was expected and exits 1. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_checks.h"
#include "qnnrt/qnn.h"
#include "qnnrt/qnn_lpai.h"
#include "qnnrt/qnnrt_ext.h"

enum { kWidth = 40, kSteps = 5, kRows = 8, kColumns = 16 };

static uint64_t (*io_address)(Qnn_GraphHandle_t, uint32_t, void**);
static uint64_t (*graph_copies)(Qnn_GraphHandle_t, Qnnrt_CopyRecord_t*, uint32_t, uint32_t*);

static void open_backend(const char* path) {
  void* library = open_only_backend(path, QNN_BACKEND_ID_LPAI, "LPAI_QTI_AISW");
  resolve(library, "qnnrt_graph_io_address", &io_address, sizeof io_address);
  resolve(library, "qnnrt_graph_copies", &graph_copies, sizeof graph_copies);
}

/* ---- step 1 */

static QnnLpaiBackend_BufferAlignmentReq_t query_alignment(Qnn_BackendHandle_t backend) {
  QnnLpaiBackend_BufferAlignmentReq_t req = {0, 0};
  QnnLpaiBackend_CustomProperty_t custom;
  QnnBackend_Property_t property;
  QnnBackend_Property_t* pointers[2] = {0};
  custom.option = QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ;
  custom.property = &req;
  property.option = QNN_BACKEND_PROPERTY_OPTION_CUSTOM;
  property.customProperty = &custom;
  pointers[0] = &property;
  OK(qnn.backendGetProperty(backend, pointers));
  return req;
}

/* ---- steps 2 and 3 */

static uint32_t query_size(Qnn_GraphHandle_t graph, uint32_t option) {
  uint32_t size = UINT32_MAX;
  QnnLpaiGraph_CustomProperty_t custom;
  QnnGraph_Property_t property;
  QnnGraph_Property_t* pointers[2] = {0};
  custom.option = option;
  custom.property = &size;
  property.option = QNN_GRAPH_PROPERTY_OPTION_CUSTOM;
  property.customProperty = &custom;
  pointers[0] = &property;
  OK(qnn.graphGetProperty(graph, pointers));
  return size;
}

/* ---- step 4: plain malloc; the pointer to free lies just below the aligned address */

static void* allocate(QnnLpaiBackend_BufferAlignmentReq_t req, size_t size) {
  const size_t start = req.startAddrAlignment, step = req.sizeAlignment;
  const size_t rounded = (size + step - 1) / step * step;
  unsigned char* raw = malloc(rounded + start + sizeof(void*));
  if (raw == NULL) FAIL("memory");
  uintptr_t aligned = ((uintptr_t)raw + sizeof(void*) + start - 1) / start * start;
  memcpy((unsigned char*)aligned - sizeof(void*), &raw, sizeof raw);
  return (void*)aligned;
}

static void release(void* aligned) {
  void* raw;
  if (aligned == NULL) return;
  memcpy(&raw, (unsigned char*)aligned - sizeof(void*), sizeof raw);
  free(raw);
}

/* ---- step 5 */

static Qnn_ErrorHandle_t configure(Qnn_GraphHandle_t graph, uint32_t option, void* config) {
  QnnLpaiGraph_CustomConfig_t custom;
  QnnGraph_Config_t entry;
  const QnnGraph_Config_t* pointers[2] = {0};
  custom.option = option;
  custom.config = config;
  entry.option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
  entry.customConfig = &custom;
  pointers[0] = &entry;
  return qnn.graphSetConfig(graph, pointers);
}

static Qnn_ErrorHandle_t give(Qnn_GraphHandle_t graph, uint32_t option, void* address,
                              uint32_t size) {
  QnnLpaiGraph_Mem_t memory;
  memory.memType = QNN_LPAI_MEM_TYPE_DDR;
  memory.size = size;
  memory.addr = address;
  return configure(graph, option, &memory);
}

typedef struct {
  void *scratch, *persistent;
  uint32_t scratch_size, persistent_size;
} Pools;

static Pools give_pools(Qnn_GraphHandle_t graph, QnnLpaiBackend_BufferAlignmentReq_t req) {
  Pools pools = {0};
  pools.scratch_size = query_size(graph, QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE);
  pools.persistent_size = query_size(graph, QNN_LPAI_GRAPH_GET_PROP_PERSISTENT_MEM_SIZE);
  EXPECT(pools.scratch_size != 0 && pools.scratch_size % req.sizeAlignment == 0);
  EXPECT(pools.persistent_size % req.sizeAlignment == 0);
  pools.scratch = allocate(req, pools.scratch_size);
  OK(give(graph, QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM, pools.scratch, pools.scratch_size));
  if (pools.persistent_size != 0) {
    pools.persistent = allocate(req, pools.persistent_size);
    OK(give(graph, QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM, pools.persistent, pools.persistent_size));
  }
  return pools;
}

/* ---- the graph: y = min(max(x + s, 20), 200), on bytes that stand for themselves */

static uint32_t dimensions[2] = {1, kWidth};
static uint8_t summand[kWidth];

static Qnn_Tensor_t tensor(const char* name, Qnn_TensorType_t type) {
  return bytes_tensor(name, type, 2, dimensions);
}

static uint8_t expected(uint8_t x, int i) {
  int sum = x + summand[i];
  return (uint8_t)(sum < 20 ? 20 : sum > 200 ? 200 : sum);
}

static void add_node(Qnn_GraphHandle_t graph, const char* type, Qnn_Param_t* params,
                     uint32_t num_params, Qnn_Tensor_t* inputs, uint32_t num_inputs,
                     Qnn_Tensor_t* output) {
  OK(qnn.graphAddNode(graph, op(type, type, params, num_params, inputs, num_inputs, output)));
}

static void compose(Qnn_GraphHandle_t graph, Qnn_Tensor_t* x, Qnn_Tensor_t* y) {
  Qnn_Tensor_t s = tensor("s", QNN_TENSOR_TYPE_STATIC), sum = tensor("sum", QNN_TENSOR_TYPE_NATIVE);
  Qnn_Param_t limits[2];
  Qnn_Tensor_t inputs[2];
  for (int i = 0; i < kWidth; ++i) summand[i] = (uint8_t)(i * 37 % 101);
  s.v1.clientBuf.data = summand;
  s.v1.clientBuf.dataSize = sizeof summand;
  *x = tensor("x", QNN_TENSOR_TYPE_APP_WRITE);
  *y = tensor("y", QNN_TENSOR_TYPE_APP_READ);
  OK(qnn.tensorCreateGraphTensor(graph, x));
  OK(qnn.tensorCreateGraphTensor(graph, &s));
  OK(qnn.tensorCreateGraphTensor(graph, &sum));
  OK(qnn.tensorCreateGraphTensor(graph, y));
  inputs[0] = *x;
  inputs[1] = s;
  add_node(graph, "ElementWiseAdd", NULL, 0, inputs, 2, &sum);
  limits[0] = number_param("min_value", 20.0f);
  limits[1] = number_param("max_value", 200.0f);
  add_node(graph, "ReluMinMax", limits, 2, &sum, 1, y);
}

/* ---- steps 7 and 8 */

static void fill(uint8_t* x, int step) {
  for (int i = 0; i < kWidth; ++i) x[i] = (uint8_t)(i * 11 + step * 53);
}

static void check(const uint8_t* y, int step) {
  uint8_t x[kWidth];
  fill(x, step);
  for (int i = 0; i < kWidth; ++i) EXPECT(y[i] == expected(x[i], i));
}

/* No buffers: the tensors lie in the scratch memory. */
static void execute_in_scratch(Qnn_GraphHandle_t graph, Qnn_Tensor_t x, Qnn_Tensor_t y,
                               const Pools* pools, int step) {
  void* address = NULL;
  const unsigned char* begin = pools->scratch;
  OK(io_address(graph, x.v1.id, &address));
  EXPECT((unsigned char*)address >= begin &&
         (unsigned char*)address + kWidth <= begin + pools->scratch_size);
  fill(address, step);
  OK(qnn.graphExecute(graph, NULL, 0, NULL, 0, NULL, NULL));
  OK(io_address(graph, y.v1.id, &address));
  check(address, step);
  /* The same with tensors that have no address: the output's is filled in. */
  x.v1.clientBuf.data = y.v1.clientBuf.data = NULL;
  x.v1.clientBuf.dataSize = y.v1.clientBuf.dataSize = 0;
  OK(io_address(graph, x.v1.id, &address));
  fill(address, step + 1);
  OK(qnn.graphExecute(graph, &x, 1, &y, 1, NULL, NULL));
  EXPECT((unsigned char*)y.v1.clientBuf.data >= begin &&
         (unsigned char*)y.v1.clientBuf.data + kWidth <= begin + pools->scratch_size);
  EXPECT(y.v1.clientBuf.dataSize == kWidth);
  check(y.v1.clientBuf.data, step + 1);
}

static void execute_in_place(Qnn_GraphHandle_t graph, Qnn_Tensor_t x, Qnn_Tensor_t y,
                             QnnLpaiBackend_BufferAlignmentReq_t req, int step) {
  uint8_t *in = allocate(req, kWidth), *out = allocate(req, kWidth);
  x.v1.clientBuf.data = in;
  y.v1.clientBuf.data = out;
  x.v1.clientBuf.dataSize = y.v1.clientBuf.dataSize = kWidth;
  fill(in, step);
  OK(qnn.graphExecute(graph, &x, 1, &y, 1, NULL, NULL));
  check(out, step);
  x.v1.clientBuf.data = in + 1;
  REFUSED(qnn.graphExecute(graph, &x, 1, &y, 1, NULL, NULL), QNN_GRAPH_ERROR_INVALID_TENSOR);
  release(in);
  release(out);
}

/* The pools are to be released after contextFree. */
static Pools run(Qnn_GraphHandle_t graph, Qnn_Tensor_t x, Qnn_Tensor_t y,
                 QnnLpaiBackend_BufferAlignmentReq_t req) {
  Pools pools;
  REFUSED(qnn.graphFinalize(graph, NULL, NULL), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
  REFUSED(qnn.graphExecute(graph, NULL, 0, NULL, 0, NULL, NULL),
          QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED);
  pools = give_pools(graph, req);
  OK(qnn.graphFinalize(graph, NULL, NULL));
  for (int step = 0; step < kSteps; ++step) {
    execute_in_scratch(graph, x, y, &pools, 2 * step);
    execute_in_place(graph, x, y, req, 2 * step + 1);
    /* Other scratch memory, of which there always is some. */
    void* old = pools.scratch;
    pools.scratch = allocate(req, pools.scratch_size);
    OK(give(graph, QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM, pools.scratch, pools.scratch_size));
    memset(old, 0xEE, pools.scratch_size);
    release(old);
  }
  OK(give(graph, QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM, NULL, 0));
  REFUSED(qnn.graphExecute(graph, NULL, 0, NULL, 0, NULL, NULL), QNN_GRAPH_ERROR_INVALID_ARGUMENT);
  OK(give(graph, QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM, pools.scratch, pools.scratch_size));
  OK(qnn.graphExecute(graph, NULL, 0, NULL, 0, NULL, NULL));
  return pools;
}

static void free_context(Qnn_ContextHandle_t context, Pools pools) {
  OK(qnn.contextFree(context, NULL));
  release(pools.scratch);
  release(pools.persistent);
}

/* ---- state: the last rows that came, which two graphs move up */

typedef struct {
  Qnn_GraphHandle_t graph;
  Qnn_Tensor_t inputs[2], most; /* cache, rows */
  uint32_t cache_dims[2], row_dims[2], kept_dims[2], most_dims[2];
  Pools pools;
} Window;

/* `count` rows come behind the others; `most` is the largest of each column. */
static void compose_window(Window* w, Qnn_ContextHandle_t context, const char* name, uint32_t count,
                           QnnLpaiBackend_BufferAlignmentReq_t req) {
  uint32_t ranges_dims[2] = {2, 3}, axes_dims[1] = {1}, axes[1] = {0};
  int32_t ranges[6] = {(int32_t)count, kRows, 1, 0, kColumns, 1};
  Qnn_Tensor_t kept, joined[2];
  Qnn_Param_t params[2];
  memset(w, 0, sizeof *w);
  w->cache_dims[0] = kRows;
  w->row_dims[0] = count;
  w->kept_dims[0] = kRows - count;
  w->most_dims[0] = 1;
  w->cache_dims[1] = w->row_dims[1] = w->kept_dims[1] = w->most_dims[1] = kColumns;
  w->inputs[0] = bytes_tensor("cache", QNN_TENSOR_TYPE_APP_READWRITE, 2, w->cache_dims);
  w->inputs[1] = bytes_tensor("rows", QNN_TENSOR_TYPE_APP_WRITE, 2, w->row_dims);
  w->most = bytes_tensor("most", QNN_TENSOR_TYPE_APP_READ, 2, w->most_dims);
  kept = bytes_tensor("kept", QNN_TENSOR_TYPE_NATIVE, 2, w->kept_dims);
  OK(qnn.graphCreate(context, name, NULL, &w->graph));
  OK(qnn.tensorCreateGraphTensor(w->graph, &w->inputs[0]));
  OK(qnn.tensorCreateGraphTensor(w->graph, &w->inputs[1]));
  OK(qnn.tensorCreateGraphTensor(w->graph, &w->most));
  OK(qnn.tensorCreateGraphTensor(w->graph, &kept));
  memset(params, 0, sizeof params);
  params[0].paramType = QNN_PARAMTYPE_TENSOR;
  params[0].name = "ranges";
  params[0].tensorParam =
      tensor_of("ranges", QNN_TENSOR_TYPE_STATIC, QNN_DATATYPE_INT_32, 2, ranges_dims);
  params[0].tensorParam.v1.clientBuf.data = ranges;
  params[0].tensorParam.v1.clientBuf.dataSize = sizeof ranges;
  add_node(w->graph, "StridedSlice", params, 1, &w->inputs[0], 1, &kept);
  joined[0] = kept;
  joined[1] = w->inputs[1];
  memset(params, 0, sizeof params);
  params[0].paramType = QNN_PARAMTYPE_SCALAR;
  params[0].name = "axis";
  params[0].scalarParam.dataType = QNN_DATATYPE_UINT_32;
  add_node(w->graph, "Concat", params, 1, joined, 2, &w->inputs[0]);
  memset(params, 0, sizeof params);
  params[0].paramType = QNN_PARAMTYPE_TENSOR;
  params[0].name = "axes";
  params[0].tensorParam =
      tensor_of("axes", QNN_TENSOR_TYPE_STATIC, QNN_DATATYPE_UINT_32, 1, axes_dims);
  params[0].tensorParam.v1.clientBuf.data = axes;
  params[0].tensorParam.v1.clientBuf.dataSize = sizeof axes;
  params[1].paramType = QNN_PARAMTYPE_SCALAR;
  params[1].name = "keep_dims";
  params[1].scalarParam.dataType = QNN_DATATYPE_BOOL_8;
  params[1].scalarParam.bool8Value = 1;
  add_node(w->graph, "ReduceMax", params, 2, &w->inputs[0], 1, &w->most);
  w->pools = give_pools(w->graph, req);
  OK(qnn.graphFinalize(w->graph, NULL, NULL));
}

static void use(Qnn_Tensor_t* t, void* data, uint32_t size) {
  t->v1.clientBuf.data = data;
  t->v1.clientBuf.dataSize = size;
}

static uint32_t copies(Qnn_GraphHandle_t graph) {
  uint32_t count = UINT32_MAX;
  OK(graph_copies(graph, NULL, 0, &count));
  return count;
}

/* Row n that came is all n + 1. */
static void update_one_state(Qnn_BackendHandle_t backend, QnnLpaiBackend_BufferAlignmentReq_t req) {
  Qnn_ContextHandle_t context = NULL;
  Window prefill, decode;
  uint8_t* cache = allocate(req, kRows * kColumns);
  uint8_t* rows = allocate(req, 4 * kColumns);
  uint8_t* most = allocate(req, kColumns);
  OK(qnn.contextCreate(backend, NULL, NULL, &context));
  compose_window(&prefill, context, "prefill", 4, req);
  compose_window(&decode, context, "decode", 1, req);
  memset(cache, 0, kRows * kColumns);
  uint8_t came = 0;
  for (int step = 0; step < 12; ++step) {
    Window* w = step == 0 ? &prefill : &decode;
    const uint32_t count = w->row_dims[0];
    for (uint32_t i = 0; i < count; ++i) memset(rows + i * kColumns, ++came, kColumns);
    use(&w->inputs[0], cache, kRows * kColumns);
    use(&w->inputs[1], rows, count * kColumns);
    use(&w->most, most, kColumns);
    OK(qnn.graphExecute(w->graph, w->inputs, 2, &w->most, 1, NULL, NULL));
    EXPECT(most[0] == came && most[kColumns - 1] == came);
    for (int i = 0; i < kRows; ++i) {
      const int row = came - kRows + 1 + i;
      EXPECT(cache[i * kColumns] == (row > 0 ? row : 0));
    }
  }
  EXPECT(copies(prefill.graph) == 0 && copies(decode.graph) == 0);
  OK(qnn.contextFree(context, NULL));
  release(prefill.pools.scratch);
  release(prefill.pools.persistent);
  release(decode.pools.scratch);
  release(decode.pools.persistent);
  release(cache);
  release(rows);
  release(most);
}

int main(int argc, char** argv) {
  Qnn_BackendHandle_t backend = NULL;
  Qnn_DeviceHandle_t device = NULL;
  Qnn_ContextHandle_t context = NULL;
  Qnn_GraphHandle_t graph = NULL;
  Qnn_Tensor_t x, y;
  Qnn_ContextBinarySize_t size = 0, written = 0;
  QnnContext_Config_t persistent;
  const QnnContext_Config_t* configs[2] = {0};
  QnnLpaiGraph_PerfCfg_t perf = {30, 10, QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_REAL_TIME};
  QnnLpaiGraph_CoreAffinity_t affinity = {QNN_LPAI_GRAPH_CORE_AFFINITY_SOFT, 0};
  if (argc != 2) FAIL("lpai_client BACKEND_LIBRARY");
  open_backend(argv[1]);
  OK(qnn.backendCreate(NULL, NULL, &backend));
  REFUSED(qnn.deviceCreate(NULL, NULL, &device), QNN_DEVICE_ERROR_UNSUPPORTED_FEATURE);
  const QnnLpaiBackend_BufferAlignmentReq_t req = query_alignment(backend);
  EXPECT(req.startAddrAlignment == 64 && req.sizeAlignment == 16);

  OK(qnn.contextCreate(backend, NULL, NULL, &context));
  OK(qnn.graphCreate(context, "net", NULL, &graph));
  compose(graph, &x, &y);
  Pools pools = run(graph, x, y, req);
  OK(qnn.contextGetBinarySize(context, &size));
  void* binary = allocate(req, size);
  OK(qnn.contextGetBinary(context, binary, size, &written));
  free_context(context, pools);
  REFUSED(qnn.graphExecute(graph, NULL, 0, NULL, 0, NULL, NULL), QNN_GRAPH_ERROR_INVALID_CONTEXT);

  memset(&persistent, 0, sizeof persistent);
  persistent.option = QNN_CONTEXT_CONFIG_PERSISTENT_BINARY;
  persistent.isPersistentBinary = 1;
  configs[0] = &persistent;
  OK(qnn.contextCreateFromBinary(backend, NULL, configs, binary, written, &context, NULL));
  OK(qnn.graphRetrieve(context, "net", &graph));
  OK(configure(graph, QNN_LPAI_GRAPH_SET_CFG_PERF_CFG, &perf));
  OK(configure(graph, QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY, &affinity));
  pools = run(graph, x, y, req);
  free_context(context, pools);
  release(binary);
  update_one_state(backend, req);
  OK(qnn.backendFree(backend));
  puts("ok");
  return 0;
}
