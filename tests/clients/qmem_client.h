/* What C clients of the htp backend's memory rules are written with: y = relu(a + b) in every
 * combination of memory types that its tensors are prepared and executed with. */
#ifndef QMEM_CLIENT_H
#define QMEM_CLIENT_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_checks.h"
#include "qnnrt/qnn.h"
#include "qnnrt/qnn_htp.h"
#include "qnnrt/qnnrt_ext.h"

enum { kTensors = 3, kElements = 1000, kBytes = kElements * 4, kPart = 333, kPage = 4096 };

static void* (*rpc_alloc)(int, uint32_t, int);
static int (*rpc_to_fd)(void*);
static void (*rpc_free)(void*);
static uint64_t (*graph_stats)(Qnn_GraphHandle_t, Qnnrt_GraphStats_t*);
static uint64_t (*graph_copies)(Qnn_GraphHandle_t, Qnnrt_CopyRecord_t*, uint32_t, uint32_t*);
static uint64_t (*domain_info)(Qnnrt_DomainInfo_t*);
static uint64_t (*allocations)(void);
static unsigned warnings;
static char last_warning[1024];

static inline void expect_equal(const char* file, int line, const char* what, uint64_t got,
                                uint64_t expected) {
  if (got == expected) return;
  fprintf(stderr, "%s:%d: %s: expected %llu, got %llu\n", file, line, what,
          (unsigned long long)expected, (unsigned long long)got);
  exit(1);
}

#define EQUAL(a, b) expect_equal(__FILE__, __LINE__, #a, a, b)

static inline void on_log(const char* format, QnnLog_Level_t level, uint64_t timestamp,
                          va_list args) {
  (void)timestamp;
  if (level != QNN_LOG_LEVEL_WARN) return;
  ++warnings;
  vsnprintf(last_warning, sizeof last_warning, format, args);
}

/* The message of the last error on this thread has `part` in it. */
static inline int said(uint32_t code, const char* part) {
  const char* text = NULL;
  if (qnn.errorGetVerboseMessage(code, &text) != QNN_SUCCESS) return 0;
  int found = strstr(text, part) != NULL;
  if (!found) fprintf(stderr, "message: %s\n", text);
  qnn.errorFreeVerboseMessage(text);
  return found;
}

static inline uint64_t faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

static inline uint64_t used(void) {
  Qnnrt_DomainInfo_t info;
  OK(domain_info(&info));
  return info.used_bytes;
}

/* ---- one client ---- */

typedef struct Client {
  uint32_t dims[2];
  Qnn_LogHandle_t log;
  Qnn_BackendHandle_t backend;
  Qnn_ContextHandle_t context;
  Qnn_GraphHandle_t graph;
  Qnn_Tensor_t t[kTensors]; /* a, b, y */
  float raw[kTensors][kElements];
  float* shared[kTensors];
  Qnn_MemHandle_t handles[kTensors];
} Client;

static inline Qnn_MemDescriptor_t descriptor(Client* c, Qnn_MemType_t type) {
  Qnn_MemDescriptor_t d;
  memset(&d, 0, sizeof d);
  d.memShape.numDim = 2;
  d.memShape.dimSize = c->dims;
  d.dataType = QNN_DATATYPE_FLOAT_32;
  d.memType = type;
  return d;
}

static inline void open_client(Client* c) {
  memset(c, 0, sizeof *c);
  c->dims[0] = 10;
  c->dims[1] = kElements / 10;
  OK(qnn.logCreate(on_log, QNN_LOG_LEVEL_WARN, &c->log));
  OK(qnn.backendCreate(c->log, NULL, &c->backend));
  OK(qnn.contextCreate(c->backend, NULL, NULL, &c->context));
}

