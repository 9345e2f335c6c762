/* A C11 client of the gpu backend, built on the installed headers alone:
 *
 *   gpu_client BACKEND_LIBRARY OPENCL_LOADER
 *
 * y = relu(x + c): with RAW memory, then with OpenCL buffers of a context of its own, then of
 * another one. Prints "ok" and exits 0, or says at which line what was expected and exits 1. */
#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu_client.h"
#include "qnnrt/qnn_gpu.h"

enum { kRows = 64, kColumns = 128, kCount = kRows * kColumns, kBytes = kCount * 4 };

static float input[kCount], output[kCount], added[kCount];
static uint32_t shape[2] = {kRows, kColumns};

static void fill(float seed) {
  for (int i = 0; i < kCount; ++i) {
    input[i] = seed * (float)(i % 101 - 50);
    output[i] = -1.0f;
  }
}

static void check_output(void) {
  for (int i = 0; i < kCount; ++i) {
    const float sum = input[i] + added[i];
    EXPECT(output[i] == (sum > 0.0f ? sum : 0.0f));
  }
}

typedef struct {
  Qnn_GraphHandle_t handle;
  Qnn_Tensor_t x, y;
} Graph;

static Graph make_graph(Qnn_ContextHandle_t context, const char* name) {
  Graph g;
  Qnn_Tensor_t c = tensor_of("c", QNN_TENSOR_TYPE_STATIC, QNN_DATATYPE_FLOAT_32, 2, shape);
  Qnn_Tensor_t s = tensor_of("s", QNN_TENSOR_TYPE_NATIVE, QNN_DATATYPE_FLOAT_32, 2, shape);
  g.x = tensor_of("x", QNN_TENSOR_TYPE_APP_WRITE, QNN_DATATYPE_FLOAT_32, 2, shape);
  g.y = tensor_of("y", QNN_TENSOR_TYPE_APP_READ, QNN_DATATYPE_FLOAT_32, 2, shape);
  c.v1.clientBuf.data = added;
  c.v1.clientBuf.dataSize = kBytes;
  OK(qnn.graphCreate(context, name, NULL, &g.handle));
  OK(qnn.tensorCreateGraphTensor(g.handle, &g.x));
  OK(qnn.tensorCreateGraphTensor(g.handle, &c));
  OK(qnn.tensorCreateGraphTensor(g.handle, &s));
  OK(qnn.tensorCreateGraphTensor(g.handle, &g.y));
  Qnn_Tensor_t operands[2] = {g.x, c};
  OK(qnn.graphAddNode(g.handle, op("add", "ElementWiseAdd", NULL, 0, operands, 2, &s)));
  OK(qnn.graphAddNode(g.handle, op("relu", "Relu", NULL, 0, &s, 1, &g.y)));
  OK(qnn.graphFinalize(g.handle, NULL, NULL));
  return g;
}

static void run_raw(Graph* g, float seed) {
  fill(seed);
  g->x.v1.memType = g->y.v1.memType = QNN_TENSORMEMTYPE_RAW;
  g->x.v1.clientBuf.data = input;
  g->y.v1.clientBuf.data = output;
  g->x.v1.clientBuf.dataSize = g->y.v1.clientBuf.dataSize = kBytes;
  OK(qnn.graphExecute(g->handle, &g->x, 1, &g->y, 1, NULL, NULL));
  check_output();
}

static Qnn_MemDescriptor_t descriptor_of(QnnGpu_MemInfoCustom_t* info, void* buffer) {
  Qnn_MemDescriptor_t d;
  memset(&d, 0, sizeof d);
  info->memType = QNN_GPU_MEM_OPENCL;
  info->buffer = buffer;
  d.memShape.numDim = 2;
  d.memShape.dimSize = shape;
  d.dataType = QNN_DATATYPE_FLOAT_32;
  d.memType = QNN_MEM_TYPE_CUSTOM;
  d.customInfo = info;
  return d;
}

static void run_buffers(Graph* g, void* queue, void** buffers, Qnn_MemHandle_t* handles,
                        float seed) {
  fill(seed);
  EXPECT(cl.write(queue, buffers[0], 1, 0, kBytes, input, 0, NULL, NULL) == 0);
  g->x.v1.memType = g->y.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  g->x.v1.memHandle = handles[0];
  g->y.v1.memHandle = handles[1];
  OK(qnn.graphExecute(g->handle, &g->x, 1, &g->y, 1, NULL, NULL));
  EXPECT(cl.read(queue, buffers[1], 1, 0, kBytes, output, 0, NULL, NULL) == 0);
  check_output();
}

static void refuse(Qnn_ContextHandle_t context, Qnn_MemDescriptor_t* d, uint32_t code) {
  Qnn_MemHandle_t handle = &handle;
  REFUSED(qnn.memRegister(context, d, 1, &handle), code);
  EXPECT(handle == NULL);
}

