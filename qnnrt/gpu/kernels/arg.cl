// Where the best of some numbers are. Of equal ones the first is best, and NaN is better than every
// number.
//   BETTER(a, b): whether a number comes strictly before another
//   INDEX: the type of the results

#undef NUMBER
#undef GROUP
#undef BEFORE
#ifdef TYPE
#define NUMBER TYPE
#else
#define NUMBER float
#endif
#define BEFORE(a, b) (BETTER(a, b) || ((a) != (a) && (b) == (b)))

// Lines of n elements that lie `step` apart
#ifdef ONLY_ARG
__kernel void KERNEL(arg)(__global const REAL* x, __global INDEX* y, const int lines, const int n,
                          const int step) {
  const int line = get_global_id(0);
  if (line >= lines) return;
  x += (line / step) * step * n + line % step;
  NUMBER best = LOAD(x, 0);
  int index = 0;
  for (int i = 1; i < n; ++i) {
    const NUMBER v = LOAD(x, i * step);
    if (BEFORE(v, best)) {
      best = v;
      index = i;
    }
  }
  y[line] = (INDEX)index;
}
#endif

// A work group takes `columns` neighbouring lines; its other work items share their elements.
#define GROUP 256
#ifdef ONLY_ARG_GROUP
__kernel void KERNEL(arg_group)(__global const REAL* x, __global INDEX* y, const int lines,
                                const int n, const int step, const int columns) {
  __local NUMBER bests[GROUP];
  __local int found[GROUP];
  const int item = get_local_id(0), lanes = GROUP / columns;
  const int lane = item / columns, line = get_group_id(0) * columns + item % columns;
  int index = -1;
  NUMBER best = 0;
  if (line < lines) {
    x += (line / step) * step * n + line % step;
    for (int i = lane; i < n; i += lanes) {
      const NUMBER v = LOAD(x, i * step);
      if (index < 0 || BEFORE(v, best)) {
        best = v;
        index = i;
      }
    }
  }
  bests[item] = best;
  found[item] = index;
  for (int reach = lanes / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const int other = item + reach * columns;
    if (lane < reach && found[other] >= 0) {
      const NUMBER a = bests[other], b = bests[item];
      const bool first = found[other] < found[item];
      if (found[item] < 0 || BEFORE(a, b) || (first && !BEFORE(b, a))) {
        bests[item] = a;
        found[item] = found[other];
      }
    }
  }
  if (lane == 0 && line < lines) y[line] = (INDEX)found[item];
}
#endif

// The k best of rows of n, the best first: each element counts those that come before it.
#ifdef ONLY_TOP
__kernel void KERNEL(top)(__global const REAL* x, __global REAL* values, __global INDEX* indices,
                          const int total, const int n, const int k) {
  const int at = get_global_id(0);
  if (at >= total) return;
  const int row = at / n, i = at % n;
  x += row * n;
  const NUMBER own = LOAD(x, i);
  int rank = 0;
  for (int j = 0; j < n; ++j) {
    const NUMBER v = LOAD(x, j);
    rank += BEFORE(v, own) || (j < i && !BEFORE(own, v)) ? 1 : 0;
  }
  if (rank >= k) return;
  STORE(values, row * k + rank, own);
  indices[row * k + rank] = (INDEX)i;
}
#endif

// The same for long rows, one for each work item: the best so far are kept in order.
#ifdef ONLY_TOP_ROW
__kernel void KERNEL(top_row)(__global const REAL* x, __global REAL* values,
                              __global INDEX* indices, const int rows, const int n, const int k) {
  const int row = get_global_id(0);
  if (row >= rows) return;
  x += row * n;
  values += row * k;
  indices += row * k;
  int kept = 0;
  for (int i = 0; i < n; ++i) {
    const NUMBER v = LOAD(x, i);
    int at = kept < k ? kept : k - 1;
    if (kept == k) {
      const NUMBER last = LOAD(values, k - 1);
      if (!BEFORE(v, last)) continue;
    } else {
      ++kept;
    }
    for (; at > 0; --at) {
      const NUMBER above = LOAD(values, at - 1);
      if (!BEFORE(v, above)) break;
      STORE(values, at, above);
      indices[at] = indices[at - 1];
    }
    STORE(values, at, v);
    indices[at] = (INDEX)i;
  }
}
#endif
