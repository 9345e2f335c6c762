// Counts the commands that go into an OpenCL driver's queues, and the bytes that they move.
// tests/gpu/test_gpu_zero_copy.py compares that with what qnnrt says of itself.
#include <string.h>

#include "cl_dispatch.h"

typedef struct {
  const char* name;
  uint64_t calls, bytes;
} Row;

static Row g_rows[] = {{"read", 0, 0}, {"write", 0, 0},   {"copy", 0, 0},
                       {"map", 0, 0},  {"unmap", 0, 0},   {"fill", 0, 0},
                       {"rect", 0, 0}, {"migrate", 0, 0}, {"ndrange", 0, 0}};
enum { kRead, kWrite, kCopy, kMap, kUnmapped, kFill, kRect, kMigrated, kKernel, kRows };

static void Count(int row, uint64_t bytes) {
  __atomic_fetch_add(&g_rows[row].calls, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&g_rows[row].bytes, bytes, __ATOMIC_RELAXED);
}

static int (*g_read)(void*, void*, uint32_t, size_t, size_t, void*, uint32_t, void*, void*);
static int (*g_write)(void*, void*, uint32_t, size_t, size_t, const void*, uint32_t, void*, void*);
static int (*g_copy)(void*, void*, void*, size_t, size_t, size_t, uint32_t, void*, void*);
static void* (*g_map)(void*, void*, uint32_t, uint64_t, size_t, size_t, uint32_t, void*, void*,
                      int*);
static int (*g_unmap)(void*, void*, void*, uint32_t, void*, void*);
static int (*g_fill)(void*, void*, const void*, size_t, size_t, size_t, uint32_t, void*, void*);
static int (*g_kernel)(void*, void*, uint32_t, const void*, const void*, const void*, uint32_t,
                       void*, void*);
static int (*g_migrate)(void*, uint32_t, void*, uint64_t, uint32_t, void*, void*);
typedef int (*Rect)(void*, void*, uintptr_t, const void*, const void*, const void*, size_t, size_t,
                    size_t, size_t, void*, uint32_t, void*, void*);
static Rect g_read_rect, g_write_rect;
static int (*g_copy_rect)(void*, void*, void*, const void*, const void*, const void*, size_t,
                          size_t, size_t, size_t, uint32_t, void*, void*);

static int Read(void* q, void* m, uint32_t b, size_t o, size_t n, void* p, uint32_t c, void* w,
                void* e) {
  Count(kRead, n);
  return g_read(q, m, b, o, n, p, c, w, e);
}
static int Write(void* q, void* m, uint32_t b, size_t o, size_t n, const void* p, uint32_t c,
                 void* w, void* e) {
  Count(kWrite, n);
  return g_write(q, m, b, o, n, p, c, w, e);
}
static int Copy(void* q, void* s, void* d, size_t so, size_t d_o, size_t n, uint32_t c, void* w,
                void* e) {
  Count(kCopy, n);
  return g_copy(q, s, d, so, d_o, n, c, w, e);
}
static void* Map(void* q, void* m, uint32_t b, uint64_t f, size_t o, size_t n, uint32_t c, void* w,
                 void* e, int* error) {
  Count(kMap, n);
  return g_map(q, m, b, f, o, n, c, w, e, error);
}
static int Unmap(void* q, void* m, void* p, uint32_t c, void* w, void* e) {
  Count(kUnmapped, 0);
  return g_unmap(q, m, p, c, w, e);
}
static int Fill(void* q, void* m, const void* p, size_t s, size_t o, size_t n, uint32_t c, void* w,
                void* e) {
  Count(kFill, n);
  return g_fill(q, m, p, s, o, n, c, w, e);
}
static int Kernel(void* q, void* k, uint32_t d, const void* o, const void* t, const void* g,
                  uint32_t c, void* w, void* e) {
  Count(kKernel, 0);
  return g_kernel(q, k, d, o, t, g, c, w, e);
}
static int Migrate(void* q, uint32_t n, void* m, uint64_t f, uint32_t c, void* w, void* e) {
  Count(kMigrated, 0);
  return g_migrate(q, n, m, f, c, w, e);
}
static int ReadRect(void* q, void* m, uintptr_t b, const void* x, const void* y, const void* z,
                    size_t r, size_t s, size_t t, size_t u, void* p, uint32_t c, void* w, void* e) {
  Count(kRect, 0);
  return g_read_rect(q, m, b, x, y, z, r, s, t, u, p, c, w, e);
}
static int WriteRect(void* q, void* m, uintptr_t b, const void* x, const void* y, const void* z,
                     size_t r, size_t s, size_t t, size_t u, void* p, uint32_t c, void* w,
                     void* e) {
  Count(kRect, 0);
  return g_write_rect(q, m, b, x, y, z, r, s, t, u, p, c, w, e);
}
static int CopyRect(void* q, void* a, void* b, const void* x, const void* y, const void* z,
                    size_t r, size_t s, size_t t, size_t u, uint32_t c, void* w, void* e) {
  Count(kRect, 0);
  return g_copy_rect(q, a, b, x, y, z, r, s, t, u, c, w, e);
}

static struct {
  int place;
  void* by;
  void** old;
} g_replaced[] = {
    {kReadBuffer, (void*)Read, (void**)&g_read},
    {kWriteBuffer, (void*)Write, (void**)&g_write},
    {kCopyBuffer, (void*)Copy, (void**)&g_copy},
    {kMapBuffer, (void*)Map, (void**)&g_map},
    {kUnmap, (void*)Unmap, (void**)&g_unmap},
    {kFillBuffer, (void*)Fill, (void**)&g_fill},
    {kNdRange, (void*)Kernel, (void**)&g_kernel},
    {kMigrate, (void*)Migrate, (void**)&g_migrate},
    {kReadRect, (void*)ReadRect, (void**)&g_read_rect},
    {kWriteRect, (void*)WriteRect, (void**)&g_write_rect},
    {kCopyRect, (void*)CopyRect, (void**)&g_copy_rect},
};
enum { kReplaced = sizeof g_replaced / sizeof *g_replaced };

// Counts the commands of a platform's queues from now on.
void spy_install(void* platform) {
  for (int i = 0; i < kReplaced; ++i) {
    *g_replaced[i].old = Replace(platform, g_replaced[i].place, g_replaced[i].by);
  }
}

void spy_remove(void* platform) {
  for (int i = 0; i < kReplaced; ++i) Replace(platform, g_replaced[i].place, *g_replaced[i].old);
}

void spy_reset(void) {
  for (int i = 0; i < kRows; ++i) g_rows[i].calls = g_rows[i].bytes = 0;
}

// The i-th kind of command; NULL behind the last one.
const char* spy_row(int i, uint64_t* calls, uint64_t* bytes) {
  if (i >= kRows) return NULL;
  *calls = g_rows[i].calls;
  *bytes = g_rows[i].bytes;
  return g_rows[i].name;
}
