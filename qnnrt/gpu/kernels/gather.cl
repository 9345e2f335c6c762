// Elements that indices pick. An index below 0 counts from the end of its axis; where there is no
// such element the result is 0, and the index is noted.
//   UNIT: what is moved; INDEX: the type of the indices
//   LOOPS: over the dims of indices, of gather_elements

#undef DIM
#undef DIMS
#undef STEP
#undef ZERO
#define ZERO ((UNIT)(0))
#define DIM(k) , const int n##k, const int s##k
#define STEP(k)                          \
  {                                      \
    const int next = rest / n##k;        \
    from += (rest - next * n##k) * s##k; \
    rest = next;                         \
  }
#include "indices.cl"

// Slices of `chunk` units along an axis of `size`
#ifdef ONLY_GATHER
__kernel void KERNEL(gather)(__global const UNIT* x, __global const INDEX* indices,
                             __global UNIT* y, const int total, const int size, const int picks,
                             const int chunk, const int axis FAULT_PARAMS) {
  const int at = get_global_id(0);
  if (at >= total) return;
  const int pick = at / chunk % picks;
  const long i = KERNEL(index)(indices, pick, size);
  if (i < 0) FAULT(pick, indices[pick], axis, size)
  y[at] = i < 0 ? ZERO : x[((at / chunk / picks) * size + (int)i) * chunk + at % chunk];
}
#endif

// Loop k of the indices, the innermost is 0, has `n` steps of `s` units in the input; along the
// axis, whose neighbours are `step` apart, it is 0.
#ifdef ONLY_GATHER_ELEMENTS
__kernel void KERNEL(gather_elements)(__global const UNIT* x, __global const INDEX* indices,
                                      __global UNIT* y, const int total, const int size,
                                      const int step, const int axis EVERY(LOOPS, DIM)
                                          FAULT_PARAMS) {
  const int at = get_global_id(0);
  if (at >= total) return;
  int rest = at, from = 0;
  EVERY(LOOPS, STEP)
  const long i = KERNEL(index)(indices, at, size);
  if (i < 0) FAULT(at, indices[at], axis, size)
  y[at] = i < 0 ? ZERO : x[from + (int)i * step];
}
#endif

// Slices of `chunk` units; `depth` indices say which, in dims of sizes n0, n1...; `picks` of them
// for each batch.
#ifdef ONLY_GATHER_ND
__kernel void KERNEL(gather_nd)(__global const UNIT* x, __global const INDEX* indices,
                                __global UNIT* y, const int total, const int depth,
                                const int picks, const int chunk, const int n0, const int n1,
                                const int n2, const int n3, const int n4, const int n5,
                                const int n6, const int n7, const int axis FAULT_PARAMS) {
  const int at = get_global_id(0);
  if (at >= total) return;
  const int sizes[8] = {n0, n1, n2, n3, n4, n5, n6, n7};
  const int pick = at / chunk;
  int from = pick / picks;
  int found = 1;
  for (int d = 0; d < depth; ++d) {
    const long i = KERNEL(index)(indices, pick * depth + d, sizes[d]);
    if (i < 0) FAULT(pick * depth + d, indices[pick * depth + d], axis + d, sizes[d])
    found = found && i >= 0;
    from = from * sizes[d] + (int)i;
  }
  y[at] = found ? x[from * chunk + at % chunk] : ZERO;
}
#endif

// 1 where the index says, 0 elsewhere: `inner` indices for each of the outer ones. An index outside
// of [-depth, depth) is nowhere. A work item writes NEIGHBOURS elements at once, a ROW; more than
// one where `inner` is 1 and `depth` a multiple.
#ifdef ONLY_ONE_HOT
__kernel void KERNEL(one_hot)(__global const INDEX* indices, __global UNIT* y, const int total,
                              const int depth, const int inner, const int on0, const int on1,
                              const int off0, const int off1) {
  const int at = get_global_id(0) * NEIGHBOURS;
  if (at >= total) return;
#if WIDTH == 8
  const UNIT on = (UNIT)(on0, on1), off = (UNIT)(off0, off1);
#else
  const UNIT on = (UNIT)on0, off = (UNIT)off0;
#endif
#if NEIGHBOURS == 1
  const int own = at / inner % depth;
  const long i = KERNEL(index)(indices, at / inner / depth * inner + at % inner, depth);
  y[at] = i == own ? on : off;
#else
  const int pick = at / depth;
  const int far = (int)KERNEL(index)(indices, pick, depth) - (at - pick * depth);
  ROW all = off;
  all.s0 = far == 0 ? on : off;
  all.s1 = far == 1 ? on : off;
#if NEIGHBOURS == 4
  all.s2 = far == 2 ? on : off;
  all.s3 = far == 3 ? on : off;
#endif
  *(__global ROW*)(y + at) = all;
#endif
}
#endif
