// Softmax or, with LOG, its logarithm, of `n` elements that lie `step` apart; one row of them for
// each work item.

__kernel void KERNEL(softmax)(__global const REAL* x, __global REAL* y, const int n,
                              const int step, const float beta) {
  const int row = get_global_id(0);
  const int start = (row / step) * step * n + row % step;
  x += start;
  y += start;
  float top = beta * LOAD(x, 0);
  for (int i = 1; i < n; ++i) top = fmax(top, beta * LOAD(x, i * step));
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += exp(beta * LOAD(x, i * step) - top);
#ifdef LOG
  const float shift = top + log(sum);
  for (int i = 0; i < n; ++i) STORE(y, i * step, beta * LOAD(x, i * step) - shift);
#else
  for (int i = 0; i < n; ++i) STORE(y, i * step, exp(beta * LOAD(x, i * step) - top) / sum);
#endif
}
