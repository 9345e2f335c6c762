// A Hadamard transform of rows, a round of up to 4 bits of an element's index after the other.
//   ELEMENTS: that a work item has in a round, a power of two

// Those whose indices differ in the round's bits become their sums and differences.
static inline void KERNEL(round)(float* v, const int size) {
  for (int apart = 1; apart < ELEMENTS; apart *= 2) {
    if (apart >= size) break;
    for (int k = 0; k < ELEMENTS; ++k) {
      if (k & apart) continue;
      const float a = v[k], b = v[k + apart];
      v[k] = a + b;
      v[k + apart] = a - b;
    }
  }
}

// One round, of elements that lie `step` apart, times `factor`.
#ifdef ONLY_HADAMARD
__kernel void KERNEL(hadamard)(__global const REAL* x, __global REAL* y, const int count,
                               const int step, const float factor) {
  const int i = get_global_id(0);
  if (i >= count) return;
  const int first = i / step * step * ELEMENTS + i % step;
  float v[ELEMENTS];
  for (int k = 0; k < ELEMENTS; ++k) v[k] = LOAD(x, first + k * step);
  KERNEL(round)(v, ELEMENTS);
  for (int k = 0; k < ELEMENTS; ++k) STORE(y, first + k * step, v[k] * factor);
}
#endif

// All rounds of 1 << bits neighbours, times `factor`, in local memory: a group has GROUP * ELEMENTS
// of all `count` elements, which are whole rows of so many.
#ifdef ONLY_HADAMARD_ROWS
#define PLACE(i) ((i) + (i) / 32)  // so that elements of one round are in different banks
__kernel void KERNEL(hadamard_rows)(__global const REAL* x, __global REAL* y, const int count,
                                    const int bits, const float factor) {
  __local float tile[PLACE(GROUP * ELEMENTS)];
  const int lane = get_local_id(0), first = (int)get_group_id(0) * GROUP * ELEMENTS;
  const int there = count - first;
  float v[ELEMENTS];
  for (int k = 0; k < ELEMENTS; ++k) {
    const int i = lane + k * GROUP;
    tile[PLACE(i)] = i < there ? LOAD(x, first + i) : 0.0f;
  }
  for (int bit = 0; bit < bits; bit += BITS) {
    const int step = 1 << bit, from = (lane >> bit << (bit + BITS)) + (lane & (step - 1));
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < ELEMENTS; ++k) v[k] = tile[PLACE(from + k * step)];
    KERNEL(round)(v, 1 << (bits - bit));
    for (int k = 0; k < ELEMENTS; ++k) tile[PLACE(from + k * step)] = v[k];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int k = 0; k < ELEMENTS; ++k) {
    const int i = lane + k * GROUP;
    if (i < there) STORE(y, first + i, tile[PLACE(i)] * factor);
  }
}
#endif
