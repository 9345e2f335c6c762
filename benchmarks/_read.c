/* Reads memory from end to end with some threads, as fast as loads come: what decode.py takes for
 * the machine's bandwidth. Each thread has a part, and reads a few places of it at a time. How
 * many, and how far ahead lines are fetched, is a matter of the processor: read_by has the kinds.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { kLine = 64, kMostStreams = 8 };

struct part {
  const char* from;
  size_t bytes;
  uint64_t sum;
};

typedef uint64_t line __attribute__((vector_size(kLine), aligned(8)));

/* Places at a time, and bytes ahead: constants, so that each is a loop of its own. */
static inline __attribute__((always_inline)) void* read_part(struct part* p, size_t streams,
                                                             size_t ahead) {
  const size_t each = p->bytes / streams / kLine * kLine;
  line sums[kMostStreams] = {{0}};
  for (size_t i = 0; i < each; i += kLine) {
    for (size_t s = 0; s < streams; ++s) {
      const char* at = p->from + s * each + i;
      if (ahead) __builtin_prefetch(at + ahead, 0, 2);
      sums[s] += *(const line*)at;
    }
  }
  for (size_t s = 0; s < streams; ++s)
    for (size_t i = 0; i < kLine / 8; ++i) p->sum += sums[s][i];
  return NULL;
}

static void* four_places(void* p) { return read_part(p, 4, 4096); }
static void* one_place(void* p) { return read_part(p, 1, 4096); }
static void* two_places(void* p) { return read_part(p, 2, 2048); }
static void* two_far(void* p) { return read_part(p, 2, 8192); }
static void* four_near(void* p) { return read_part(p, 4, 1024); }
static void* eight_near(void* p) { return read_part(p, 8, 1024); }
static void* one_by_hardware(void* p) { return read_part(p, 1, 0); }

static void* (*const kinds[])(void*) = {four_places, one_place,  two_places,     two_far,
                                        four_near,   eight_near, one_by_hardware};

int read_kinds(void) { return sizeof kinds / sizeof *kinds; }

uint64_t read_by(int kind, const char* from, size_t bytes, int threads) {
  void* (*const read)(void*) = kinds[kind];
  struct part parts[64];
  pthread_t others[64];
  if (threads > 64) threads = 64;
  uint64_t sum = 0;
  for (int t = 0; t < threads; ++t) {
    const size_t first = bytes / (size_t)threads * (size_t)t;
    parts[t] = (struct part){from + first, bytes / (size_t)threads, 0};
    if (t > 0) pthread_create(&others[t], NULL, read, &parts[t]);
  }
  read(&parts[0]);
  for (int t = 0; t < threads; ++t) {
    if (t > 0) pthread_join(others[t], NULL);
    sum += parts[t].sum;
  }
  return sum;
}

uint64_t read_all(const char* from, size_t bytes, int threads) {
  return read_by(0, from, bytes, threads);
}
