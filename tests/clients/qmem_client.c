/* A C11 client of the htp backend's memory rules, built on the installed headers alone:
 *
 *   qmem_client HTP_LIBRARY RPC_LIBRARY table | rules | budget
 *
 * table: y = relu(a + b) in every combination of memory types that tensors are prepared and
 * executed with; what is reserved and copied is compared byte for byte, over 1,000 executions.
 * rules: what may be registered, deregistered and executed when, and with which code it is refused.
 * budget: with QNNRT_HTP_DOMAIN_BYTES=100000, what does not fit. Prints "ok" and exits 0, or says
 * at which line what was expected and exits 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "qnnrt/qnn.h"
#include "qnnrt/qnn_htp.h"
#include "qnnrt/qnnrt_ext.h"

enum { kTensors = 3, kElements = 1000, kBytes = kElements * 4, kRuns = 1000, kPage = 4096 };

static QnnInterface_ImplementationV2_32_t qnn;
static void* (*rpc_alloc)(int, uint32_t, int);
static int (*rpc_to_fd)(void*);
static void (*rpc_free)(void*);
static uint64_t (*graph_stats)(Qnn_GraphHandle_t, Qnnrt_GraphStats_t*);
static uint64_t (*graph_copies)(Qnn_GraphHandle_t, Qnnrt_CopyRecord_t*, uint32_t, uint32_t*);
static uint64_t (*domain_info)(Qnnrt_DomainInfo_t*);
static uint64_t (*allocations)(void);
static unsigned warnings;
static char last_warning[1024];

static void fail(int line, const char* what) {
  fprintf(stderr, "qmem_client.c:%d: expected %s\n", line, what);
  exit(1);
}

static void expect_equal(int line, const char* what, uint64_t got, uint64_t expected) {
  if (got == expected) return;
  fprintf(stderr, "qmem_client.c:%d: %s: expected %llu, got %llu\n", line, what,
          (unsigned long long)expected, (unsigned long long)got);
  exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
#define EQUAL(a, b) expect_equal(__LINE__, #a, a, b)
#define OK(call) expect_equal(__LINE__, #call, QNN_GET_ERROR_CODE(call), QNN_SUCCESS)
#define REFUSED(call, code) expect_equal(__LINE__, #call, QNN_GET_ERROR_CODE(call), code)

static void on_log(const char* format, QnnLog_Level_t level, uint64_t timestamp, va_list args) {
  (void)timestamp;
  if (level != QNN_LOG_LEVEL_WARN) return;
  ++warnings;
  vsnprintf(last_warning, sizeof last_warning, format, args);
}

/* The message of the last error on this thread has `part` in it. */
static int said(uint32_t code, const char* part) {
  const char* text = NULL;
  if (qnn.errorGetVerboseMessage(code, &text) != QNN_SUCCESS) return 0;
  int found = strstr(text, part) != NULL;
  if (!found) fprintf(stderr, "message: %s\n", text);
  qnn.errorFreeVerboseMessage(text);
  return found;
}

static void resolve(void* library, const char* name, void* function, size_t size) {
  void* address = dlsym(library, name);
  if (address == NULL) fail(__LINE__, name);
  memcpy(function, &address, size);
}

static uint64_t faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

