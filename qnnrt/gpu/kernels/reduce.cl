// One number of many.
//   ACC: what it is made in
//   START, MERGE(a, b): of nothing, and of two parts
//   VALUE(x): what an element gives
//   FINISH(a, n): the result of n elements
//   ONE_LOOP: the reduced dims are one loop

#undef LOOP
#undef LOOP_STEP
#undef ALL
#undef BLOCK
#undef GROUP
#define BLOCK 64  // terms that are added up on their own, so that long sums stay exact
#define LOOP(k) , const int k##_n, const int k##_s
#define LOOP_STEP(k)         \
  from += rest % k##_n * k##_s; \
  rest /= k##_n;
#define ALL(f, p) f(p##0) f(p##1) f(p##2) f(p##3)

static inline int KERNEL(term)(int rest ALL(LOOP, r)) {
  int from = 0;
  ALL(LOOP_STEP, r)
  return from;
}
#undef TERM
#ifdef ONE_LOOP
#define TERM(i) ((i) * r0_s)
#else
#define TERM(i) KERNEL(term)(i, r0_n, r0_s, r1_n, r1_s, r2_n, r2_s, r3_n, r3_s)
#endif

// Elements begin, begin + step... below n
static inline ACC KERNEL(some)(__global const REAL* x, int begin, int step, int n ALL(LOOP, r)) {
  ACC all = START;
  for (int i = begin; i < n;) {
    ACC part = START;
    for (int k = 0; k < BLOCK && i < n; ++k, i += step) {
      const ACC v = (ACC)LOAD(x, TERM(i));
      part = MERGE(part, VALUE(v));
    }
    all = MERGE(all, part);
  }
  return all;
}
#undef SOME
#define SOME(begin, step) \
  KERNEL(some)(x + from, begin, step, n, r0_n, r0_s, r1_n, r1_s, r2_n, r2_s, r3_n, r3_s)

// Loops over the dims that stay (k) and those that go (r), the innermost first: iterations, and
// elements from one to the next.
#ifdef ONLY_REDUCE
__kernel void KERNEL(reduce)(__global const REAL* x, __global REAL* y, const int total,
                             const int n ALL(LOOP, k) ALL(LOOP, r)) {
  const int at = get_global_id(0);
  if (at >= total) return;
  int rest = at, from = 0;
  ALL(LOOP_STEP, k)
  const ACC all = SOME(0, 1);
  STORE(y, at, FINISH(all, n));
}
#endif

// A work group makes `columns` neighbouring results; its other work items share their terms.
#define GROUP 256
#ifdef ONLY_REDUCE_GROUP
__kernel void KERNEL(reduce_group)(__global const REAL* x, __global REAL* y, const int total,
                                   const int n, const int columns
                                   ALL(LOOP, k) ALL(LOOP, r)) {
  __local ACC parts[GROUP];
  const int item = get_local_id(0), lanes = GROUP / columns;
  const int column = item % columns, lane = item / columns;
  const int at = get_group_id(0) * columns + column;
  int rest = at, from = 0;
  ALL(LOOP_STEP, k)
  parts[item] = at < total ? SOME(lane, lanes) : (ACC)START;
  for (int reach = lanes / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < reach) parts[item] = MERGE(parts[item], parts[item + reach * columns]);
  }
  if (lane == 0 && at < total) {
    const ACC all = parts[item];
    STORE(y, at, FINISH(all, n));
  }
}
#endif
