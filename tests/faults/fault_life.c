/* One life of a C client, call by call; see fault_client.c. */
#define _GNU_SOURCE
#include "fault_life.h"

#include <pthread.h>
#include <unistd.h>

#include "../clients/client_checks.h"
#include "qnnrt/qnn_htp.h"
#include "qnnrt/qnn_lpai.h"
#include "qnnrt/qnnrt_ext.h"
#include "qnnrt/rpcmem.h"

enum { kWidth = 64, kPage = 4096 };

/* ---- The libraries */

static QnnSystemInterface_ImplementationV1_7_t sys;
static QnnInterface_GetProvidersFn_t get_providers;
static QnnSystemInterface_GetProvidersFn_t get_system;
static void* (*rpc_alloc)(int, uint32_t, int);
static int (*rpc_to_fd)(void*);
static void (*rpc_free)(void*);
static void (*live_counts)(Qnnrt_LiveCounts_t*);
static uint64_t (*import_fd)(int, uint64_t, uint64_t, uint64_t*);
static uint64_t (*buffer_close)(uint64_t);
static uint64_t (*buffer_fd)(uint64_t, int*);
static uint64_t (*buffer_alloc)(const char*, uint64_t, uint64_t, uint64_t*);
static uint64_t (*pool_trim)(uint64_t);
static int is_lpai, is_htp;
static uint32_t dims[2] = {1, kWidth};
static uint8_t summand[kWidth];

void die(const char* what) {
  fprintf(stderr, "fault_client: %s\n", what);
  exit(1);
}

static void* load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) die(dlerror());
  return library;
}

void open_libraries(const char* backend_path, const char* rpc_path, const char* system_path,
                    const char* name) {
  is_lpai = strcmp(name, "lpai") == 0;
  is_htp = strcmp(name, "htp") == 0;
  for (int i = 0; i < kWidth; ++i) summand[i] = (uint8_t)(i * 37 % 101);
  void* backend = load(backend_path);
  void* rpc = load(rpc_path);
  void* system_library = load(system_path);
  resolve(backend, "QnnInterface_getProviders", &get_providers, sizeof get_providers);
  resolve(system_library, "QnnSystemInterface_getProviders", &get_system, sizeof get_system);
  resolve(rpc, "rpcmem_alloc", &rpc_alloc, sizeof rpc_alloc);
  resolve(rpc, "rpcmem_to_fd", &rpc_to_fd, sizeof rpc_to_fd);
  resolve(rpc, "rpcmem_free", &rpc_free, sizeof rpc_free);
  resolve(backend, "qnnrt_live_counts", &live_counts, sizeof live_counts);
  resolve(backend, "qnnrt_buffer_import", &import_fd, sizeof import_fd);
  resolve(backend, "qnnrt_buffer_close", &buffer_close, sizeof buffer_close);
  resolve(backend, "qnnrt_buffer_fd", &buffer_fd, sizeof buffer_fd);
  resolve(backend, "qnnrt_buffer_alloc", &buffer_alloc, sizeof buffer_alloc);
  resolve(backend, "qnnrt_pool_trim", &pool_trim, sizeof pool_trim);
}

long live_objects(void) {
  Qnnrt_LiveCounts_t counts;
  long sum = 0;
  pool_trim(0);
  live_counts(&counts);
  const uint64_t* at = (const uint64_t*)(const void*)&counts;
  for (size_t i = 0; i < sizeof counts / sizeof *at; ++i) sum += (long)at[i];
  return sum;
}

/* ---- One life */

static void on_log(const char* format, QnnLog_Level_t level, uint64_t timestamp, va_list args) {
  char text[256];
  (void)level, (void)timestamp;
  vsnprintf(text, sizeof text, format, args);
}

static Qnn_Tensor_t tensor(const char* name, Qnn_TensorType_t type) {
  return bytes_tensor(name, type, 2, dims);
}

static void fill(uint8_t* x, int step) {
  for (int i = 0; i < kWidth; ++i) x[i] = (uint8_t)(i * 11 + step * 53);
}

/* A call that says it succeeded has the right result. */
static void check(const uint8_t* y, int step, const char* where) {
  uint8_t x[kWidth];
  fill(x, step);
  for (int i = 0; i < kWidth; ++i) {
    const int sum = x[i] + summand[i], want = sum < 20 ? 20 : sum > 200 ? 200 : sum;
    if (y[i] != want) {
      fprintf(stderr, "%s: y[%d] is %d, expected %d\n", where, i, y[i], want);
      _exit(3);
    }
  }
}

#define TRY(expression)                              \
  do {                                               \
    const uint64_t code_ = (expression);             \
    if (code_ != QNN_SUCCESS) {                      \
      l->code = (uint32_t)QNN_GET_ERROR_CODE(code_); \
      l->call = #expression;                         \
      ask(code_);                                    \
      return 0;                                      \
    }                                                \
  } while (0)
