// Pairs of elements of each head turned by the angle of their place: [N, heads, places, size], with
// cosines and sines [N, places, pairs]. A work item has a pair, or one of the elements behind them.
//   INTERLEAVED: neighbours are a pair, else an element and the one half the turned ones on

__kernel void KERNEL(rotary_embedding)(__global const REAL* x, __global const REAL* cosines,
                                       __global const REAL* sines, __global REAL* y,
                                       const int count, const int heads, const int places,
                                       const int size, const int pairs) {
  const int i = get_global_id(0);
  if (i >= count) return;
  const int items = size - pairs, item = i % items, row = i / items;
  const int at = row * size;
  if (item >= pairs) {
    STORE(y, at + item + pairs, LOAD(x, at + item + pairs));
    return;
  }
  const int angle = (row / places / heads * places + row % places) * pairs + item;
#ifdef INTERLEAVED
  const int first = at + 2 * item, second = first + 1;
#else
  const int first = at + item, second = first + pairs;
#endif
  const float a = LOAD(x, first), b = LOAD(x, second);
  const float c = LOAD(cosines, angle), s = LOAD(sines, angle);
  STORE(y, first, c * a - s * b);
  STORE(y, second, s * a + c * b);
}
