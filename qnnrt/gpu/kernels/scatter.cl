// Updates of some elements of y, which holds the others already. They come in their order, so that
// those of one element have one meaning; an index that is nowhere updates nothing, and is noted.
//   COMBINE(a, b): of the element and its update; INDEX: the type of the indices
//   LOOPS: over the dims of indices whose places are claimed

#undef DIM
#undef STEP
#undef ALL
#define DIM(k) , const int n##k, const int s##k, const int t##k
#define STEP(k)                \
  {                            \
    const int i = rest % n##k; \
    rest /= n##k;              \
    from += i * s##k;          \
    to += i * t##k;            \
  }
#define ALL(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6)

#define INTO(k)                            \
  {                                        \
    const int next = rest / n##k;          \
    to += (rest - next * n##k) * t##k;     \
    rest = next;                           \
  }
#define SIZE(k) , const int n##k, const int t##k
#include "indices.cl"

// One line along the axis for each work item: no other one has updates for it. Loop k of the other
// dims has `n` steps, of `s` elements in the indices and `t` in y.
#ifdef ONLY_SCATTER_ELEMENTS
__kernel void KERNEL(scatter_elements)(__global const INDEX* indices, __global const REAL* updates,
                                       __global REAL* y, const int total, const int size,
                                       const int count, const int index_step,
                                       const int step, const int axis ALL(DIM) FAULT_PARAMS) {
  int rest = get_global_id(0);
  if (rest >= total) return;
  int from = 0, to = 0;
  ALL(STEP)
  for (int j = 0; j < count; ++j) {
    const int at = from + j * index_step;
    const long i = KERNEL(index)(indices, at, size);
    if (i < 0) {
      FAULT(at, indices[at], axis, size)
      continue;
    }
    const int into = to + (int)i * step;
    STORE(y, into, COMBINE(LOAD(y, into), LOAD(updates, at)));
  }
}
#endif

static inline int KERNEL(slice)(__global const INDEX* indices, int pick, int depth,
                                const int* sizes FAULT_PARAMS) {
  int slice = 0;
  for (int d = 0; d < depth; ++d) {
    const long i = KERNEL(index)(indices, pick * depth + d, sizes[d]);
    if (i < 0) {
      FAULT(pick * depth + d, indices[pick * depth + d], d, sizes[d])
      return -1;
    }
    slice = slice * sizes[d] + (int)i;
  }
  return slice;
}

// Slices of `chunk` elements, `lanes` work items for each of these. With one lane it takes all
// updates in their order; with one for each update, the first one of a slice takes the slice's.
#ifdef ONLY_SCATTER_ND
__kernel void KERNEL(scatter_nd)(__global const INDEX* indices, __global const REAL* updates,
                                 __global REAL* y, const int total, const int chunk,
                                 const int lanes, const int picks, const int depth, const int n0,
                                 const int n1, const int n2, const int n3, const int n4,
                                 const int n5, const int n6, const int n7 FAULT_PARAMS) {
  const int at = get_global_id(0);
  if (at >= total) return;
  const int sizes[8] = {n0, n1, n2, n3, n4, n5, n6, n7};
  const int k = at % chunk, lane = at / chunk;
  const int own = lanes > 1 ? KERNEL(slice)(indices, lane, depth, sizes FAULT_ARGS) : 0;
  if (own < 0) return;
  for (int u = 0; lanes > 1 && u < lane; ++u) {
    if (KERNEL(slice)(indices, u, depth, sizes FAULT_ARGS) == own) return;
  }
  for (int u = lane; u < picks; ++u) {
    const int slice = KERNEL(slice)(indices, u, depth, sizes FAULT_ARGS);
    if (slice < 0 || (lanes > 1 && slice != own)) continue;
    const int to = slice * chunk + k;
    STORE(y, to, COMBINE(LOAD(y, to), LOAD(updates, u * chunk + k)));
  }
}
#endif

// Updates that replace what is there: each claims its place with its number, the largest one wins,
// and writes. Places that nobody has claimed are 0.
#ifdef ONLY_UNCLAIMED
__kernel void KERNEL(unclaimed)(__global int* claims, const int total) {
  const int at = get_global_id(0);
  if (at < total) claims[at] = 0;
}
#endif

// Of single elements. Loop k of the indices has `n` steps of `t` elements in y; along the axis,
// whose neighbours are `step` apart, it is 0.
#if defined ONLY_CLAIM_ELEMENTS || defined ONLY_WRITE_ELEMENTS
#ifdef ONLY_CLAIM_ELEMENTS
__kernel void KERNEL(claim_elements)(__global const INDEX* indices, __global int* claims,
#else
__kernel void KERNEL(write_elements)(__global const INDEX* indices, __global const int* claims,
                                     __global const REAL* updates, __global REAL* y,
#endif
                                     const int total, const int size, const int step,
                                     const int axis EVERY(LOOPS, SIZE) FAULT_PARAMS) {
  const int at = get_global_id(0);
  if (at >= total) return;
  int rest = at, to = 0;
  EVERY(LOOPS, INTO)
  const long i = KERNEL(index)(indices, at, size);
  if (i < 0) {
    FAULT(at, indices[at], axis, size)
    return;
  }
  to += (int)i * step;
#ifdef ONLY_CLAIM_ELEMENTS
  atomic_max(claims + to, at + 1);
#else
  if (claims[to] == at + 1) STORE(y, to, LOAD(updates, at));
#endif
}
#endif

// Of slices, of `chunk` elements.
#if defined ONLY_CLAIM_SLICES || defined ONLY_WRITE_SLICES
#ifdef ONLY_CLAIM_SLICES
__kernel void KERNEL(claim_slices)(__global const INDEX* indices, __global int* claims,
#else
__kernel void KERNEL(write_slices)(__global const INDEX* indices, __global const int* claims,
                                   __global const REAL* updates, __global REAL* y,
#endif
                                   const int total, const int chunk, const int depth, const int n0,
                                   const int n1, const int n2, const int n3, const int n4,
                                   const int n5, const int n6, const int n7 FAULT_PARAMS) {
  const int at = get_global_id(0);
  if (at >= total) return;
  const int sizes[8] = {n0, n1, n2, n3, n4, n5, n6, n7};
  const int pick = at / chunk;
  const int slice = KERNEL(slice)(indices, pick, depth, sizes FAULT_ARGS);
  if (slice < 0) return;
#ifdef ONLY_CLAIM_SLICES
  atomic_max(claims + slice, pick + 1);
#else
  if (claims[slice] == pick + 1) STORE(y, slice * chunk + at % chunk, LOAD(updates, at));
#endif
}
#endif
