/* OpenCL for C clients of the gpu backend, without its headers: the few functions that they use,
 * out of the loader that they name. */
#ifndef GPU_CLIENT_H
#define GPU_CLIENT_H

#include <stdint.h>

#include "client_checks.h"

typedef struct {
  int32_t (*get_platforms)(uint32_t, void**, uint32_t*);
  int32_t (*get_devices)(void*, uint64_t, uint32_t, void**, uint32_t*);
  void* (*create_context)(const intptr_t*, uint32_t, void* const*,
                          void (*)(const char*, const void*, size_t, void*), void*, int32_t*);
  void* (*create_queue)(void*, void*, uint64_t, int32_t*);
  void* (*create_buffer)(void*, uint64_t, size_t, void*, int32_t*);
  int32_t (*write)(void*, void*, uint32_t, size_t, size_t, const void*, uint32_t, void* const*,
                   void**);
  int32_t (*read)(void*, void*, uint32_t, size_t, size_t, void*, uint32_t, void* const*, void**);
  int32_t (*release_buffer)(void*);
  int32_t (*release_queue)(void*);
  int32_t (*release_context)(void*);
  int32_t (*buffer_info)(void*, uint32_t, size_t, void*, size_t*);
  void *platform, *device;
} OpenCl;

enum { kReadWrite = 1, kWriteOnly = 2, kReadOnly = 4, kUseHostPtr = 8, kReferences = 0x1105 };

static OpenCl cl;

static inline void open_opencl(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  uint32_t count = 0;
  if (library == NULL) FAIL(dlerror());
#define RESOLVE(field, name) resolve(library, name, &cl.field, sizeof cl.field)
  RESOLVE(get_platforms, "clGetPlatformIDs");
  RESOLVE(get_devices, "clGetDeviceIDs");
  RESOLVE(create_context, "clCreateContext");
  RESOLVE(create_queue, "clCreateCommandQueue");
  RESOLVE(create_buffer, "clCreateBuffer");
  RESOLVE(write, "clEnqueueWriteBuffer");
  RESOLVE(read, "clEnqueueReadBuffer");
  RESOLVE(release_buffer, "clReleaseMemObject");
  RESOLVE(release_queue, "clReleaseCommandQueue");
  RESOLVE(release_context, "clReleaseContext");
  RESOLVE(buffer_info, "clGetMemObjectInfo");
#undef RESOLVE
  EXPECT(cl.get_platforms(1, &cl.platform, &count) == 0 && count >= 1);
  EXPECT(cl.get_devices(cl.platform, 0xFFFFFFFF, 1, &cl.device, &count) == 0 && count >= 1);
}

static inline void* new_context(void) {
  int32_t code = 0;
  void* context = cl.create_context(NULL, 1, &cl.device, NULL, NULL, &code);
  EXPECT(context != NULL && code == 0);
  return context;
}

static inline void* new_queue(void* context) {
  int32_t code = 0;
  void* queue = cl.create_queue(context, cl.device, 0, &code);
  EXPECT(queue != NULL && code == 0);
  return queue;
}

static inline void* new_buffer(void* context, uint64_t flags, size_t size) {
  int32_t code = 0;
  void* buffer = cl.create_buffer(context, flags, size, NULL, &code);
  EXPECT(buffer != NULL && code == 0);
  return buffer;
}

static inline uint32_t references(void* buffer) {
  uint32_t count = 0;
  EXPECT(cl.buffer_info(buffer, kReferences, sizeof count, &count, NULL) == 0);
  return count;
}

#endif
