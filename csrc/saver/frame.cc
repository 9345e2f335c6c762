// What stands around the recorded calls.
#include "saver/program.h"

namespace qnnrt::saver {
namespace {

constexpr char kHead[] =
    R"(/* Recorded calls of the QNN API. They are made again, with any backend, by
 *   cc FILE.c -o replay -I"$QNN_SDK_ROOT/include/QNN" -ldl
 *   ./replay BACKEND.so [WEIGHTS [FOLDER]]
 * which ends with status 0 if all of them succeed. In the folder, which it makes, it writes the
 * outputs of executions, GRAPH_NUMBER_TENSOR.raw, and context binaries.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "QnnInterface.h"
#include "QnnTypes.h"

static QNN_INTERFACE_VER_TYPE qnn;
static unsigned char* weights;
static size_t weights_size;
static const char* folder;

static inline void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

/* Says what went wrong, and goes on. */
static inline void note(const char* call, Qnn_ErrorHandle_t error) {
  const char* text = NULL;
  if (error == QNN_SUCCESS) return;
  if (!qnn.errorGetVerboseMessage || qnn.errorGetVerboseMessage(error, &text) != QNN_SUCCESS)
    text = NULL;
  fprintf(stderr, "%s: error %u: %s\n", call, (unsigned)(error & 0xFFFFu), text ? text : "?");
}

static inline void check(const char* call, Qnn_ErrorHandle_t error) {
  note(call, error);
  if (error != QNN_SUCCESS) exit(1);
}

/* Bytes of the weights file. */
static inline void* data(size_t offset, size_t size) {
  if (offset > weights_size || size > weights_size - offset) fail("the weights", "are too short");
  return weights + offset;
}

static inline void* room(size_t size) {
  void* memory = calloc(1, size ? size : 1);
  if (!memory) fail("calloc", "out of memory");
  return memory;
}

static inline float real(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static inline Qnn_Tensor_t new_tensor(void) {
  Qnn_Tensor_t tensor = QNN_TENSOR_INIT;
  return tensor;
}

static inline void save(const char* name, const void* bytes, size_t size) {
  char path[4096];
  size_t at;
  FILE* file;
  if (!folder) return;
  at = (size_t)snprintf(path, sizeof(path), "%s/", folder);
  if (at >= sizeof(path)) fail(folder, "is too long");
  snprintf(path + at, sizeof(path) - at, "%s", name);
  for (; path[at]; ++at) {
    if (path[at] == '/') path[at] = '_';
  }
  file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
    fail(path, "cannot be written");
}

static inline void save_outputs(const char* graph, unsigned number, const Qnn_Tensor_t* outputs,
                                uint32_t count) {
  uint32_t i;
  for (i = 0; i < count; ++i) {
    char name[2048];
    snprintf(name, sizeof(name), "%s_%u_%s.raw", graph, number, outputs[i].v1.name);
    save(name, outputs[i].v1.clientBuf.data, outputs[i].v1.clientBuf.dataSize);
  }
}

static inline void save_binary(Qnn_ContextHandle_t context, const char* name) {
  Qnn_ContextBinarySize_t size = 0, written = 0;
  void* binary;
  check("contextGetBinarySize", qnn.contextGetBinarySize(context, &size));
  binary = room((size_t)size);
  check("contextGetBinary", qnn.contextGetBinary(context, binary, size, &written));
  save(name, binary, (size_t)written);
  free(binary);
}

static inline void start(int argc, char** argv, const char* weights_file) {
  Qnn_ErrorHandle_t (*get)(const QnnInterface_t***, uint32_t*);
  const QnnInterface_t** list = NULL;
  uint32_t count = 0;
  struct stat status;
  int file;
  void* library;
  if (argc < 2) fail(argv[0], "needs the path of a backend library");
  if (argc > 2) weights_file = argv[2];
  if (argc > 3) {
    folder = argv[3];
    mkdir(folder, 0777); /* it may be there; where it cannot be made, writing into it fails */
  }
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(argv[1], dlerror());
  *(void**)(&get) = dlsym(library, "QnnInterface_getProviders");
  if (!get) fail(argv[1], "is no backend library");
  if (get(&list, &count) != QNN_SUCCESS || count == 0) fail(argv[1], "has no backend");
  if (list[0]->apiVersion.coreApiVersion.major != QNN_API_VERSION_MAJOR)
    fail(argv[1], "has another major version of the API");
  qnn = list[0]->QNN_INTERFACE_VER_NAME;
  file = open(weights_file, O_RDONLY);
  if (file < 0 || fstat(file, &status) != 0) fail(weights_file, "cannot be read");
  weights_size = (size_t)status.st_size;
  if (weights_size == 0) return;
  /* For writing, too: in memory that is this program's alone. */
  weights = (unsigned char*)mmap(NULL, weights_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  if (weights == MAP_FAILED) fail(weights_file, "cannot be mapped");
}

int main(int argc, char** argv) {
)";

}  // namespace

std::string Header(const std::string& weights_file) {
  return kHead + ("  start(argc, argv, " + Quoted(weights_file.c_str()) + ");\n");
}

std::string Footer() { return "  return 0;\n}\n"; }

}  // namespace qnnrt::saver
