// A round of a Hadamard transform of rows: ELEMENTS (a power of two) that lie `step` apart become
// their sums and differences, times `factor`.

__kernel void KERNEL(hadamard)(__global const REAL* x, __global REAL* y, const int count,
                               const int step, const float factor) {
  const int i = get_global_id(0);
  if (i >= count) return;
  const int first = i / step * step * ELEMENTS + i % step;
  float v[ELEMENTS];
  for (int k = 0; k < ELEMENTS; ++k) v[k] = LOAD(x, first + k * step);
  for (int apart = 1; apart < ELEMENTS; apart *= 2) {
    for (int k = 0; k < ELEMENTS; ++k) {
      if (k & apart) continue;
      const float a = v[k], b = v[k + apart];
      v[k] = a + b;
      v[k + apart] = a - b;
    }
  }
  for (int k = 0; k < ELEMENTS; ++k) STORE(y, first + k * step, v[k] * factor);
}
