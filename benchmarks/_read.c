/* Reads memory from end to end with some threads, as fast as loads come: what decode.py takes for
 * the machine's bandwidth. Each thread has a part, and reads a few places of it at a time. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { kStreams = 4, kLine = 64, kAhead = 4096 };

struct part {
  const char* from;
  size_t bytes;
  uint64_t sum;
};

static void* read_part(void* argument) {
  struct part* p = argument;
  const size_t each = p->bytes / kStreams / kLine * kLine;
  typedef uint64_t line __attribute__((vector_size(kLine), aligned(8)));
  line sums[kStreams] = {{0}};
  for (size_t i = 0; i < each; i += kLine) {
    for (size_t s = 0; s < kStreams; ++s) {
      const char* at = p->from + s * each + i;
      __builtin_prefetch(at + kAhead, 0, 2);
      sums[s] += *(const line*)at;
    }
  }
  for (size_t s = 0; s < kStreams; ++s)
    for (size_t i = 0; i < kLine / 8; ++i) p->sum += sums[s][i];
  return NULL;
}

uint64_t read_all(const char* from, size_t bytes, int threads) {
  struct part parts[64];
  pthread_t others[64];
  if (threads > 64) threads = 64;
  uint64_t sum = 0;
  for (int t = 0; t < threads; ++t) {
    const size_t first = bytes / (size_t)threads * (size_t)t;
    parts[t] = (struct part){from + first, bytes / (size_t)threads, 0};
    if (t > 0) pthread_create(&others[t], NULL, read_part, &parts[t]);
  }
  read_part(&parts[0]);
  for (int t = 0; t < threads; ++t) {
    if (t > 0) pthread_join(others[t], NULL);
    sum += parts[t].sum;
  }
  return sum;
}
