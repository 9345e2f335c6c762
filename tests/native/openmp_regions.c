// Parallel regions as GCC compiles them, and as its older versions called the runtime. With
// -DWITH_CRITICAL also a construct that the pool has no function for.
#include <sched.h>
#include <stdbool.h>

int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
int omp_in_parallel(void);
void GOMP_parallel_start(void (*)(void*), void*, unsigned);
void GOMP_parallel_end(void);
void GOMP_barrier(void);
bool GOMP_loop_static_start(long, long, long, long, long*, long*);
bool GOMP_loop_static_next(long*, long*);
void GOMP_loop_end_nowait(void);

int max_threads(void) { return omp_get_max_threads(); }

// Each member notes itself; returns how many it is told there are.
int members(int count, int* seen) {
  int told = 0;
#pragma omp parallel num_threads(count)
  {
    __atomic_fetch_add(&seen[omp_get_thread_num()], 1, __ATOMIC_RELAXED);
    if (omp_get_thread_num() == 0) told = omp_get_num_threads();
  }
  return told;
}

// As many as the runtime says by itself.
int default_members(void) {
  int told = 0;
#pragma omp parallel
  if (omp_get_thread_num() == 0) told = omp_get_num_threads();
  return told;
}

// In each round every member reads what its neighbour wrote in the round before.
int neighbours(int count, int rounds) {
  int wrong = 0;
  int values[2][64] = {{0}};
#pragma omp parallel num_threads(count)
  {
    const int me = omp_get_thread_num(), next = (me + 1) % count;
    for (int round = 0; round < rounds; ++round) {
      if (values[round % 2][next] != round) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
      values[(round + 1) % 2][me] = round + 1;
#pragma omp barrier
    }
  }
  return wrong;
}

// Members that wait for each other in a way that the runtime does not see.
int spinning(int count, int rounds) {
  int arrived = 0;
#pragma omp parallel num_threads(count)
  for (int round = 1; round <= rounds; ++round) {
    __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < round * count) sched_yield();
  }
  return arrived;
}

// A region within a region has one member.
int nested(int count) {
  int inner = 0;
#pragma omp parallel num_threads(count)
  {
    const int outer_member = omp_get_thread_num();
#pragma omp parallel num_threads(4)
    {
      if (omp_get_num_threads() == 1 && omp_get_thread_num() == 0)
        __atomic_fetch_add(&inner, 1, __ATOMIC_RELAXED);
    }
    if (omp_get_thread_num() != outer_member || omp_in_parallel() != (count > 1)) inner = -1000;
  }
  return inner;
}

struct Loop {
  long begin, end, step, chunk;
  int* seen;  // by (i - begin) / step
};

static void run_loop(void* data) {
  struct Loop* l = data;
  long first, last;
  if (GOMP_loop_static_start(l->begin, l->end, l->step, l->chunk, &first, &last)) {
    do {
      for (long i = first; l->step > 0 ? i < last : i > last; i += l->step)
        __atomic_fetch_add(&l->seen[(i - l->begin) / l->step], 1, __ATOMIC_RELAXED);
    } while (GOMP_loop_static_next(&first, &last));
  }
  GOMP_loop_end_nowait();
  GOMP_barrier();
}

void loop(int count, long begin, long end, long step, long chunk, int* seen) {
  struct Loop l = {begin, end, step, chunk, seen};
  GOMP_parallel_start(run_loop, &l, count);
  run_loop(&l);
  GOMP_parallel_end();
}

static void run_nested(void* data) {
  struct Loop* l = data;
  GOMP_parallel_start(run_loop, l, 3);
  run_loop(l);
  GOMP_parallel_end();
}

// Each member runs the whole loop in a region of its own.
void nested_loop(int count, long end, int* seen) {
  struct Loop l = {0, end, 1, 0, seen};
  GOMP_parallel_start(run_nested, &l, count);
  run_nested(&l);
  GOMP_parallel_end();
}

#ifdef WITH_CRITICAL
int critical(void) {
  int sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp critical
  sum += 1;
  return sum;
}
#endif