/* prepared: bit i set, tensor i is prepared as MEMHANDLE. */
static inline void compose(Client* c, unsigned prepared, const char* name) {
  static const char* const names[kTensors] = {"a", "b", "y"};
  OK(qnn.graphCreate(c->context, name, NULL, &c->graph));
  for (int i = 0; i < kTensors; ++i) {
    Qnn_Tensor_t* t = &c->t[i];
    memset(t, 0, sizeof *t);
    t->version = QNN_TENSOR_VERSION_1;
    t->v1.name = names[i];
    t->v1.type = i == 2 ? QNN_TENSOR_TYPE_APP_READ : QNN_TENSOR_TYPE_APP_WRITE;
    t->v1.dataType = QNN_DATATYPE_FLOAT_32;
    t->v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
    t->v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
    t->v1.rank = 2;
    t->v1.dimensions = c->dims;
    t->v1.memType = prepared >> i & 1 ? QNN_TENSORMEMTYPE_MEMHANDLE : QNN_TENSORMEMTYPE_RAW;
    OK(qnn.tensorCreateGraphTensor(c->graph, t));
  }
  Qnn_Tensor_t sum = c->t[0];
  sum.v1.name = "sum";
  sum.v1.type = QNN_TENSOR_TYPE_NATIVE;
  OK(qnn.tensorCreateGraphTensor(c->graph, &sum));
  Qnn_OpConfig_t op;
  memset(&op, 0, sizeof op);
  op.version = QNN_OPCONFIG_VERSION_1;
  op.v1.packageName = "qti.aisw";
  op.v1.name = "add";
  op.v1.typeName = "ElementWiseAdd";
  op.v1.numOfInputs = 2;
  op.v1.inputTensors = c->t;
  op.v1.numOfOutputs = 1;
  op.v1.outputTensors = &sum;
  OK(qnn.graphAddNode(c->graph, op));
  op.v1.name = "relu";
  op.v1.typeName = "Relu";
  op.v1.numOfInputs = 1;
  op.v1.inputTensors = &sum;
  op.v1.outputTensors = &c->t[2];
  OK(qnn.graphAddNode(c->graph, op));
}

static inline void use_raw(Client* c, int i) {
  c->t[i].v1.memType = QNN_TENSORMEMTYPE_RAW;
  c->t[i].v1.clientBuf.data = c->raw[i];
  c->t[i].v1.clientBuf.dataSize = kBytes;
}

static inline void use_handle(Client* c, int i) {
  if (c->handles[i] == NULL) {
    c->shared[i] = rpc_alloc(25, 1, kBytes);
    EXPECT(c->shared[i] != NULL);
    Qnn_MemDescriptor_t d = descriptor(c, QNN_MEM_TYPE_ION);
    d.ionInfo.fd = rpc_to_fd(c->shared[i]);
    OK(qnn.memRegister(c->context, &d, 1, &c->handles[i]));
  }
  c->t[i].v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  c->t[i].v1.memHandle = c->handles[i];
}

static inline Qnn_ErrorHandle_t run(Client* c) {
  return qnn.graphExecute(c->graph, c->t, 2, &c->t[2], 1, NULL, NULL);
}

static inline float* bytes_of(Client* c, int i) {
  return c->t[i].v1.memType == QNN_TENSORMEMTYPE_RAW ? c->raw[i] : c->shared[i];
}

static inline void run_and_compare(Client* c, float start) {
  for (int e = 0; e < kElements; ++e) {
    bytes_of(c, 0)[e] = start + (float)e;
    bytes_of(c, 1)[e] = -500;
    bytes_of(c, 2)[e] = -1;
  }
  OK(run(c));
  for (int e = 0; e < kElements; ++e) {
    float sum = start + (float)e - 500;
    EXPECT(bytes_of(c, 2)[e] == (sum > 0 ? sum : 0));
  }
}

static inline void close_client(Client* c) {
  for (int i = 0; i < kTensors; ++i) {
    if (c->handles[i] != NULL) OK(qnn.memDeRegister(&c->handles[i], 1));
    if (c->shared[i] != NULL) rpc_free(c->shared[i]);
  }
  if (c->context != NULL) OK(qnn.contextFree(c->context, NULL));
  OK(qnn.backendFree(c->backend));
  OK(qnn.logFree(c->log));
}

/* Everything above that is looked up in the two libraries. */
static inline void load(const char* htp_library, const char* rpc_library) {
  void* backend = dlopen(htp_library, RTLD_NOW | RTLD_LOCAL);
  if (backend == NULL) FAIL(dlerror());
  void* rpc = dlopen(rpc_library, RTLD_NOW | RTLD_LOCAL);
  if (rpc == NULL) FAIL(dlerror());
  QnnInterface_GetProvidersFn_t get_providers;
  resolve(rpc, "rpcmem_alloc", &rpc_alloc, sizeof rpc_alloc);
  resolve(rpc, "rpcmem_to_fd", &rpc_to_fd, sizeof rpc_to_fd);
  resolve(rpc, "rpcmem_free", &rpc_free, sizeof rpc_free);
  resolve(backend, "qnnrt_graph_stats", &graph_stats, sizeof graph_stats);
  resolve(backend, "qnnrt_graph_copies", &graph_copies, sizeof graph_copies);
  resolve(backend, "qnnrt_htp_domain_info", &domain_info, sizeof domain_info);
  resolve(backend, "qnnrt_debug_allocations", &allocations, sizeof allocations);
  resolve(backend, "QnnInterface_getProviders", &get_providers, sizeof get_providers);
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  EXPECT(get_providers(&providers, &count) == QNN_SUCCESS && count == 1);
  EQUAL(providers[0]->backendId, QNN_BACKEND_ID_HTP);
  qnn = providers[0]->v2_32;
}

#endif
