// Elements from one regular pattern to another. They are moved as UNITs: an element, or several
// that stay together.
//   RANK: loops of the pattern, 2, 4 or 8. Loop k, the innermost is 0, has `n` iterations; each is
//   `s` units further in the source and `t` in the destination; factor and shift divide by `n`.
//   WIDTH: bytes of a unit

#undef FILL
#undef ALL
#undef DIM
#undef DIMS
#undef STEP
#undef PAD
#undef PADS
#undef PAD_STEP
#undef OUTER
#undef TILE
#if WIDTH == 16
#define FILL (uint4)(v0, v1, v2, v3)
#elif WIDTH == 8
#define FILL (uint2)(v0, v1)
#else
#define FILL (UNIT) v0
#endif
#if RANK == 2
#define ALL(f, comma) f(0) comma() f(1)
#define OUTER
#elif RANK == 4
#define ALL(f, comma) f(0) comma() f(1) comma() f(2) comma() f(3)
#define OUTER STEP(2) STEP(3)
#else
#define ALL(f, comma) \
  f(0) comma() f(1) comma() f(2) comma() f(3) comma() f(4) comma() f(5) comma() f(6) comma() f(7)
#define OUTER STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
#endif
#undef COMMA
#undef NOTHING
#define COMMA() ,
#define NOTHING()
#define DIM(k)                                                                             \
  const int n##k, const int s##k, const int t##k, const int n##k##_factor, const int n##k##_shift
#define STEP(k)                                                           \
  {                                                                       \
    const int next = (int)over((uint)rest, n##k##_factor, n##k##_shift); \
    const int i = rest - next * n##k;                                     \
    rest = next;                                                          \
    from += i * s##k;                                                     \
    to += i * t##k;                                                       \
  }

#ifdef ONLY_COPY
__kernel void KERNEL(copy)(__global const UNIT* src, __global UNIT* dst, const int total, int from,
                           int to, ALL(DIM, COMMA)) {
  int rest = get_global_id(0);
  if (rest >= total) return;
  ALL(STEP, NOTHING)
  dst[to] = src[from];
}
#endif

// Loop 0 goes along the destination and loop 1 along the source: tiles are turned in local memory.
#define TILE 32
#ifdef ONLY_TRANSPOSE
__kernel void KERNEL(transpose)(__global const UNIT* src, __global UNIT* dst, const int total,
                                int from, int to, ALL(DIM, COMMA)) {
  __local UNIT tile[TILE][TILE + 1];
  const int lane = get_local_id(0) % TILE, row = get_local_id(0) / TILE;
  const int rows = get_local_size(0) / TILE;
  const int across = (n0 + TILE - 1) / TILE, down = (n1 + TILE - 1) / TILE;
  int rest = get_group_id(0);
  const int x = rest % across * TILE;
  rest /= across;
  const int y = rest % down * TILE;
  rest /= down;
  OUTER
  for (int j = row; j < TILE; j += rows) {
    if (y + lane < n1 && x + j < n0) tile[j][lane] = src[from + (y + lane) * s1 + (x + j) * s0];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int j = row; j < TILE; j += rows) {
    if (y + j < n1 && x + lane < n0) dst[to + (y + j) * t1 + (x + lane) * t0] = tile[lane][j];
  }
}
#endif

#ifdef ONLY_FILL
__kernel void KERNEL(fill)(__global UNIT* dst, const int total, const int v0, const int v1,
                           const int v2, const int v3) {
  const int i = get_global_id(0);
  if (i < total) dst[i] = FILL;
}
#endif

// Dim k is of size `n` in the source, its neighbours `s` apart, and of size `o` in the destination,
// where it begins after `b` others. Outside of it are, by `scheme`: 0 a constant, 1 its elements
// mirrored, 2 mirrored but for the one at the edge, 3 the one at the edge.
#define PAD(k) const int o##k, const int n##k, const int b##k, const int s##k
#define PAD_STEP(k)                                                                             \
  {                                                                                             \
    int i = rest % o##k - b##k;                                                                 \
    rest /= o##k;                                                                               \
    if (i < 0 || i >= n##k) {                                                                   \
      inside = inside && scheme != 0;                                                           \
      i = scheme == 3 ? clamp(i, 0, n##k - 1)                                                   \
                      : (i < 0 ? -i - (scheme == 1) : 2 * n##k - 1 - (scheme == 2) - i);        \
    }                                                                                           \
    from += i * s##k;                                                                           \
  }
#ifdef ONLY_PAD
__kernel void KERNEL(pad)(__global const UNIT* src, __global UNIT* dst, const int total,
                          const int scheme, const int v0, const int v1, const int v2, const int v3,
                          ALL(PAD, COMMA)) {
  const int at = get_global_id(0);
  if (at >= total) return;
  int rest = at, from = 0;
  int inside = 1;
  ALL(PAD_STEP, NOTHING)
  dst[at] = inside ? src[from] : FILL;
}
#endif
