/* What may be registered, deregistered and executed when on the htp backend, and with which code it
 * is refused; built on the installed headers alone:
 *
 *   qmem_rules HTP_LIBRARY RPC_LIBRARY
 *
 * Prints "ok" and exits 0, or says at which line what was expected and exits 1. */
#define _GNU_SOURCE
#include "qmem_client.h"

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
  /* The same memory at another address is the same memory: in place, it is the output; beside
     that the sum would be written where it is yet to be read. */
  float* twice = mmap(NULL, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  EXPECT(twice != MAP_FAILED);
  dma.dmaBufInfo.data = (char*)twice + 64;
  OK(qnn.memRegister(c->context, &dma, 1, &h[1]));
  c->t[0].v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  c->t[0].v1.memHandle = h[1];
  REFUSED(run(c), QNN_GRAPH_ERROR_INVALID_TENSOR);
  EXPECT(said(QNN_GRAPH_ERROR_INVALID_TENSOR, "'a' and output 'y' have memory in common"));
  c->t[0].v1.memHandle = h[0];
  mapped[5] = 3;
  OK(run(c));
  EXPECT(twice[5] == 3 + c->raw[1][5]);
  use_raw(c, 0);
  OK(qnn.memDeRegister(&h[1], 1));
  munmap(twice, 2 * kPage);
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

int main(int argc, char** argv) {
  if (argc != 3) FAIL("HTP_LIBRARY RPC_LIBRARY");
  load(argv[1], argv[2]);
  rules();
  printf("ok\n");
  return 0;
}