#define NEED(condition)                     \
  do {                                      \
    if (!(condition)) {                     \
      l->code = QNN_COMMON_ERROR_MEM_ALLOC; \
      l->call = #condition;                 \
      return 0;                             \
    }                                       \
  } while (0)

/* What a client does about an error: the text may be missing, never wrong. */
static void ask(Qnn_ErrorHandle_t code) {
  const char* text = NULL;
  if (qnn.errorGetMessage != NULL) qnn.errorGetMessage(code, &text);
  if (qnn.errorGetVerboseMessage != NULL &&
      qnn.errorGetVerboseMessage(code, &text) == QNN_SUCCESS) {
    if (text == NULL || *text == '\0') _exit(4);
    qnn.errorFreeVerboseMessage(text);
  }
}

static int compose(Life* l, Qnn_GraphHandle_t graph, Qnn_Tensor_t* x, Qnn_Tensor_t* y) {
  Qnn_Tensor_t s = tensor("s", QNN_TENSOR_TYPE_STATIC), sum = tensor("sum", QNN_TENSOR_TYPE_NATIVE);
  Qnn_Param_t limits[2];
  memset(limits, 0, sizeof limits);
  for (int i = 0; i < 2; ++i) {
    limits[i].paramType = QNN_PARAMTYPE_SCALAR;
    limits[i].name = i == 0 ? "min_value" : "max_value";
    limits[i].scalarParam.dataType = QNN_DATATYPE_FLOAT_32;
    limits[i].scalarParam.floatValue = i == 0 ? 20.0f : 200.0f;
  }
  s.v1.clientBuf.data = summand;
  s.v1.clientBuf.dataSize = sizeof summand;
  *x = tensor("x", QNN_TENSOR_TYPE_APP_WRITE);
  *y = tensor("y", QNN_TENSOR_TYPE_APP_READ);
  TRY(qnn.tensorCreateGraphTensor(graph, x));
  TRY(qnn.tensorCreateGraphTensor(graph, &s));
  TRY(qnn.tensorCreateGraphTensor(graph, &sum));
  TRY(qnn.tensorCreateGraphTensor(graph, y));
  Qnn_Tensor_t inputs[2] = {*x, s};
  Qnn_OpConfig_t add = op("add", "ElementWiseAdd", NULL, 0, inputs, 2, &sum);
  TRY(qnn.backendValidateOpConfig(l->backend, add));
  TRY(qnn.graphAddNode(graph, add));
  TRY(qnn.graphAddNode(graph, op("clip", "ReluMinMax", limits, 2, &sum, 1, y)));
  return 1;
}

static int lpai_size(Life* l, Qnn_GraphHandle_t graph, uint32_t option, uint32_t* size) {
  QnnLpaiGraph_CustomProperty_t custom = {option, size};
  QnnGraph_Property_t property;
  QnnGraph_Property_t* list[2] = {&property, NULL};
  property.option = QNN_GRAPH_PROPERTY_OPTION_CUSTOM;
  property.customProperty = &custom;
  TRY(qnn.graphGetProperty(graph, list));
  return 1;
}

/* lpai: the graph's two pools, out of the client's memory. */
static int give_pools(Life* l, Qnn_GraphHandle_t graph, int first) {
  const uint32_t sizes[2] = {QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE,
                             QNN_LPAI_GRAPH_GET_PROP_PERSISTENT_MEM_SIZE};
  const uint32_t sets[2] = {QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM,
                            QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM};
  for (int i = 0; i < 2; ++i) {
    uint32_t size = 0;
    if (!lpai_size(l, graph, sizes[i], &size)) return 0;
    if (size == 0) continue;
    void* pool = l->pools[first + i] = aligned_alloc(256, (size + 255u) / 256 * 256);
    if (pool == NULL) _exit(5);
    QnnLpaiGraph_Mem_t memory = {QNN_LPAI_MEM_TYPE_DDR, size, pool};
    QnnLpaiGraph_CustomConfig_t custom = {sets[i], &memory};
    QnnGraph_Config_t config;
    const QnnGraph_Config_t* list[2] = {&config, NULL};
    memset(&config, 0, sizeof config);
    config.option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
    config.customConfig = &custom;
    TRY(qnn.graphSetConfig(graph, list));
  }
  return 1;
}

struct Done {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int count;
  Qnn_ErrorHandle_t code;
};
static void notify(void* param, Qnn_NotifyStatus_t status) {
  struct Done* done = param;
  pthread_mutex_lock(&done->mutex);
  done->code = status.error;
  ++done->count;
  pthread_cond_signal(&done->changed);
  pthread_mutex_unlock(&done->mutex);
}

