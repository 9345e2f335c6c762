/* Registers and deregisters one shared buffer, n times for each line "n" on standard input, and
 * answers with the seconds that one pair took: what allocator.py reports as "from C".
 *
 *   _register BACKEND_LIBRARY RPC_LIBRARY */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "qnnrt/qnn.h"
#include "qnnrt/rpcmem.h"

static void need(int ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "_register: %s\n", what);
  exit(1);
}

static void resolve(void* library, const char* name, void* function) {
  void* address = library == NULL ? NULL : dlsym(library, name);
  need(address != NULL, name);
  memcpy(function, &address, sizeof address);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  need(argc == 3, "BACKEND_LIBRARY RPC_LIBRARY");
  QnnInterface_GetProvidersFn_t get_providers;
  void* (*alloc)(int, uint32_t, int);
  int (*to_fd)(void*);
  resolve(dlopen(argv[1], RTLD_NOW), "QnnInterface_getProviders", &get_providers);
  void* rpc = dlopen(argv[2], RTLD_NOW);
  resolve(rpc, "rpcmem_alloc", &alloc);
  resolve(rpc, "rpcmem_to_fd", &to_fd);
  const QnnInterface_t** providers = NULL;
  uint32_t count = 0;
  need(get_providers(&providers, &count) == QNN_SUCCESS && count > 0, "no provider");
  const QnnInterface_ImplementationV2_32_t* qnn = &providers[0]->v2_32;

  Qnn_BackendHandle_t backend = NULL;
  Qnn_ContextHandle_t context = NULL;
  need(qnn->backendCreate(NULL, NULL, &backend) == QNN_SUCCESS, "backendCreate");
  need(qnn->contextCreate(backend, NULL, NULL, &context) == QNN_SUCCESS, "contextCreate");
  void* memory = alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, 1 << 20);
  need(memory != NULL, "rpcmem_alloc");
  uint32_t dimensions[1] = {1 << 18};
  Qnn_MemDescriptor_t descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.memShape.numDim = 1;
  descriptor.memShape.dimSize = dimensions;
  descriptor.dataType = QNN_DATATYPE_FLOAT_32;
  descriptor.memType = QNN_MEM_TYPE_ION;
  descriptor.ionInfo.fd = to_fd(memory);

  long n;
  while (scanf("%ld", &n) == 1 && n > 0) {
    double start = now();
    for (long i = 0; i < n; ++i) {
      Qnn_MemHandle_t handle = NULL;
      need(qnn->memRegister(context, &descriptor, 1, &handle) == QNN_SUCCESS, "memRegister");
      need(qnn->memDeRegister(&handle, 1) == QNN_SUCCESS, "memDeRegister");
    }
    printf("%.12g\n", (now() - start) / (double)n);
    fflush(stdout);
  }
  return 0;
}
