// Where the best of some numbers are. Of equal ones the first is best, and NaN is better than every
// number.
//   BETTER(a, b): whether a number comes strictly before another
//   INDEX: the type of the results

#ifdef TYPE
#define NUMBER TYPE
#else
#define NUMBER float
#endif
#define BEFORE(a, b) (BETTER(a, b) || ((a) != (a) && (b) == (b)))

#if defined(ONLY_ARG) || defined(ONLY_ARG_OF_PARTS) || defined(ONLY_TOP_HELD)
// Whether number b at place j comes before a at i. Nothing is at places below 0.
static inline bool KERNEL(before)(NUMBER b, int j, NUMBER a, int i) {
  return j >= 0 && (i < 0 || BEFORE(b, a) || (j < i && !BEFORE(a, b)));
}

// The best of all lanes is the first one's then.
static inline void KERNEL(first)(NUMBER* best, int* index, __local NUMBER* bests,
                                 __local int* found) {
  const int item = ITEM;
  bests[item] = *best;
  found[item] = *index;
  for (int reach = GROUP_LANES / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const int other = item + reach * LANE_STEP;
    if (ITEM_LANE < reach && KERNEL(before)(bests[other], found[other], *best, *index)) {
      bests[item] = *best = bests[other];
      found[item] = *index = found[other];
    }
  }
}
#ifdef SHARED
#define FIRST(best, index)                                   \
  __local NUMBER bests_[MOST_ITEMS];                         \
  __local int found_[MOST_ITEMS];                            \
  KERNEL(first)(&best, &index, bests_, found_)
#else
#define FIRST(best, index)
#endif
#endif

// Lines of n elements that lie `step` apart.
//   PARTIAL: of parts of `chunk` elements, to [parts, lines] with their places in the line
#ifdef ONLY_ARG
__kernel void KERNEL(arg)(__global const REAL* x,
#ifdef PARTIAL
                          __global NUMBER* y, __global int* places,
#else
                          __global INDEX* y,
#endif
                          const int lines, const int n, const int step, const int chunk) {
  const int line = (int)get_group_id(0) * GROUP_COLUMNS + ITEM_COLUMN, lanes = GROUP_LANES;
  const int from = (int)get_group_id(2) * chunk;
  const int end = line >= lines ? from : n - from > chunk ? from + chunk : n;
  if (line < lines) x += (line / step) * step * n + line % step;
  int index = -1, i = from + ITEM_LANE;
  NUMBER best = 0;
  for (; end - i > 3 * lanes; i += 4 * lanes) {  // reads that are under way at once
    NUMBER v[4];
    for (int k = 0; k < 4; ++k) v[k] = LOAD(x, (i + k * lanes) * step);
    for (int k = 0; k < 4; ++k) {
      if (index >= 0 && !BEFORE(v[k], best)) continue;
      best = v[k];
      index = i + k * lanes;
    }
  }
  for (; i < end; i += lanes) {
    const NUMBER v = LOAD(x, i * step);
    if (index >= 0 && !BEFORE(v, best)) continue;
    best = v;
    index = i;
  }
  FIRST(best, index);
  if (ITEM_LANE > 0 || line >= lines) return;
#ifdef PARTIAL
  const int at = (int)get_group_id(2) * lines + line;
  y[at] = best;
  places[at] = index;
#else
  y[line] = (INDEX)index;
#endif
}
#endif

#ifdef ONLY_ARG_OF_PARTS
__kernel void KERNEL(arg_of_parts)(__global const NUMBER* bests, __global const int* places,
                                   __global INDEX* y, const int lines, const int parts) {
  const int line = (int)get_group_id(0) * GROUP_COLUMNS + ITEM_COLUMN;
  int index = -1;
  NUMBER best = 0;
  for (int p = ITEM_LANE; line < lines && p < parts; p += GROUP_LANES) {
    const int at = p * lines + line;
    if (!KERNEL(before)(bests[at], places[at], best, index)) continue;
    best = bests[at];
    index = places[at];
  }
  FIRST(best, index);
  if (ITEM_LANE == 0 && line < lines) y[line] = (INDEX)index;
}
#endif

// The k best of rows of n, the best first.
//   PLACES: the row is of the best of parts, with their places; those below 0 are none
#ifdef PLACES
#define PLACE_PARAM __global const int *places,
#define PLACE(i) places[i]
#else
#define PLACE_PARAM
#define PLACE(i) (i)
#endif