static int run_async(Life* l, Qnn_GraphHandle_t graph, Qnn_Tensor_t* x, Qnn_Tensor_t* y) {
  struct Done done = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
  TRY(qnn.graphExecuteAsync(graph, x, 1, y, 1, NULL, l->signal, notify, &done));
  pthread_mutex_lock(&done.mutex);
  while (done.count == 0) pthread_cond_wait(&done.changed, &done.mutex);
  pthread_mutex_unlock(&done.mutex);
  TRY(done.code);
  return 1;
}

/* RAW, then memory handles, asynchronously where the backend can. */
static int run(Life* l, Qnn_GraphHandle_t graph, Qnn_Tensor_t x, Qnn_Tensor_t y) {
  static __attribute__((aligned(256))) uint8_t in[kWidth], out[kWidth];
  x.v1.clientBuf.data = in;
  y.v1.clientBuf.data = out;
  x.v1.clientBuf.dataSize = y.v1.clientBuf.dataSize = kWidth;
  fill(in, 1);
  memset(out, 0, sizeof out);
  TRY(qnn.graphExecute(graph, &x, 1, &y, 1, l->profile, l->signal));
  check(out, 1, "raw");
  if (is_htp) {
    fill(in, 2);
    if (!run_async(l, graph, &x, &y)) return 0;
    check(out, 2, "async");
  }
  const QnnProfile_EventId_t *events = NULL, *below = NULL;
  uint32_t count = 0;
  QnnProfile_EventData_t data;
  TRY(qnn.profileGetEvents(l->profile, &events, &count));
  if (count != 0) {
    TRY(qnn.profileGetEventData(events[0], &data));
    TRY(qnn.profileGetSubEvents(events[0], &below, &count));
  }
  if (l->handles[0] == NULL) return 1;
  x.v1.memType = y.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  x.v1.memHandle = l->handles[0];
  y.v1.memHandle = l->handles[1];
  uint8_t* memory = l->memory;
  fill(memory, 3);
  TRY(qnn.graphExecute(graph, &x, 1, &y, 1, NULL, NULL));
  check(memory + kPage, 3, "shared");
  return 1;
}

static int register_memory(Life* l) {
  l->memory = rpc_alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, 2 * kPage);
  NEED(l->memory != NULL);
  NEED(rpc_to_fd(l->memory) >= 0);
  QnnMemHtp_Descriptor_t places[2];
  Qnn_MemDescriptor_t descriptors[2];
  memset(places, 0, sizeof places);
  memset(descriptors, 0, sizeof descriptors);
  for (int i = 0; i < 2; ++i) {
    places[i].type = QNN_HTP_MEM_SHARED_BUFFER;
    places[i].size = 2 * kPage;
    places[i].sharedBufferConfig.fd = rpc_to_fd(l->memory);
    places[i].sharedBufferConfig.offset = (uint64_t)i * kPage;
    descriptors[i].memShape.numDim = 2;
    descriptors[i].memShape.dimSize = dims;
    descriptors[i].dataType = QNN_DATATYPE_UFIXED_POINT_8;
    descriptors[i].memType = QNN_MEM_TYPE_CUSTOM;
    descriptors[i].customInfo = &places[i];
  }
  TRY(qnn.memRegister(l->context[0], descriptors, 2, l->handles));
  return 1;
}

/* The same file as another process would have it: by an fd of its own. */
static int hand_off(Life* l) {
  int fd = -1;
  TRY(buffer_alloc(NULL, 3 * kPage, 0, &l->own));
  TRY(buffer_fd(l->own, &fd));
  TRY(import_fd(fd, 0, 0, &l->imported));
  return 1;
}

