// The greatest (MAX) or the mean of windows over [N, D, H, W, C]: WIDTH channels for each work
// item.
//   SLICES: work items that share a window; what they find is joined in local memory, LANES channel
//     vectors side by side
//   COUNT_PADS: the padding counts as zeros, though not what hangs over it
//   NUMBER: the type of integers

#undef NUMBERS
#ifdef NUMBER
#define NUMBERS NUMBER
#define GET(p, i) ((p)[(i) / WIDTH])
#define PUT(p, i, v) ((p)[(i) / WIDTH] = (v))
#define ELEMENT NUMBER
#define GREATER(a, b) max(a, b)
#else
#define NUMBERS FLOATS
#define GET(p, i) LOADS(p, i)
#define PUT(p, i, v) STORES(p, i, POSTS(v, i))
#define ELEMENT REAL
#define GREATER(a, b) fmax(a, b)
#endif
#ifdef MAX
#define JOINED(a, b) GREATER(a, b)
#else
#define JOINED(a, b) ((a) + (b))
#endif
// A dimension: input, output, window, stride, padding before and behind
#define DIMENSION(d)                                                                              \
  const int in##d, const int out##d, const int size##d, const int stride##d, const int before##d, \
      const int after##d
#define RANGE(d, index)                               \
  const int start##d = (index)*stride##d - before##d; \
  const int begin##d = max(start##d, 0);              \
  const int end##d = max(begin##d, min(start##d + size##d, in##d))
#define PADDED(d) max(0, min(start##d + size##d, in##d + after##d) - start##d)

__kernel void KERNEL(pool)(__global const ELEMENT* x, __global ELEMENT* y, const int count,
                           const int channels, DIMENSION(0), DIMENSION(1),
                           DIMENSION(2) POST_PARAMS) {
  const int item = get_global_id(0);
#if SLICES == 1
  if (item >= count) return;
#endif
  // All of a group come to its barriers, so what is too much does the last item's work again.
  int i = min(item, count - 1);
  const int c = i % (channels / WIDTH) * WIDTH;
  i /= channels / WIDTH;
  RANGE(2, i % out2);
  i /= out2;
  RANGE(1, i % out1);
  i /= out1;
  RANGE(0, i % out0);
  const int n = i / out0;
  NUMBERS found = LEAST;
#if SLICES == 1
  for (int z = begin0; z < end0; ++z) {
    for (int h = begin1; h < end1; ++h) {
      const int line = ((n * in0 + z) * in1 + h) * in2;
      for (int w = begin2; w < end2; ++w) {
        found = JOINED(found, GET(x, (line + w) * channels + c));
      }
    }
  }
#else
  const int rows = end1 - begin1, columns = end2 - begin2;
  const int taps = (end0 - begin0) * rows * columns;
  for (int t = get_local_id(1); t < taps; t += SLICES) {
    const int z = begin0 + t / columns / rows, h = begin1 + t / columns % rows;
    const int w = begin2 + t % columns;
    found = JOINED(found, GET(x, (((n * in0 + z) * in1 + h) * in2 + w) * channels + c));
  }
  __local NUMBERS parts[SLICES][LANES];
  const int lane = get_local_id(0), slice = get_local_id(1);
  parts[slice][lane] = found;
  for (int others = SLICES / 2; others > 0; others /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice < others) {
      parts[slice][lane] = JOINED(parts[slice][lane], parts[slice + others][lane]);
    }
  }
  if (slice > 0 || item >= count) return;
  found = parts[0][lane];
#endif
#ifndef MAX
#ifdef COUNT_PADS
  const int elements = PADDED(0) * PADDED(1) * PADDED(2);
#else
  const int elements = (end0 - begin0) * (end1 - begin1) * (end2 - begin2);
#endif
  if (elements > 0) found *= 1.0f / elements;
#endif
  PUT(y, item * WIDTH, found);
}
#undef GET
#undef PUT
#undef ELEMENT
#undef GREATER
#undef JOINED
#undef DIMENSION
#undef RANGE
#undef PADDED
