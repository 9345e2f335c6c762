// Makes an OpenCL driver offer the extensions by which devices take memory that has an fd, and
// writes down what it is asked for. The buffers are the driver's own, on the same memory, so that
// graphs really run. tests/gpu/test_gpu_imports.py compares the journal with the registry.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cl_dispatch.h"

enum {
  kDeviceExtensions = 0x1030,
  kPadding = 0x40A0,
  kPageSize = 0x40A1,
  kDmaBufHandle = 0x2067,
  kUseHostPtr = 1 << 3,
  kExtHostPtr = 1 << 29,
  kInvalidValue = -30,
};

static char g_journal[8192];
static char g_extensions[512];
static size_t g_padding;
static int g_refuse;  // the code that creating such a buffer fails with; 0 for none

static void Note(const char* format, ...) {
  const size_t at = strlen(g_journal);
  va_list args;
  va_start(args, format);
  vsnprintf(g_journal + at, sizeof g_journal - at, format, args);
  va_end(args);
}

static int (*g_info)(void*, uint32_t, size_t, void*, size_t*);
static void* (*g_create)(void*, uint64_t, size_t, void*, int*);
static void* (*g_create_with)(void*, const uint64_t*, uint64_t, size_t, void*, int*);
static void* (*g_extension)(void*, const char*);

static int Answer(const void* value, size_t n, size_t size, void* out, size_t* needed) {
  if (needed) *needed = n;
  if (out && size < n) return kInvalidValue;
  if (out) memcpy(out, value, n);
  return 0;
}

static int Info(void* device, uint32_t name, size_t size, void* out, size_t* needed) {
  const size_t page = 4096;
  if (name == kPadding) return Answer(&g_padding, sizeof g_padding, size, out, needed);
  if (name == kPageSize) return Answer(&page, sizeof page, size, out, needed);
  if (name != kDeviceExtensions) return g_info(device, name, size, out, needed);
  return Answer(g_extensions, strlen(g_extensions) + 1, size, out, needed);
}

static void* Create(void* context, uint64_t flags, size_t n, void* pointer, int* status) {
  if (!(flags & kExtHostPtr)) return g_create(context, flags, n, pointer, status);
  Note("create flags=0x%llx size=%zu struct=", (unsigned long long)flags, n);
  for (int i = 0; i < 24; ++i) Note("%02x", ((unsigned char*)pointer)[i]);
  Note("\n");
  if (g_refuse) {
    *status = g_refuse;
    return NULL;
  }
  void* memory;
  memcpy(&memory, (char*)pointer + 16, sizeof memory);
  return g_create(context, flags & ~(uint64_t)kExtHostPtr, n, memory, status);
}

static void* g_imported[64];
static int g_imports;

// The objects must be those that were imported, not parts of them.
static const char* Known(uint32_t n, void** mems) {
  for (uint32_t i = 0; i < n; ++i) {
    int k = 0;
    while (k < g_imports && g_imported[k] != mems[i]) ++k;
    if (k == g_imports) return "of something else";
  }
  return "";
}

static void* CreateWith(void* context, const uint64_t* properties, uint64_t flags, size_t n,
                        void* pointer, int* status) {
  if (!properties || properties[0] != kDmaBufHandle) {
    return g_create_with(context, properties, flags, n, pointer, status);
  }
  Note("create flags=0x%llx size=%zu pointer=%d properties=0x%llx,%llu,%llu\n",
       (unsigned long long)flags, n, pointer != NULL, (unsigned long long)properties[0],
       (unsigned long long)properties[1], (unsigned long long)properties[2]);
  if (g_refuse) {
    *status = g_refuse;
    return NULL;
  }
  // Stays mapped: drivers keep an import for as long as the process likes, too.
  void* memory = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, (int)properties[1], 0);
  void* made = g_create(context, flags | kUseHostPtr, n, memory, status);
  g_imported[g_imports++ % 64] = made;
  return made;
}

static int Acquire(void* queue, uint32_t n, void** mems, uint32_t c, void* w, void* e) {
  (void)queue, (void)c, (void)w, (void)e;
  Note("acquire %u%s\n", n, Known(n, mems));
  return 0;
}
static int Release(void* queue, uint32_t n, void** mems, uint32_t c, void* w, void* e) {
  (void)queue, (void)c, (void)w, (void)e;
  Note("release %u%s\n", n, Known(n, mems));
  return 0;
}
static void* Extension(void* platform, const char* name) {
  if (!strcmp(name, "clEnqueueAcquireExternalMemObjectsKHR")) return (void*)Acquire;
  if (!strcmp(name, "clEnqueueReleaseExternalMemObjectsKHR")) return (void*)Release;
  return g_extension(platform, name);
}

// The platform's devices have these extensions from now on.
void fake_install(void* platform, const char* extensions, size_t padding, int refuse) {
  snprintf(g_extensions, sizeof g_extensions, "%s", extensions);
  g_padding = padding;
  g_refuse = refuse;
  g_journal[0] = 0;
  g_imports = 0;
  g_info = Replace(platform, kGetDeviceInfo, (void*)Info);
  g_create = Replace(platform, kCreateBuffer, (void*)Create);
  g_create_with = Replace(platform, kCreateBufferWithProperties, (void*)CreateWith);
  g_extension = Replace(platform, kExtensionFunction, (void*)Extension);
}

void fake_remove(void* platform) {
  Replace(platform, kGetDeviceInfo, (void*)g_info);
  Replace(platform, kCreateBuffer, (void*)g_create);
  Replace(platform, kCreateBufferWithProperties, (void*)g_create_with);
  Replace(platform, kExtensionFunction, (void*)g_extension);
}

const char* fake_journal(void) { return g_journal; }
void fake_forget(void) { g_journal[0] = 0; }