static uint64_t used(void) {
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

static Qnn_MemDescriptor_t descriptor(Client* c, Qnn_MemType_t type) {
  Qnn_MemDescriptor_t d;
  memset(&d, 0, sizeof d);
  d.memShape.numDim = 2;
  d.memShape.dimSize = c->dims;
  d.dataType = QNN_DATATYPE_FLOAT_32;
  d.memType = type;
  return d;
}

static void open_client(Client* c) {
  memset(c, 0, sizeof *c);
  c->dims[0] = 10;
  c->dims[1] = kElements / 10;
  OK(qnn.logCreate(on_log, QNN_LOG_LEVEL_WARN, &c->log));
  OK(qnn.backendCreate(c->log, NULL, &c->backend));
  OK(qnn.contextCreate(c->backend, NULL, NULL, &c->context));
}

/* prepared: bit i set, tensor i is prepared as MEMHANDLE. */
static void compose(Client* c, unsigned prepared, const char* name) {
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

static void use_raw(Client* c, int i) {
  c->t[i].v1.memType = QNN_TENSORMEMTYPE_RAW;
  c->t[i].v1.clientBuf.data = c->raw[i];
  c->t[i].v1.clientBuf.dataSize = kBytes;
}

static void use_handle(Client* c, int i) {
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

static Qnn_ErrorHandle_t run(Client* c) {
  return qnn.graphExecute(c->graph, c->t, 2, &c->t[2], 1, NULL, NULL);
}

static float* bytes_of(Client* c, int i) {
  return c->t[i].v1.memType == QNN_TENSORMEMTYPE_RAW ? c->raw[i] : c->shared[i];
}

static void run_and_compare(Client* c, float start) {
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

static void close_client(Client* c) {
  for (int i = 0; i < kTensors; ++i) {
    if (c->handles[i] != NULL) OK(qnn.memDeRegister(&c->handles[i], 1));
    if (c->shared[i] != NULL) rpc_free(c->shared[i]);
  }
  if (c->context != NULL) OK(qnn.contextFree(c->context, NULL));
  OK(qnn.backendFree(c->backend));
  OK(qnn.logFree(c->log));
}

/* ---- the table ---- */

static void check_row(unsigned prepared, unsigned executed) {
  static Client c;
  Qnnrt_GraphStats_t s;
  uint64_t at_finalize = 0, at_execute = 0, in = 0, out = 0;
  unsigned copied = 0;
  for (int i = 0; i < kTensors; ++i) {
    int raw_prepared = !(prepared >> i & 1), raw_executed = !(executed >> i & 1);
    if (raw_prepared) at_finalize += kBytes;
    if (!raw_prepared && raw_executed) at_execute += kBytes;
    if (raw_executed && i == 2) out += kBytes;
    if (raw_executed && i != 2) in += kBytes;
    copied += (unsigned)raw_executed;
  }
  open_client(&c);
  compose(&c, prepared, "g");
  OK(qnn.graphFinalize(c.graph, NULL, NULL));
  OK(graph_stats(c.graph, &s));
  EQUAL(s.reserved_at_finalize_bytes, at_finalize);
  EQUAL(s.reserved_bytes, at_finalize);
  EQUAL(s.reserved_at, at_finalize ? QNNRT_RESERVED_AT_FINALIZE : QNNRT_RESERVED_NONE);
  for (int i = 0; i < kTensors; ++i) executed >> i & 1 ? use_handle(&c, i) : use_raw(&c, i);
  warnings = 0;
  run_and_compare(&c, 7);
  EQUAL(warnings, copied);
  OK(graph_stats(c.graph, &s));
  EQUAL(s.reserved_at_execute_bytes, at_execute);
  EQUAL(s.reserved_bytes, at_finalize + at_execute);
  EQUAL(s.reserved_at, at_finalize  ? QNNRT_RESERVED_AT_FINALIZE
                       : at_execute ? QNNRT_RESERVED_AT_EXECUTE
                                    : QNNRT_RESERVED_NONE);
  uint64_t allocated = allocations(), mapped = used();
  uint64_t fewest = UINT64_MAX; /* page faults of a third: the kernel may cause some */
  for (int part = 0; part < 3; ++part) {
    uint64_t faulted = faults();
    for (int r = 0; r < (kRuns - 1) / 3; ++r) OK(run(&c));
    if (faults() - faulted < fewest) fewest = faults() - faulted;
  }
  EQUAL(fewest, 0);
  EQUAL(allocations() - allocated, 0);
  EQUAL(used(), mapped);
  OK(graph_stats(c.graph, &s));
  EQUAL(s.executes, kRuns);
  EQUAL(s.copied_in_bytes, in * kRuns);
  EQUAL(s.copied_out_bytes, out * kRuns);
  EQUAL(s.copied_bytes, (in + out) * kRuns);
  EQUAL(s.reserved_bytes, at_finalize + at_execute);
  EQUAL(warnings, copied);

  Qnnrt_CopyRecord_t records[kTensors];
  uint32_t count = 0;
  OK(graph_copies(c.graph, records, kTensors, &count));
  EQUAL(count, copied);
  for (uint32_t k = 0, i = 0; k < count; ++k, ++i) {
    while (executed >> i & 1) ++i;
    EXPECT(strcmp(records[k].tensor, c.t[i].v1.name) == 0);
    EQUAL(records[k].direction, i == 2 ? QNNRT_COPY_OUT : QNNRT_COPY_IN);
    EQUAL(records[k].bytes, (uint64_t)kBytes * kRuns);
    EQUAL(records[k].count, kRuns);
    EXPECT(strcmp(records[k].reason, prepared >> i & 1 ? "prepared memhandle, executed raw"
                                                       : "prepared raw, executed raw") == 0);
  }
  close_client(&c);
}

static void table(void) {
  static Client warm; /* pools and tables come into being here */
  open_client(&warm);
  compose(&warm, 0, "g");
  OK(qnn.graphFinalize(warm.graph, NULL, NULL));
  close_client(&warm);
  uint64_t before = used();
  for (unsigned prepared = 0; prepared < 8; ++prepared) {
    for (unsigned executed = 0; executed < 8; ++executed) check_row(prepared, executed);
  }
  EQUAL(used(), before);
}

/* ---- the rules ---- */

static QnnMemHtp_Descriptor_t htp(QnnHtpMem_Type_t type, int fd, uint64_t size, uint64_t offset) {
  QnnMemHtp_Descriptor_t d;
  memset(&d, 0, sizeof d);
  d.type = type;
  d.size = size;
  d.sharedBufferConfig.fd = fd;
  d.sharedBufferConfig.offset = offset;
  return d;
}

/* Registers as HTP's custom memory; *handle is null after a refusal. */
static Qnn_ErrorHandle_t custom(Client* c, QnnMemHtp_Descriptor_t info, Qnn_MemHandle_t* handle) {
  Qnn_MemDescriptor_t d = descriptor(c, QNN_MEM_TYPE_CUSTOM);
  if (info.type == QNN_HTP_MEM_WEIGHTS_BUFFER || info.type == QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER) {
    d.memShape.numDim = 0;
    d.memShape.dimSize = NULL;
    d.dataType = QNN_DATATYPE_UNDEFINED;
  }
  d.customInfo = &info;
  *handle = (Qnn_MemHandle_t)&info; /* must be overwritten */
  Qnn_ErrorHandle_t e = qnn.memRegister(c->context, &d, 1, handle);
  EXPECT((e == QNN_SUCCESS) == (*handle != NULL));
  return e;
}

static void registration_rules(Client* c, Client* other) {
  const QnnHtpMem_Type_t kShared = QNN_HTP_MEM_SHARED_BUFFER;
  void* memory = rpc_alloc(25, 1, 4 * kPage);
  int fd = rpc_to_fd(memory);
  Qnn_MemHandle_t h[3], again, theirs;

  /* ION: one handle for an fd in a context; another context has its own. */
  Qnn_MemDescriptor_t ion = descriptor(c, QNN_MEM_TYPE_ION);
  ion.ionInfo.fd = fd;
  OK(qnn.memRegister(c->context, &ion, 1, &h[0]));
  again = h[0];
  REFUSED(qnn.memRegister(c->context, &ion, 1, &again), QNN_MEM_ERROR_ALREADY_REGISTERED);
  EXPECT(again == NULL);
  OK(qnn.memRegister(other->context, &ion, 1, &theirs));
  EXPECT(theirs != h[0]);
  OK(qnn.memDeRegister(&theirs, 1));
  OK(qnn.memDeRegister(&h[0], 1));
  REFUSED(qnn.memDeRegister(&h[0], 1), QNN_MEM_ERROR_INVALID_HANDLE);

  /* SHARED_BUFFER: many tensors in one buffer, whose whole size each descriptor states. */
  OK(custom(c, htp(kShared, fd, 4 * kPage, 0), &h[0]));
  OK(custom(c, htp(kShared, fd, 4 * kPage, kPage), &h[1]));
  OK(custom(c, htp(kShared, fd, 4 * kPage, 4 * kPage - kBytes), &h[2]));
  EXPECT(h[0] != h[1] && h[1] != h[2]);
  REFUSED(custom(c, htp(kShared, fd, 4 * kPage, kPage), &again), QNN_MEM_ERROR_ALREADY_REGISTERED);
  REFUSED(custom(c, htp(kShared, fd, kBytes, 2 * kPage), &again), QNN_MEM_ERROR_INVALID_ARGUMENT);
  REFUSED(custom(c, htp(kShared, fd, kBytes, 0), &again), QNN_MEM_ERROR_INVALID_ARGUMENT);
  EXPECT(said(QNN_MEM_ERROR_INVALID_ARGUMENT, "whole buffer behind the fd"));
  REFUSED(custom(c, htp(kShared, fd, 4 * kPage, 4 * kPage - kBytes + 4), &again),
          QNN_MEM_ERROR_INVALID_ARGUMENT);
  REFUSED(custom(c, htp(kShared, fd, 4 * kPage, ~(uint64_t)0 - 8), &again),
          QNN_MEM_ERROR_INVALID_ARGUMENT);
  REFUSED(custom(c, htp(kShared, -1, 4 * kPage, 0), &again), QNN_MEM_ERROR_INVALID_ARGUMENT);
  REFUSED(custom(c, htp(kShared, 987654, 4 * kPage, 0), &again), QNN_MEM_ERROR_MAPPING);

  /* Deregistering goes on past a bad handle; retrying the same array is 8001 for all of it. */
  Qnn_MemHandle_t mixed[4] = {h[0], NULL, h[1], h[2]};
  REFUSED(qnn.memDeRegister(mixed, 4), QNN_MEM_ERROR_INVALID_HANDLE);
  for (int i = 0; i < 3; ++i) REFUSED(qnn.memDeRegister(&h[i], 1), QNN_MEM_ERROR_INVALID_HANDLE);
  REFUSED(qnn.memDeRegister(NULL, 1), QNN_MEM_ERROR_INVALID_ARGUMENT);

  /* All or nothing, with the output nulled. */
  Qnn_MemDescriptor_t three[3];
  QnnMemHtp_Descriptor_t infos[3];
  for (int i = 0; i < 3; ++i) {
    infos[i] = htp(kShared, fd, 4 * kPage, (uint64_t)i * kPage);
    three[i] = descriptor(c, QNN_MEM_TYPE_CUSTOM);
    three[i].customInfo = &infos[i];
    h[i] = (Qnn_MemHandle_t)&infos[i];
  }
  infos[2].size = kPage;
  REFUSED(qnn.memRegister(c->context, three, 3, h), QNN_MEM_ERROR_INVALID_ARGUMENT);
  EXPECT(h[0] == NULL && h[1] == NULL && h[2] == NULL);
  infos[2].size = 4 * kPage;
  OK(qnn.memRegister(c->context, three, 3, h));
  OK(qnn.memDeRegister(h, 3));
  h[0] = (Qnn_MemHandle_t)&infos[0];
  REFUSED(qnn.memRegister(c->graph, three, 1, h), QNN_MEM_ERROR_INVALID_HANDLE);
  EXPECT(h[0] == NULL);
  REFUSED(qnn.memRegister(c->context, NULL, 1, h), QNN_MEM_ERROR_INVALID_ARGUMENT);
  REFUSED(qnn.memRegister(c->context, three, 1, NULL), QNN_MEM_ERROR_INVALID_ARGUMENT);

  /* Buffers of the context as a whole: no shape, no type. */
  OK(custom(c, htp(QNN_HTP_MEM_WEIGHTS_BUFFER, fd, 4 * kPage, 0), &h[0]));
  OK(custom(c, htp(QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER, fd, 4 * kPage, 2 * kPage), &h[1]));
  REFUSED(custom(c, htp(QNN_HTP_MEM_WEIGHTS_BUFFER, fd, 4 * kPage, 4 * kPage), &again),
          QNN_MEM_ERROR_INVALID_ARGUMENT);
  infos[0] = htp(QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER, fd, 4 * kPage, kPage);
  REFUSED(qnn.memRegister(c->context, three, 1, &again), QNN_MEM_ERROR_INVALID_SHAPE);
  OK(qnn.memDeRegister(h, 2));

  /* Kinds and layouts that no CPU can serve. */
  REFUSED(custom(c, htp(QNN_HTP_MEM_QURT, fd, kBytes, 0), &again),
          QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  REFUSED(custom(c, htp((QnnHtpMem_Type_t)99, fd, kBytes, 0), &again),
          QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  ion.memType = (Qnn_MemType_t)99;
  REFUSED(qnn.memRegister(c->context, &ion, 1, &again), QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  ion.memType = QNN_MEM_TYPE_CUSTOM;
  ion.customInfo = NULL;
  REFUSED(qnn.memRegister(c->context, &ion, 1, &again), QNN_MEM_ERROR_INVALID_ARGUMENT);
  static const char* const layouts[] = {"RGBA8888", "NV12",     "NV12_Y",   "NV12_UV",
                                        "NV124R",   "NV124R_Y", "NV124R_UV"};
  ion = descriptor(c, QNN_MEM_TYPE_ION);
  ion.ionInfo.fd = fd;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; ++i) {
    ion.memShape.shapeConfig = layouts[i];
    REFUSED(qnn.memRegister(c->context, &ion, 1, &again), QNN_MEM_ERROR_INVALID_SHAPE);
    EXPECT(said(QNN_MEM_ERROR_INVALID_SHAPE, layouts[i]));
  }
  ion.memShape.shapeConfig = NULL;
  uint32_t wrong[2] = {0, 4};
  ion.memShape.dimSize = wrong;
  REFUSED(qnn.memRegister(c->context, &ion, 1, &again), QNN_MEM_ERROR_INVALID_SHAPE);
  ion.memShape.numDim = 0;
  REFUSED(qnn.memRegister(c->context, &ion, 1, &again), QNN_MEM_ERROR_INVALID_SHAPE);
  rpc_free(memory);

  /* DMA_BUF: an fd and the address where the client has mapped it. */
  int file = memfd_create("dma", MFD_CLOEXEC);
  EXPECT(file >= 0 && ftruncate(file, 2 * kPage) == 0);
  float* mapped = mmap(NULL, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  EXPECT(mapped != MAP_FAILED);
  Qnn_MemDescriptor_t dma = descriptor(c, QNN_MEM_TYPE_DMA_BUF);
  dma.dmaBufInfo.fd = file;
  dma.dmaBufInfo.data = mapped;
  OK(qnn.memRegister(c->context, &dma, 1, &h[0]));
  REFUSED(qnn.memRegister(c->context, &dma, 1, &again), QNN_MEM_ERROR_ALREADY_REGISTERED);
  use_raw(c, 0);
  use_raw(c, 1);
  c->t[2].v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE; /* several tensors may share one handle */
  c->t[2].v1.memHandle = h[0];
  c->raw[0][5] = 3;
  OK(run(c));
  EXPECT(mapped[5] == c->raw[0][5] + c->raw[1][5]);
  OK(qnn.memDeRegister(h, 1));
  dma.dmaBufInfo.data = NULL;
  REFUSED(qnn.memRegister(c->context, &dma, 1, &again), QNN_MEM_ERROR_INVALID_ARGUMENT);
  dma.dmaBufInfo.data = c; /* mapped, but not from this file */
  REFUSED(qnn.memRegister(c->context, &dma, 1, &again), QNN_MEM_ERROR_MAPPING);
  munmap(mapped, 2 * kPage);
  close(file);
}

static void execution_rules(Client* c, Client* other) {
  Qnn_MemHandle_t h;
  for (int i = 0; i < kTensors; ++i) use_handle(c, i);
  run_and_compare(c, 3);
  /* Null, foreign and stale handles. */
  c->t[1].v1.memHandle = NULL;
  REFUSED(run(c), QNN_GRAPH_ERROR_INVALID_TENSOR);
  EXPECT(said(QNN_GRAPH_ERROR_INVALID_TENSOR, "'b'"));
  use_handle(other, 1);
  c->t[1].v1.memHandle = other->handles[1];
  REFUSED(run(c), QNN_GRAPH_ERROR_INVALID_TENSOR);
  EXPECT(said(QNN_GRAPH_ERROR_INVALID_TENSOR, "another context"));
  h = c->handles[1];
  OK(qnn.memDeRegister(&h, 1));
  c->t[1].v1.memHandle = h;
  REFUSED(run(c), QNN_GRAPH_ERROR_INVALID_TENSOR);
  /* Freed before it is deregistered: lenient, the handle goes with the memory. */
  c->handles[1] = NULL;
  rpc_free(c->shared[1]);
  c->shared[1] = NULL;
  use_handle(c, 1);
  h = c->handles[1];
  rpc_free(c->shared[1]);
  REFUSED(run(c), QNN_GRAPH_ERROR_INVALID_TENSOR);
  REFUSED(qnn.memDeRegister(&h, 1), QNN_MEM_ERROR_INVALID_HANDLE);
  c->handles[1] = NULL;
  c->shared[1] = NULL;
  use_handle(c, 1);
  run_and_compare(c, 4);

  /* Bound by an execution environment: deregistered after it is released, not before. */
  Qnn_TensorSet_t set;
  memset(&set, 0, sizeof set);
  set.version = QNN_TENSOR_SET_VERSION_1;
  set.v1.numInputs = 2;
  set.v1.inputs = c->t;
  set.v1.numOutputs = 1;
  set.v1.outputs = &c->t[2];
  QnnGraph_ExecuteEnvironment_t environment;
  memset(&environment, 0, sizeof environment);
  environment.option = QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_BIND_MEM_HANDLES;
  environment.tensorSet = set;
  QnnGraph_ExecuteEnvironment_t* list[1] = {&environment};
  const QnnGraph_ExecuteEnvironment_t* done[1] = {&environment};
  EQUAL(qnn.propertyHasCapability(QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_BIND_MEM_HANDLES),
        QNN_PROPERTY_SUPPORTED);
  OK(qnn.graphPrepareExecutionEnvironment(c->graph, list, 1));
  REFUSED(qnn.memDeRegister(&c->handles[0], 1), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
  EXPECT(said(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED, "execution environment"));
  run_and_compare(c, 5);
  OK(qnn.graphReleaseExecutionEnvironment(c->graph, done, 1));

  /* The runtime's staging memory, handed out: raw memory that is used where it is. */
  Qnn_Tensor_t own[kTensors];
  memcpy(own, c->t, sizeof own);
  for (int i = 0; i < kTensors; ++i) {
    own[i].v1.memType = QNN_TENSORMEMTYPE_RAW;
    own[i].v1.clientBuf.data = NULL;
    own[i].v1.clientBuf.dataSize = 0;
  }
  set.v1.inputs = own;
  set.v1.outputs = &own[2];
  memset(&environment, 0, sizeof environment);
  environment.option = QNN_GRAPH_EXECUTE_ENVIRONMENT_OPTION_POPULATE_CLIENT_BUFS;
  environment.tensorSet = set;
  EQUAL(qnn.propertyHasCapability(QNN_PROPERTY_GRAPH_SUPPORT_ENV_OPTION_POPULATE_CLIENT_BUFS),
        QNN_PROPERTY_SUPPORTED);
  OK(qnn.graphPrepareExecutionEnvironment(c->graph, list, 1));
  Qnnrt_GraphStats_t before, after;
  OK(graph_stats(c->graph, &before));
  EQUAL(before.reserved_bytes, kTensors * kBytes);
  for (int i = 0; i < kTensors; ++i) {
    EXPECT(own[i].v1.clientBuf.data != NULL && own[i].v1.clientBuf.dataSize == kBytes);
  }
  for (int e = 0; e < kElements; ++e) {
    ((float*)own[0].v1.clientBuf.data)[e] = (float)e;
    ((float*)own[1].v1.clientBuf.data)[e] = 1;
  }
  OK(qnn.graphExecute(c->graph, own, 2, &own[2], 1, NULL, NULL));
  EXPECT(((float*)own[2].v1.clientBuf.data)[kElements - 1] == kElements);
  OK(graph_stats(c->graph, &after));
  EQUAL(after.copied_bytes, before.copied_bytes);
  OK(qnn.graphReleaseExecutionEnvironment(c->graph, done, 1));

  /* A forked child has the parent's handles, but they are not its own. */
  pid_t child = fork();
  if (child == 0) _exit(run(c) == QNN_SUCCESS ? 1 : 0);
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  run_and_compare(c, 6);

  /* The context goes with handles in it: they are stale, and the log says how many. */
  warnings = 0;
  Qnn_GraphHandle_t graph = c->graph;
  OK(qnn.contextFree(c->context, NULL));
  c->context = NULL;
  EQUAL(warnings, 1);
  EXPECT(strstr(last_warning, "3 memory handles") != NULL);
  REFUSED(qnn.memDeRegister(c->handles, 3), QNN_MEM_ERROR_INVALID_HANDLE);
  memset(c->handles, 0, sizeof c->handles);
  REFUSED(qnn.graphExecute(graph, c->t, 2, &c->t[2], 1, NULL, NULL),
          QNN_GRAPH_ERROR_INVALID_CONTEXT);
}

static void strict(Client* c) {
  Qnnrt_GraphConfig_t ours;
  memset(&ours, 0, sizeof ours);
  ours.magic = QNNRT_GRAPH_CONFIG_MAGIC;
  ours.option = QNNRT_GRAPH_OPTION_STRICT;
  ours.strict = 1;
  QnnGraph_Config_t config;
  memset(&config, 0, sizeof config);
  config.option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
  config.customConfig = &ours;
  const QnnGraph_Config_t* list[2] = {&config, NULL};
  OK(qnn.graphSetConfig(c->graph, list));
  use_handle(c, 0);
  use_handle(c, 2);
  use_raw(c, 1);
  REFUSED(run(c), QNN_GRAPH_ERROR_INVALID_TENSOR);
  EXPECT(said(QNN_GRAPH_ERROR_INVALID_TENSOR, "'b'"));
  EXPECT(said(QNN_GRAPH_ERROR_INVALID_TENSOR, "prepared memhandle, executed raw"));
  use_handle(c, 1);
  run_and_compare(c, 1);
  ours.strict = 0;
  OK(qnn.graphSetConfig(c->graph, list));
}

static void rules(void) {
  static Client c, other;
  uint64_t before = used();
  open_client(&c);
  open_client(&other);
  compose(&c, 6, "g");
  OK(qnn.graphFinalize(c.graph, NULL, NULL));
  registration_rules(&c, &other);
  strict(&c);
  execution_rules(&c, &other);
  close_client(&other);
  close_client(&c);
  EQUAL(used(), before);
}

/* ---- the budget, which the environment set to 100,000 bytes ---- */

static void budget(void) {
  static Client c;
  Qnnrt_DomainInfo_t info;
  OK(domain_info(&info));
  EQUAL(info.budget_bytes, 100000);
  EQUAL(info.used_bytes, 0);
  open_client(&c);
  compose(&c, 0, "first");
  OK(qnn.graphFinalize(c.graph, NULL, NULL));
  EQUAL(used(), 3 * kPage); /* 12,000 bytes of tensors; the add and the relu are one: no arena */
  void* large = rpc_alloc(25, 1, 20 * kPage);
  Qnn_MemDescriptor_t d = descriptor(&c, QNN_MEM_TYPE_ION);
  d.ionInfo.fd = rpc_to_fd(large);
  Qnn_MemHandle_t h, no;
  OK(qnn.memRegister(c.context, &d, 1, &h));
  EQUAL(used(), 23 * kPage);
  /* 5,792 bytes are left: one page. */
  void* small = rpc_alloc(25, 1, 2 * kPage);
  d.ionInfo.fd = rpc_to_fd(small);
  REFUSED(qnn.memRegister(c.context, &d, 1, &no), QNN_MEM_ERROR_MAPPING);
  EXPECT(no == NULL);
  EXPECT(said(QNN_MEM_ERROR_MAPPING, "registered buffer"));
  EXPECT(said(QNN_MEM_ERROR_MAPPING, "staging of graph 'first'"));
  Qnn_GraphHandle_t first = c.graph;
  compose(&c, 0, "second");
  REFUSED(qnn.graphFinalize(c.graph, NULL, NULL), QNN_MEM_ERROR_MAPPING);
  EXPECT(said(QNN_MEM_ERROR_MAPPING, "staging of graph 'second'"));
  compose(&c, 7, "third"); /* prepared memhandle: fits, until it is executed raw */
  OK(qnn.graphFinalize(c.graph, NULL, NULL));
  for (int i = 0; i < kTensors; ++i) use_raw(&c, i);
  REFUSED(run(&c), QNN_MEM_ERROR_MAPPING);
  EXPECT(said(QNN_MEM_ERROR_MAPPING, "staging of graph 'third'"));
  OK(qnn.memDeRegister(&h, 1)); /* room again */
  run_and_compare(&c, 1);
  c.graph = first;
  rpc_free(small);
  rpc_free(large);
  close_client(&c);
  EQUAL(used(), 0);
}

int main(int argc, char** argv) {
  if (argc != 4) fail(__LINE__, "HTP_LIBRARY RPC_LIBRARY table|rules|budget");
  void* backend = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (backend == NULL) fail(__LINE__, dlerror());
  void* rpc = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (rpc == NULL) fail(__LINE__, dlerror());
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
  if (strcmp(argv[3], "table") == 0) {
    table();
  } else if (strcmp(argv[3], "rules") == 0) {
    rules();
  } else {
    budget();
  }
  printf("ok\n");
  return 0;
}