/* What is no OpenCL buffer, too small, or of another kind. */
static void misuse(Qnn_ContextHandle_t context, void* cl_context) {
  static float bytes[64];
  QnnGpu_MemInfoCustom_t info;
  void* small = new_buffer(cl_context, kReadWrite, kBytes - 4);
  Qnn_MemDescriptor_t d = descriptor_of(&info, small);
  refuse(context, &d, QNN_MEM_ERROR_INVALID_ARGUMENT);
  d = descriptor_of(&info, NULL);
  refuse(context, &d, QNN_MEM_ERROR_INVALID_ARGUMENT);
  d = descriptor_of(&info, bytes); /* as the tutorial is printed: the bytes, not the buffer */
  refuse(context, &d, QNN_MEM_ERROR_INVALID_ARGUMENT);
  d = descriptor_of(&info, (char*)bytes + 1);
  refuse(context, &d, QNN_MEM_ERROR_INVALID_ARGUMENT);
  d = descriptor_of(&info, (void*)(uintptr_t)4096); /* where nothing is mapped */
  refuse(context, &d, QNN_MEM_ERROR_INVALID_ARGUMENT);
  info.memType = QNN_GPU_MEM_UNDEFINED;
  refuse(context, &d, QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  d.memType = QNN_MEM_TYPE_ION;
  refuse(context, &d, QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE);
  EXPECT(cl.release_buffer(small) == 0);
}

/* A context's whole life, in which the graphs were compiled before there was any buffer. */
static void with_buffers(Qnn_ContextHandle_t context, Graph* graphs, float seed) {
  void *cl_context = new_context(), *queue = new_queue(cl_context);
  void* other = new_context();
  void* buffers[2] = {new_buffer(cl_context, kReadWrite, kBytes),
                      new_buffer(cl_context, kReadWrite, kBytes)};
  void* elsewhere = new_buffer(other, kReadWrite, kBytes);
  QnnGpu_MemInfoCustom_t infos[3];
  Qnn_MemHandle_t handles[2], no_handles[2];
  Qnn_MemDescriptor_t d[2] = {descriptor_of(&infos[0], buffers[0]),
                              descriptor_of(&infos[1], buffers[1])};
  misuse(context, cl_context);
  OK(qnn.memRegister(context, d, 2, handles));
  EXPECT(references(buffers[0]) >= 2);
  REFUSED(qnn.memRegister(context, d, 1, no_handles), QNN_MEM_ERROR_ALREADY_REGISTERED);
  d[1] = descriptor_of(&infos[2], elsewhere);
  refuse(context, &d[1], QNN_MEM_ERROR_INVALID_ARGUMENT);
  for (int i = 0; i < 3; ++i) {
    run_buffers(&graphs[0], queue, buffers, handles, seed + (float)i);
    run_buffers(&graphs[1], queue, buffers, handles, seed - (float)i);
    run_raw(&graphs[0], seed);
  }
  OK(qnn.memDeRegister(handles, 2));
  REFUSED(qnn.memDeRegister(handles, 2), QNN_MEM_ERROR_INVALID_HANDLE);
  graphs[0].x.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  graphs[0].x.v1.memHandle = handles[0];
  REFUSED(qnn.graphExecute(graphs[0].handle, &graphs[0].x, 1, &graphs[0].y, 1, NULL, NULL),
          QNN_GRAPH_ERROR_INVALID_TENSOR);
  run_raw(&graphs[1], seed);
  EXPECT(cl.release_buffer(buffers[0]) == 0 && cl.release_buffer(buffers[1]) == 0);
  EXPECT(cl.release_buffer(elsewhere) == 0 && cl.release_context(other) == 0);
  EXPECT(cl.release_queue(queue) == 0 && cl.release_context(cl_context) == 0);
}

/* ---- context binaries */

static void* binary_of(Qnn_ContextHandle_t context, Qnn_ContextBinarySize_t* size) {
  Qnn_ContextBinarySize_t written = 0;
  void* binary = NULL;
  OK(qnn.contextGetBinarySize(context, size));
  EXPECT(posix_memalign(&binary, 4096, *size) == 0);
  REFUSED(qnn.contextGetBinary(context, binary, *size - 1, &written),
          QNN_CONTEXT_ERROR_GET_BINARY_FAILED);
  OK(qnn.contextGetBinary(context, binary, *size, &written));
  EXPECT(written == *size);
  return binary;
}

static Graph retrieved(Qnn_ContextHandle_t context, const char* name) {
  Graph g;
  g.x = tensor_of("x", QNN_TENSOR_TYPE_APP_WRITE, QNN_DATATYPE_FLOAT_32, 2, shape);
  g.y = tensor_of("y", QNN_TENSOR_TYPE_APP_READ, QNN_DATATYPE_FLOAT_32, 2, shape);
  OK(qnn.graphRetrieve(context, name, &g.handle));
  return g;
}

/* There is no compiler, and the binary's graphs run. */
static void from_binary(Qnn_BackendHandle_t backend, Graph* composed, unsigned char* binary,
                        Qnn_ContextBinarySize_t size, uint32_t persistent) {
  Qnn_ContextHandle_t context, none;
  QnnContext_Config_t config, only;
  const QnnContext_Config_t* configs[3] = {&config, NULL, NULL};
  const char* names[2] = {"second", NULL};
  const char* wrong[2] = {"third", NULL};
  Graph graphs[2];
  setenv("QNNRT_GPU_COMPILER", "exit 9", 1);
  config.option = QNN_CONTEXT_CONFIG_PERSISTENT_BINARY;
  config.isPersistentBinary = (uint8_t)persistent;
  only.option = QNN_CONTEXT_CONFIG_ENABLE_GRAPHS;
  only.enableGraphs = names;
  OK(qnn.contextValidateBinary(backend, NULL, NULL, binary, size));
  OK(qnn.contextCreateFromBinary(backend, NULL, configs, binary, size, &context, NULL));
  graphs[0] = retrieved(context, "first");
  graphs[1] = retrieved(context, "second");
  for (int i = 0; i < 2; ++i) {
    graphs[i].x.v1.id = composed[i].x.v1.id;
    graphs[i].y.v1.id = composed[i].y.v1.id;
    run_raw(&graphs[i], 3.0f);
  }
  with_buffers(context, graphs, 0.125f);
  OK(qnn.contextFree(context, NULL));
  configs[1] = &only;
  OK(qnn.contextCreateFromBinary(backend, NULL, configs, binary, size, &context, NULL));
  graphs[1] = retrieved(context, "second");
  graphs[1].x.v1.id = composed[1].x.v1.id;
  graphs[1].y.v1.id = composed[1].y.v1.id;
  run_raw(&graphs[1], 3.0f);
  REFUSED(qnn.graphRetrieve(context, "first", &graphs[0].handle),
          QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST);
  OK(qnn.contextFree(context, NULL));
  only.enableGraphs = wrong;
  REFUSED(qnn.contextCreateFromBinary(backend, NULL, configs, binary, size, &none, NULL),
          QNN_CONTEXT_ERROR_INVALID_CONFIG);
  /* In the header, the metadata and the weights. */
  for (Qnn_ContextBinarySize_t at = 100; at < size; at += at < 8192 ? 97 : 9973) {
    binary[at] ^= 0x10;
    REFUSED(qnn.contextValidateBinary(backend, NULL, NULL, binary, size),
            QNN_CONTEXT_ERROR_CREATE_FROM_BINARY);
    binary[at] ^= 0x10;
  }
  OK(qnn.contextValidateBinary(backend, NULL, NULL, binary, size));
}

/* The child of a fork is refused, and ends without touching what is its parent's. */
static void fork_a_child(Qnn_BackendHandle_t backend, Qnn_ContextHandle_t context, Graph* g) {
  const pid_t child = fork();
  int status = 0;
  EXPECT(child >= 0);
  if (child == 0) {
    Qnn_BackendHandle_t other;
    g->x.v1.memType = g->y.v1.memType = QNN_TENSORMEMTYPE_RAW;
    g->x.v1.clientBuf.data = input;
    g->y.v1.clientBuf.data = output;
    g->x.v1.clientBuf.dataSize = g->y.v1.clientBuf.dataSize = kBytes;
    REFUSED(qnn.graphExecute(g->handle, &g->x, 1, &g->y, 1, NULL, NULL),
            QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
    REFUSED(qnn.backendCreate(NULL, NULL, &other), QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
    (void)qnn.contextFree(context, NULL);
    (void)qnn.backendFree(backend);
    _exit(0);
  }
  /* Where SIGCHLD is ignored, nobody knows how it ended. */
  if (waitpid(child, &status, 0) != child) EXPECT(errno == ECHILD);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int count_fds(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  EXPECT(folder != NULL);
  while (readdir(folder) != NULL) ++count;
  closedir(folder);
  return count;
}

int main(int argc, char** argv) {
  Qnn_LogHandle_t log;
  Qnn_BackendHandle_t backend;
  Qnn_ContextHandle_t context;
  Graph graphs[2];
  if (argc != 3) FAIL("BACKEND_LIBRARY OPENCL_LOADER");
  open_opencl(argv[2]);
  open_only_backend(argv[1], QNN_BACKEND_ID_GPU, "GPU_QTI_AISW");
  for (int i = 0; i < kCount; ++i) added[i] = (float)(i % 7) - 3.0f;
  OK(qnn.logCreate(NULL, QNN_LOG_LEVEL_WARN, &log));
  OK(qnn.backendCreate(log, NULL, &backend));
  OK(qnn.contextCreate(backend, NULL, NULL, &context));
  graphs[0] = make_graph(context, "first");
  run_raw(&graphs[0], 0.5f);
  const int fds = count_fds();
  graphs[1] = make_graph(context, "second");
  run_raw(&graphs[1], 0.25f);
  EXPECT(count_fds() == fds);
  fork_a_child(backend, context, &graphs[0]);
  with_buffers(context, graphs, 1.5f);
  with_buffers(context, graphs, -2.5f); /* other buffers, in another cl_context */
  Qnn_ContextBinarySize_t size = 0;
  void* binary = binary_of(context, &size);
  OK(qnn.contextFree(context, NULL));
  from_binary(backend, graphs, binary, size, 0);
  from_binary(backend, graphs, binary, size, 1);
  free(binary);
  OK(qnn.backendFree(backend));
  OK(qnn.logFree(log));
  puts("ok");
  return 0;
}
