// Adds what tiles.cl with PARTIAL has left in `parts` pieces; one element for each work item.

__kernel void KERNEL(combine)(__global const float* part,
#ifdef BIAS
                              __global const REAL* bias,
#endif
                              __global REAL* y, const int parts, const int rows, const int columns,
                              const int y_matrix, const int y_row,
                              const int y_first POST_PARAMS) {
  const int e = get_global_id(0);
  const int p = e / (rows * columns), m = e / columns % rows, n = e % columns;
  float sum = 0.0f;
  for (int i = 0; i < parts; ++i) sum += part[i * get_global_size(0) + e];
#ifdef BIAS
  sum += LOAD(bias, BIAS + n);
#endif
  const int i = y_first + p * y_matrix + m * y_row + n;
  STORE(y, i, POST(sum, i));
}
