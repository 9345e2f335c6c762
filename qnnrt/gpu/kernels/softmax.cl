// Softmax or, with LOG, its logarithm, of `n` elements that lie `step` apart.

#undef RESULT
#undef SCALE
#undef GROUP
// Of an element, the largest one and the sum of all exp(element - largest)
#ifdef LOG
#define SCALE(sum) log(sum)
#define RESULT(v, top, scale) ((v) - (top) - (scale))
#else
#define SCALE(sum) (1.0f / (sum))
#define RESULT(v, top, scale) (exp((v) - (top)) * (scale))
#endif

// One row of them for each work item
#ifdef ONLY_SOFTMAX
__kernel void KERNEL(softmax)(__global const REAL* x, __global REAL* y, const int rows, const int n,
                              const int step, const float beta) {
  const int row = get_global_id(0);
  if (row >= rows) return;
  const int start = (row / step) * step * n + row % step;
  x += start;
  y += start;
  float top = beta * LOAD(x, 0);
  for (int i = 1; i < n; ++i) top = fmax(top, beta * LOAD(x, i * step));
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += exp(beta * LOAD(x, i * step) - top);
  const float scale = SCALE(sum);
  for (int i = 0; i < n; ++i) {
    const float v = beta * LOAD(x, i * step);
    STORE(y, i * step, RESULT(v, top, scale));
  }
}
#endif

// A work group takes `columns` neighbouring rows; its other work items share their elements, and
// read them twice: the sum is corrected when a larger one is found.
#define GROUP 256
#ifdef ONLY_SOFTMAX_GROUP
__kernel void KERNEL(softmax_group)(__global const REAL* x, __global REAL* y, const int rows,
                                    const int n, const int step, const float beta,
                                    const int columns) {
  __local float tops[GROUP], sums[GROUP];
  const int item = get_local_id(0), lanes = get_local_size(0) / columns;
  const int lane = item / columns, row = get_group_id(0) * columns + item % columns;
  const int start = (row / step) * step * n + row % step;
  const int end = row < rows ? n : 0;
  float top = -INFINITY, sum = 0.0f;
  for (int i = lane; i < end; i += lanes) {
    const float v = beta * LOAD(x, start + i * step);
    if (v > top) {
      sum = sum * exp(top - v) + 1.0f + (v - v);  // NaN when v is infinite
      top = v;
    } else {
      sum += v == -INFINITY ? 0.0f : exp(v - top);
    }
  }
  tops[item] = top;
  sums[item] = sum;
  for (int reach = lanes / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < reach) {
      const int other = item + reach * columns;
      const float a = tops[item], b = tops[other], most = fmax(a, b);
      // A part without any number has no share, and what is NaN stays it.
      const float mine = a == most ? 1.0f : exp(a - most);
      const float theirs = b == most ? 1.0f : exp(b - most);
      tops[item] = most;
      sums[item] = sums[item] * mine + sums[other] * theirs;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  top = tops[item % columns];
  const float scale = SCALE(sums[item % columns]);
  for (int i = lane; i < end; i += lanes) {
    const float v = beta * LOAD(x, start + i * step);
    STORE(y, start + i * step, RESULT(v, top, scale));
  }
}
#endif