static int save_and_load(Life* l) {
  Qnn_ContextBinarySize_t size = 0, written = 0, info_size = 0;
  const QnnSystemContext_BinaryInfo_t* info = NULL;
  const QnnSystemInterface_t** list = NULL;
  uint32_t count = 0;
  Qnn_GraphHandle_t graph = NULL;
  TRY(qnn.contextGetBinarySize(l->context[0], &size));
  l->binary = aligned_alloc(256, (size + 255) / 256 * 256);
  if (l->binary == NULL) _exit(5);
  TRY(qnn.contextGetBinary(l->context[0], l->binary, size, &written));
  TRY(get_system(&list, &count));
  sys = list[0]->v1_7;
  TRY(sys.systemContextCreate(&l->system));
  TRY(sys.systemContextGetBinaryInfo(l->system, l->binary, written, &info, &info_size));
  TRY(qnn.contextCreateFromBinary(l->backend, l->device, NULL, l->binary, written, &l->context[1],
                                  NULL));
  TRY(qnn.graphRetrieve(l->context[1], "net", &graph));
  if (is_lpai) {
    if (!give_pools(l, graph, 2)) return 0;
    TRY(qnn.graphFinalize(graph, NULL, NULL));
  }
  Qnn_Tensor_t x = tensor("x", QNN_TENSOR_TYPE_APP_WRITE),
               y = tensor("y", QNN_TENSOR_TYPE_APP_READ);
  const QnnSystemContext_GraphInfo_t* g =
      info->version == QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1 ? info->contextBinaryInfoV1.graphs
      : info->version == QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_2
          ? info->contextBinaryInfoV2.graphs
          : info->contextBinaryInfoV3.graphs;
  const Qnn_Tensor_t* in =
      g->version == QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1   ? g->graphInfoV1.graphInputs
      : g->version == QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_2 ? g->graphInfoV2.graphInputs
                                                              : g->graphInfoV3.graphInputs;
  const Qnn_Tensor_t* out =
      g->version == QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1   ? g->graphInfoV1.graphOutputs
      : g->version == QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_2 ? g->graphInfoV2.graphOutputs
                                                              : g->graphInfoV3.graphOutputs;
  x.v1.id = in[0].v1.id;
  y.v1.id = out[0].v1.id;
  Qnn_MemHandle_t kept = l->handles[0];
  l->handles[0] = NULL; /* they belong to the other context */
  const int ran = run(l, graph, x, y);
  l->handles[0] = kept;
  return ran;
}

int live(Life* l) {
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  Qnn_GraphHandle_t graph = NULL;
  Qnn_Tensor_t x, y;
  TRY(get_providers(&providers, &count));
  qnn = providers[0]->v2_32;
  TRY(qnn.logCreate(on_log, QNN_LOG_LEVEL_DEBUG, &l->log));
  TRY(qnn.backendCreate(l->log, NULL, &l->backend));
  if (is_htp) TRY(qnn.deviceCreate(l->log, NULL, &l->device));
  TRY(qnn.profileCreate(l->backend, QNN_PROFILE_LEVEL_DETAILED, &l->profile));
  if (is_htp) {
    QnnSignal_Config_t abort_config;
    const QnnSignal_Config_t* list[2] = {&abort_config, NULL};
    memset(&abort_config, 0, sizeof abort_config);
    abort_config.option = QNN_SIGNAL_CONFIG_OPTION_ABORT;
    TRY(qnn.signalCreate(l->backend, list, &l->signal));
  }
  TRY(qnn.contextCreate(l->backend, l->device, NULL, &l->context[0]));
  TRY(qnn.graphCreate(l->context[0], "net", NULL, &graph));
  if (!compose(l, graph, &x, &y)) return 0;
  if (is_lpai && !give_pools(l, graph, 0)) return 0;
  TRY(qnn.graphFinalize(graph, l->profile, NULL));
  if (!is_lpai && !register_memory(l)) return 0;
  return run(l, graph, x, y) && save_and_load(l) && hand_off(l);
}

static void* free_shared(void* memory) {
  rpc_free(memory);
  return NULL;
}

/* On a thread that has called nothing yet: what gives back does so there, too. */
static void free_on_a_new_thread(void* memory) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_shared, memory) != 0) die("a thread");
  pthread_join(thread, NULL);
}

int end(Life* l) {
  int left = 0;
#define GIVE(object, expression)     \
  if ((object) != 0) {               \
    if ((expression) == QNN_SUCCESS) \
      (object) = 0;                  \
    else                             \
      ++left;                        \
  }
  GIVE(l->imported, buffer_close(l->imported));
  GIVE(l->own, buffer_close(l->own));
  if (l->handles[0] != NULL) {
    if (qnn.memDeRegister(l->handles, 2) == QNN_SUCCESS)
      l->handles[0] = l->handles[1] = NULL;
    else
      ++left;
  }
  if (l->memory != NULL && l->handles[0] == NULL) free_on_a_new_thread(l->memory), l->memory = NULL;
  GIVE(l->system, sys.systemContextFree(l->system));
  GIVE(l->context[1], qnn.contextFree(l->context[1], NULL));
  GIVE(l->context[0], qnn.contextFree(l->context[0], NULL));
  GIVE(l->signal, qnn.signalFree(l->signal));
  GIVE(l->profile, qnn.profileFree(l->profile));
  GIVE(l->device, qnn.deviceFree(l->device));
  GIVE(l->backend, qnn.backendFree(l->backend));
  GIVE(l->log, qnn.logFree(l->log));
  if (left != 0) return 0;
  free(l->binary);
  for (int i = 0; i < 4; ++i) free(l->pools[i]);
  return 1;
}
