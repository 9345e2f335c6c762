/* A C11 client of a QNN backend, built on the installed headers alone:
 *
 *   c_client BACKEND_LIBRARY RPC_LIBRARY
 *
 * y = relu(conv(x) + s) is built, run over shared and over plain memory and compared with loops
 * written here; what must be refused is tried; everything is given back. Prints "ok" and exits 0,
 * or says at which line what was expected and exits 1. */
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_checks.h"
#include "qnnrt/qnn.h"
#include "qnnrt/qnn_cpu.h"
#include "qnnrt/qnn_gpu.h"
#include "qnnrt/qnn_htp.h"
#include "qnnrt/qnn_ir.h"
#include "qnnrt/qnn_lpai.h"
#include "qnnrt/qnn_op_names.h"
#include "qnnrt/qnn_op_package.h"
#include "qnnrt/qnn_op_values.h"
#include "qnnrt/qnn_saver.h"
#include "qnnrt/qnn_system.h"
#include "qnnrt/qnnrt_ext.h"
#include "qnnrt/rpcmem.h"

enum { kHeight = 6, kWidth = 7, kIn = 3, kOut = 5, kKernel = 3, kPad = 1 };
enum { kXCount = kHeight * kWidth * kIn, kYCount = kHeight * kWidth * kOut, kOffset = 8192 };

static unsigned logged; /* messages at level ERROR */

static void on_log(const char* format, QnnLog_Level_t level, uint64_t timestamp, va_list args) {
  char text[512];
  (void)timestamp;
  EXPECT(vsnprintf(text, sizeof text, format, args) > 0);
  if (level == QNN_LOG_LEVEL_ERROR) ++logged;
}

static void* open_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) FAIL(dlerror());
  return library;
}

static Qnn_Tensor_t tensor(const char* name, Qnn_TensorType_t type, uint32_t rank,
                           uint32_t* dimensions) {
  return tensor_of(name, type, QNN_DATATYPE_FLOAT_32, rank, dimensions);
}

static Qnn_Tensor_t constant(const char* name, uint32_t rank, uint32_t* dimensions,
                             Qnn_DataType_t type, void* data, uint32_t size) {
  Qnn_Tensor_t t = tensor(name, QNN_TENSOR_TYPE_STATIC, rank, dimensions);
  t.v1.dataType = type;
  t.v1.clientBuf.data = data;
  t.v1.clientBuf.dataSize = size;
  return t;
}

/* Values in [-1, 1) that differ from each other: a plain linear congruence. */
static void fill(float* values, int count, uint32_t seed) {
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)seed / 2147483648.0f;
  }
}

static float weights[kKernel * kKernel * kIn * kOut], bias[kOut];

static void reference(const float* x, const float* s, float* y) {
  for (int h = 0; h < kHeight; ++h)
    for (int w = 0; w < kWidth; ++w)
      for (int o = 0; o < kOut; ++o) {
        double sum = bias[o];
        for (int i = 0; i < kKernel; ++i)
          for (int j = 0; j < kKernel; ++j) {
            int r = h + i - kPad, c = w + j - kPad;
            if (r < 0 || r >= kHeight || c < 0 || c >= kWidth) continue;
            for (int k = 0; k < kIn; ++k)
              sum += (double)x[(r * kWidth + c) * kIn + k] *
                     weights[((i * kKernel + j) * kIn + k) * kOut + o];
          }
        sum += s[(h * kWidth + w) * kOut + o];
        y[(h * kWidth + w) * kOut + o] = sum > 0 ? (float)sum : 0;
      }
}