// Rows that fit into registers, HELD elements of each lane: the best of those that are left, k times.
#ifdef ONLY_TOP_HELD
__kernel void KERNEL(top_held)(__global const REAL* x, __global REAL* values,
                               __global INDEX* indices, const int rows, const int n, const int k) {
  __local NUMBER bests[MOST_ITEMS];
  __local int found[MOST_ITEMS];
  const int row = (int)get_group_id(0) * GROUP_COLUMNS + ITEM_COLUMN;
  const int lane = ITEM_LANE, lanes = GROUP_LANES, first = ITEM - lane * LANE_STEP;
  const int start = row < rows ? row * n : 0, to = row * k;
  NUMBER v[HELD];
  uint left = 0;
WRITTEN_OUT
  for (int t = 0; t < HELD; ++t) {
    const int i = lane + t * lanes;
    v[t] = 0;
    if (row >= rows || i >= n) continue;
    v[t] = LOAD(x, start + i);
    left |= 1u << t;
  }
  for (int r = 0; r < k; ++r) {
    NUMBER best = 0;
    int index = -1;
WRITTEN_OUT
    for (int t = 0; t < HELD; ++t) {
      if ((left >> t & 1) == 0 || (index >= 0 && !BEFORE(v[t], best))) continue;
      best = v[t];
      index = lane + t * lanes;
    }
#ifdef SHARED
    KERNEL(first)(&best, &index, bests, found);
    barrier(CLK_LOCAL_MEM_FENCE);
    best = bests[first];
    index = found[first];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (index >= 0 && index % lanes == lane) left &= ~(1u << index / lanes);
    if (lane > 0 || row >= rows) continue;
    STORE(values, to + r, best);
    indices[to + r] = (INDEX)index;
  }
}
#endif

// Each element counts those that come before it.
#ifdef ONLY_TOP
__kernel void KERNEL(top)(__global const REAL* x, PLACE_PARAM __global REAL* values,
                          __global INDEX* indices, const int total, const int n, const int k) {
  const int at = get_global_id(0);
  if (at >= total) return;
  const int row = at / n, i = at % n;
  x += row * n;
#ifdef PLACES
  places += row * n;
#endif
  const int place = PLACE(i);
  if (place < 0) return;
  const NUMBER own = LOAD(x, i);
  int rank = 0;
  for (int j = 0; j < n; ++j) {
    const NUMBER v = LOAD(x, j);
    if (PLACE(j) >= 0) rank += BEFORE(v, own) || (j < i && !BEFORE(own, v)) ? 1 : 0;
  }
  if (rank >= k) return;
  STORE(values, row * k + rank, own);
  indices[row * k + rank] = (INDEX)place;
}
#endif

// A part of a row for each work item: the best so far are kept in order.
#ifdef ONLY_TOP_ROW
__kernel void KERNEL(top_row)(__global const REAL* x, PLACE_PARAM __global REAL* values,
                              __global INDEX* indices, const int total, const int n, const int k,
                              const int parts, const int chunk) {
  const int at = get_global_id(0);
  if (at >= total) return;
  const int row = at / parts, first = at % parts * chunk;
  const int end = n - first > chunk ? first + chunk : n;
  x += row * n;
#ifdef PLACES
  places += row * n;
#endif
  values += at * k;
  indices += at * k;
  int kept = 0;
  for (int i = first; i < end; ++i) {
    const int place = PLACE(i);
    if (place < 0) continue;
    const NUMBER v = LOAD(x, i);
    int to = kept < k ? kept : k - 1;
    if (kept == k) {
      const NUMBER last = LOAD(values, k - 1);
      if (!BEFORE(v, last)) continue;
    } else {
      ++kept;
    }
    for (; to > 0; --to) {
      const NUMBER above = LOAD(values, to - 1);
      if (!BEFORE(v, above)) break;
      STORE(values, to, above);
      indices[to] = indices[to - 1];
    }
    STORE(values, to, v);
    indices[to] = (INDEX)place;
  }
  for (; kept < k; ++kept) {  // of a short part
    STORE(values, kept, (NUMBER)0);
    indices[kept] = (INDEX)-1;
  }
}
#endif
