/* A stand-in for the vendor's libcdsprpc.so on memfd: what the vendor heap needs, with the real
 * one's edges (base addresses only in to_fd, an int in alloc, unknown pointers ignored by free). cc
 * -shared -fPIC fakerpc.c -o libcdsprpc.so     -DFAKERPC_OLD leaves rpcmem_alloc2 out
 * QNNRT_VENDOR_LIBRARY=./libcdsprpc.so makes qnnrt take it for the vendor's. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct block {
  void* address;
  size_t size;
  int fd;
  struct block* next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block* blocks;
static int live;

int fakerpc_live(void) { return live; }

static void* allocate(size_t size) {
  struct block* b = calloc(1, sizeof *b);
  if (!b) return NULL;
  b->size = size;
  b->fd = memfd_create("fakerpc", MFD_CLOEXEC);
  if (b->fd < 0 || ftruncate(b->fd, (off_t)size) != 0) goto fail;
  b->address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
  if (b->address == MAP_FAILED) goto fail;
  pthread_mutex_lock(&lock);
  b->next = blocks;
  blocks = b;
  ++live;
  pthread_mutex_unlock(&lock);
  return b->address;
fail:
  if (b->fd >= 0) close(b->fd);
  free(b);
  return NULL;
}

void* rpcmem_alloc(int heapid, uint32_t flags, int size) {
  (void)heapid;
  (void)flags;
  return size > 0 ? allocate((size_t)size) : NULL;
}

#ifndef FAKERPC_OLD
void* rpcmem_alloc2(int heapid, uint32_t flags, size_t size) {
  (void)heapid;
  (void)flags;
  return size > 0 ? allocate(size) : NULL;
}
#endif

void rpcmem_free(void* address) {
  pthread_mutex_lock(&lock);
  for (struct block** at = &blocks; *at; at = &(*at)->next) {
    struct block* b = *at;
    if (b->address != address) continue;
    *at = b->next;
    --live;
    munmap(b->address, b->size);
    close(b->fd);
    free(b);
    break;
  }
  pthread_mutex_unlock(&lock);
}

int rpcmem_to_fd(void* address) {
  int fd = -1;
  pthread_mutex_lock(&lock);
  for (struct block* b = blocks; b; b = b->next) {
    if (b->address == address) fd = b->fd;
  }
  pthread_mutex_unlock(&lock);
  return fd;
}
