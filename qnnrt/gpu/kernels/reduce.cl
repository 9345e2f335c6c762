// One number of many: in one kernel, or in two where results are few and have many terms.
//   PARTIAL: of a part of each result's terms, to [parts, results]
//   COMBINE: of those parts
//   ACC: what it is made in
//   START, MERGE(a, b): of nothing, and of two parts
//   VALUE(x): what an element gives
//   FINISH(a, n): the result of n elements
//   ADDS: it is a sum of floats, whose error does not grow with their number
//   KEPT, GONE: loops over the dims that stay and those that go: 1, 2 or 4

#define BLOCK 64  // terms that are added up on their own
// A loop: iterations, elements from one to the next, and how to divide by the iterations
#define LOOP(k) , const int k##_n, const int k##_s, const int k##_factor, const int k##_shift
#define PASS(k) , k##_n, k##_s, k##_factor, k##_shift
#define EVERY1(f, p) f(p##0)
#define EVERY2(f, p) f(p##0) f(p##1)
#define EVERY4(f, p) f(p##0) f(p##1) f(p##2) f(p##3)
#define EVERY_(n, f, p) EVERY##n(f, p)
#define EVERY(n, f, p) EVERY_(n, f, p)
#define STEP(k)                                                       \
  {                                                                   \
    const int next = (int)over((uint)rest, k##_factor, k##_shift);    \
    from += (rest - next * k##_n) * k##_s;                            \
    rest = next;                                                      \
  }
#define LAST(k) from += rest * k##_s;
#define OFFSET1(p) LAST(p##0)
#define OFFSET2(p) STEP(p##0) LAST(p##1)
#define OFFSET4(p) STEP(p##0) STEP(p##1) STEP(p##2) LAST(p##3)
#define OFFSET_(n, p) OFFSET##n(p)
#define OFFSET(n, p) OFFSET_(n, p)
#ifdef COMBINE
#define IN ACC
#define NUMBER ACC
#define READ(p, i) ((p)[i])
#else
#define IN REAL
#define READ(p, i) LOAD(p, i)
#ifdef TYPE
#define NUMBER TYPE
#else
#define NUMBER float
#endif
#endif
#ifdef PARTIAL
#define OUT ACC
#else
#define OUT REAL
#endif

static inline int KERNEL(kept)(int rest EVERY(KEPT, LOOP, k)) {
  int from = 0;
  OFFSET(KEPT, k)
  return from;
}

static inline int KERNEL(term)(int rest EVERY(GONE, LOOP, r)) {
  int from = 0;
  OFFSET(GONE, r)
  return from;
}
#define TERM(i) READ(x, KERNEL(term)((i) EVERY(GONE, PASS, r)))
#define TAKE(e)                   \
  {                               \
    const ACC each = (ACC)(e);    \
    const ACC value = VALUE(each); \
    part = MERGE(part, value);    \
  }

// Elements i, i + step... below end; unsigned, since i ends behind it
static inline ACC KERNEL(some)(__global const IN* x, uint i, const uint step,
                               const uint end EVERY(GONE, LOOP, r)) {
  ACC all = START;
#ifdef ADDS
  float lost = 0.0f;
#endif
  while (i < end) {
    ACC part = START;
    int taken = 0;
    for (; taken < BLOCK && i + 3 * step < end; taken += 4, i += 4 * step) {
      const NUMBER a = TERM(i), b = TERM(i + step);
      const NUMBER c = TERM(i + 2 * step), d = TERM(i + 3 * step);
      TAKE(a) TAKE(b) TAKE(c) TAKE(d)
    }
    for (; taken < BLOCK && i < end; ++taken, i += step) TAKE(TERM(i))
#ifdef ADDS
    all = plus_exactly(all, part, &lost);
#else
    all = MERGE(all, part);
#endif
  }
#ifdef ADDS
  all += lost;
#endif
  return all;
}

// n: terms of a result here, `terms`: those of it altogether
__kernel void KERNEL(reduce)(__global const IN* x, __global OUT* y, const int total, const int n,
                             const int chunk, const int terms
                             EVERY(KEPT, LOOP, k) EVERY(GONE, LOOP, r)) {
  const int at = (int)get_group_id(0) * GROUP_COLUMNS + ITEM_COLUMN;
  const int first = (int)get_group_id(2) * chunk;
  const int end = at >= total ? first : n - first > chunk ? first + chunk : n;
  ACC all = START;
  if (at < total) {
    const int from = KERNEL(kept)(at EVERY(KEPT, PASS, k));
    all = KERNEL(some)(x + from, first + ITEM_LANE, GROUP_LANES, end EVERY(GONE, PASS, r));
  }
#ifdef SHARED
  __local ACC parts[MOST_ITEMS];
  const int item = ITEM;
  parts[item] = all;
  for (int reach = GROUP_LANES / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (ITEM_LANE < reach) {
      const ACC other = parts[item + reach * LANE_STEP];
      all = MERGE(all, other);
      parts[item] = all;
    }
  }
#endif
  if (ITEM_LANE > 0 || at >= total) return;
#ifdef PARTIAL
  y[(int)get_group_id(2) * total + at] = all;
#else
  STORE(y, at, FINISH(all, terms));
#endif
}