static void expect_result(int line, const float* x, const float* s, const float* y) {
  float expected[kYCount];
  reference(x, s, expected);
  for (int i = 0; i < kYCount; ++i) {
    if (fabsf(y[i] - expected[i]) <= 1e-5f) continue;
    fprintf(stderr, "c_client.c:%d: y[%d]: expected %g, got %g\n", line, i, expected[i], y[i]);
    exit(1);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) FAIL("BACKEND_LIBRARY RPC_LIBRARY");
  void* backend_library = open_library(argv[1]);
  void* rpc_library = open_library(argv[2]);
  void* (*rpc_alloc)(int, uint32_t, int);
  int (*rpc_to_fd)(void*);
  void (*rpc_free)(void*);
  void (*live_counts)(Qnnrt_LiveCounts_t*);
  uint64_t (*graph_stats)(Qnn_GraphHandle_t, Qnnrt_GraphStats_t*);
  QnnInterface_GetProvidersFn_t get_providers;
  resolve(rpc_library, "rpcmem_alloc", &rpc_alloc, sizeof rpc_alloc);
  resolve(rpc_library, "rpcmem_to_fd", &rpc_to_fd, sizeof rpc_to_fd);
  resolve(rpc_library, "rpcmem_free", &rpc_free, sizeof rpc_free);
  resolve(backend_library, "qnnrt_live_counts", &live_counts, sizeof live_counts);
  resolve(backend_library, "qnnrt_graph_stats", &graph_stats, sizeof graph_stats);
  resolve(backend_library, "QnnInterface_getProviders", &get_providers, sizeof get_providers);

  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  OK(get_providers(&providers, &count));
  EXPECT(count == 1);
  EXPECT(providers[0]->backendId == QNN_BACKEND_ID_CPU);
  EXPECT(strcmp(providers[0]->providerName, QNN_PROVIDER_NAME_CPU) == 0);
  EXPECT(providers[0]->apiVersion.coreApiVersion.major == QNN_API_VERSION_MAJOR);
  qnn = providers[0]->v2_32;

  Qnn_LogHandle_t log = NULL;
  Qnn_BackendHandle_t backend = NULL;
  Qnn_ContextHandle_t context = NULL;
  Qnn_GraphHandle_t graph = NULL;
  OK(qnn.logCreate(on_log, QNN_LOG_LEVEL_DEBUG, &log));
  OK(qnn.backendCreate(log, NULL, &backend));
  OK(qnn.propertyHasCapability(QNN_PROPERTY_TENSOR_SUPPORT_MEMHANDLE_TYPE));
  OK(qnn.contextCreate(backend, NULL, NULL, &context));
  OK(qnn.graphCreate(context, "conv_add", NULL, &graph));

  /* The graph. Ids are given by the backend; names are for people. */
  uint32_t x_dims[] = {1, kHeight, kWidth, kIn}, y_dims[] = {1, kHeight, kWidth, kOut};
  uint32_t w_dims[] = {kKernel, kKernel, kIn, kOut}, b_dims[] = {kOut};
  uint32_t two[] = {2}, two_by_two[] = {2, 2};
  uint32_t stride[] = {1, 1}, pads[] = {kPad, kPad, kPad, kPad};
  fill(weights, kKernel * kKernel * kIn * kOut, 1);
  fill(bias, kOut, 2);
  Qnn_Tensor_t x = tensor("x", QNN_TENSOR_TYPE_APP_WRITE, 4, x_dims);
  Qnn_Tensor_t s = tensor("s", QNN_TENSOR_TYPE_APP_WRITE, 4, y_dims);
  Qnn_Tensor_t c = tensor("c", QNN_TENSOR_TYPE_NATIVE, 4, y_dims);
  Qnn_Tensor_t a = tensor("a", QNN_TENSOR_TYPE_NATIVE, 4, y_dims);
  Qnn_Tensor_t y = tensor("y", QNN_TENSOR_TYPE_APP_READ, 4, y_dims);
  Qnn_Tensor_t w = constant("w", 4, w_dims, QNN_DATATYPE_FLOAT_32, weights, sizeof weights);
  Qnn_Tensor_t b = constant("b", 1, b_dims, QNN_DATATYPE_FLOAT_32, bias, sizeof bias);
  Qnn_Tensor_t* created[] = {&x, &s, &y, &w, &b, &c, &a};
  for (size_t i = 0; i < sizeof created / sizeof *created; ++i) {
    OK(qnn.tensorCreateGraphTensor(graph, created[i]));
    EXPECT(created[i]->v1.id != 0);
  }
  REFUSED(qnn.tensorCreateGraphTensor(graph, &x), QNN_TENSOR_ERROR_ALREADY_EXISTS);

  Qnn_Param_t params[2];
  memset(params, 0, sizeof params);
  params[0].paramType = params[1].paramType = QNN_PARAMTYPE_TENSOR;
  params[0].name = "stride";
  params[0].tensorParam =
      constant("conv_stride", 1, two, QNN_DATATYPE_UINT_32, stride, sizeof stride);
  params[1].name = "pad_amount";
  params[1].tensorParam =
      constant("conv_pads", 2, two_by_two, QNN_DATATYPE_UINT_32, pads, sizeof pads);
  Qnn_Tensor_t conv_in[] = {x, w, b}, add_in[] = {c, s};
  Qnn_OpConfig_t conv = op("conv", "Conv2d", params, 2, conv_in, 3, &c);
  OK(qnn.backendValidateOpConfig(backend, conv));
  OK(qnn.graphAddNode(graph, conv));
  EXPECT(logged > 0); /* the refused tensor was said */
  unsigned before = logged;
  REFUSED(qnn.graphAddNode(graph, op("odd", "NoSuchOp", NULL, 0, add_in, 2, &a)),
          QNN_GRAPH_ERROR_INVALID_OP_CONFIG);
  EXPECT(logged == before + 1);
  OK(qnn.graphAddNode(graph, op("add", "ElementWiseAdd", NULL, 0, add_in, 2, &a)));
  OK(qnn.graphAddNode(graph, op("relu", "Relu", NULL, 0, &a, 1, &y)));
  REFUSED(qnn.graphExecute(graph, &x, 1, &y, 1, NULL, NULL), QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED);
  OK(qnn.graphFinalize(graph, NULL, NULL));
  memset(weights, 0x7f, sizeof weights); /* a finalized graph reads none of its client's arrays */
  fill(weights, kKernel * kKernel * kIn * kOut, 1);

  /* x in a buffer of its own (ION), s in the second page of another one (SHARED_BUFFER). */
  float* x_memory = rpc_alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, kXCount * sizeof(float));
  char* shared = rpc_alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, 4 * kOffset);
  EXPECT(x_memory != NULL && shared != NULL);
  EXPECT(rpc_to_fd(x_memory) >= 0 && rpc_to_fd(shared) >= 0);
  EXPECT(rpc_to_fd(shared + kOffset) == -1);
  float* s_memory = (float*)(void*)(shared + kOffset);
  float* y_memory = (float*)(void*)(shared + 2 * kOffset);
  QnnMemHtp_Descriptor_t places[2];
  Qnn_MemDescriptor_t descriptors[3];
  memset(places, 0, sizeof places);
  memset(descriptors, 0, sizeof descriptors);
  for (int i = 0; i < 3; ++i) {
    descriptors[i].memShape.numDim = 4;
    descriptors[i].memShape.dimSize = i == 0 ? x_dims : y_dims;
    descriptors[i].dataType = QNN_DATATYPE_FLOAT_32;
    if (i == 0) {
      descriptors[i].memType = QNN_MEM_TYPE_ION;
      descriptors[i].ionInfo.fd = rpc_to_fd(x_memory);
      continue;
    }
    places[i - 1].type = QNN_HTP_MEM_SHARED_BUFFER;
    places[i - 1].size = 4 * kOffset; /* of the whole buffer */
    places[i - 1].sharedBufferConfig.fd = rpc_to_fd(shared);
    places[i - 1].sharedBufferConfig.offset = (uint64_t)i * kOffset;
    descriptors[i].memType = QNN_MEM_TYPE_CUSTOM;
    descriptors[i].customInfo = &places[i - 1];
  }
  Qnn_MemHandle_t handles[3] = {NULL, NULL, NULL}, again = NULL;
  OK(qnn.memRegister(context, descriptors, 3, handles));
  EXPECT(handles[0] != NULL && handles[1] != NULL && handles[2] != NULL);
  REFUSED(qnn.memRegister(context, descriptors, 1, &again), QNN_MEM_ERROR_ALREADY_REGISTERED);
  places[0].sharedBufferConfig.offset = 4 * kOffset - sizeof(float); /* beyond its end */
  REFUSED(qnn.memRegister(context, &descriptors[1], 1, &again), QNN_MEM_ERROR_INVALID_ARGUMENT);
  EXPECT(again == NULL);

  /* Over shared memory, several times; then with plain memory for some of it. */
  Qnn_Tensor_t inputs[] = {x, s};
  inputs[0].v1.memType = inputs[1].v1.memType = y.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
  inputs[0].v1.memHandle = handles[0];
  inputs[1].v1.memHandle = handles[1];
  y.v1.memHandle = handles[2];
  for (uint32_t round = 0; round < 4; ++round) {
    fill(x_memory, kXCount, 10 + round);
    fill(s_memory, kYCount, 20 + round);
    memset(y_memory, 0xff, kYCount * sizeof(float));
    OK(qnn.graphExecute(graph, inputs, 2, &y, 1, NULL, NULL));
    expect_result(__LINE__, x_memory, s_memory, y_memory);
  }
  static float x_plain[kXCount], y_plain[kYCount];
  fill(x_plain, kXCount, 30);
  Qnn_Tensor_t swapped[] = {inputs[1], x}; /* matched by id, in any order */
  swapped[1].v1.clientBuf.data = x_plain;
  swapped[1].v1.clientBuf.dataSize = sizeof x_plain;
  Qnn_Tensor_t raw_y = y;
  raw_y.v1.memType = QNN_TENSORMEMTYPE_RAW;
  raw_y.v1.clientBuf.data = y_plain;
  raw_y.v1.clientBuf.dataSize = sizeof y_plain;
  OK(qnn.graphExecute(graph, swapped, 2, &raw_y, 1, NULL, NULL));
  expect_result(__LINE__, x_plain, s_memory, y_plain);
  raw_y.v1.clientBuf.dataSize = sizeof y_plain - 1;
  REFUSED(qnn.graphExecute(graph, inputs, 2, &raw_y, 1, NULL, NULL),
          QNN_GRAPH_ERROR_INVALID_TENSOR);
  inputs[1].v1.memHandle = handles[0]; /* registered with another shape */
  REFUSED(qnn.graphExecute(graph, inputs, 2, &y, 1, NULL, NULL), QNN_GRAPH_ERROR_INVALID_TENSOR);
  inputs[1].v1.memHandle = handles[1];

  /* What it cost: nothing was copied. And what a profile says of one execution. */
  Qnnrt_GraphStats_t stats;
  OK(graph_stats(graph, &stats));
  EXPECT(stats.executes == 5 && stats.copied_bytes == 0);
  Qnn_ProfileHandle_t profile = NULL;
  const QnnProfile_EventId_t *events = NULL, *nodes = NULL;
  QnnProfile_EventData_t event;
  OK(qnn.profileCreate(backend, QNN_PROFILE_LEVEL_DETAILED, &profile));
  OK(qnn.graphExecute(graph, inputs, 2, &y, 1, profile, NULL));
  OK(qnn.profileGetEvents(profile, &events, &count));
  EXPECT(count == 1);
  OK(qnn.profileGetEventData(events[0], &event));
  EXPECT(event.type == QNN_PROFILE_EVENTTYPE_EXECUTE);
  OK(qnn.profileGetSubEvents(events[0], &nodes, &count));
  EXPECT(count >= 1 && count == stats.num_steps);
  OK(qnn.profileGetEventData(nodes[0], &event));
  EXPECT(event.type == QNN_PROFILE_EVENTTYPE_NODE && strcmp(event.identifier, "conv") == 0);
  OK(qnn.profileFree(profile));

  /* Teardown; a handle that is gone is refused wherever it turns up. */
  OK(qnn.memDeRegister(handles, 3));
  REFUSED(qnn.memDeRegister(handles, 1), QNN_MEM_ERROR_INVALID_HANDLE);
  REFUSED(qnn.graphExecute(graph, inputs, 2, &y, 1, NULL, NULL), QNN_GRAPH_ERROR_INVALID_TENSOR);
  const char* message = NULL;
  OK(qnn.errorGetMessage(QNN_MEM_ERROR_INVALID_HANDLE, &message));
  EXPECT(message != NULL && *message != '\0');
  rpc_free(x_memory);
  rpc_free(shared);
  OK(qnn.contextFree(context, NULL));
  REFUSED(qnn.graphExecute(graph, inputs, 2, &y, 1, NULL, NULL), QNN_GRAPH_ERROR_INVALID_CONTEXT);
  OK(qnn.backendFree(backend));
  OK(qnn.logFree(log));
  Qnnrt_LiveCounts_t live;
  live_counts(&live);
  EXPECT(live.mem_handles == 0 && live.graphs == 0 && live.contexts == 0 && live.backends == 0);
  EXPECT(live.profiles == 0 && live.logs == 0);
  printf("ok\n");
  return 0;
}
