// Softmax or, with LOG, its logarithm, of `n` elements that lie `step` apart.
//   WIDENS: results are 32-bit floats, whatever the elements are

#ifdef WIDENS
#define OUT float
#define PUT(i, v) y[i] = (v)
#else
#define OUT REAL
#define PUT(i, v) STORE(y, i, v)
#endif
#define TOGETHER 4
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
__kernel void KERNEL(softmax)(__global const REAL* x, __global OUT* y, const int rows, const int n,
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
    PUT(i * step, RESULT(v, top, scale));
  }
}
#else

// What elements from i to `end`, every GROUP_LANES-th, add to the largest one and the sum: that is
// corrected when a larger one is found, so elements are read once. An element that is infinite or
// NaN makes the sum NaN.
static inline void KERNEL(found)(__global const REAL* x, int i, const int end, const int step,
                                 const float beta, float* top, float* sum) {
  const int lanes = GROUP_LANES;
  while (i < end) {
    float part = 0.0f;  // so that long sums stay exact
    for (int k = 0; k < 16 && i < end; ++k) {
      float v[TOGETHER], most = -INFINITY;
      for (int t = 0; t < TOGETHER; ++t) {
        v[t] = end - i > t * lanes ? beta * LOAD(x, (i + t * lanes) * step) : -INFINITY;
        most = fmax(most, v[t]);
      }
      if (most > *top) {
        const float less = exp(*top - most);
        *sum *= less;
        part *= less;
        *top = most;
      }
      for (int t = 0; t < TOGETHER; ++t) part += v[t] == -INFINITY ? 0.0f : exp(v[t] - *top);
      i = end - i > TOGETHER * lanes ? i + TOGETHER * lanes : end;
    }
    *sum += part;
  }
}

// The same of two parts. One without any number has no share, and what is NaN stays it.
static inline void KERNEL(merge)(float* top, float* sum, const float top2, const float sum2) {
  const float most = fmax(*top, top2);
  const float mine = *top == most ? 1.0f : exp(*top - most);
  const float theirs = top2 == most ? 1.0f : exp(top2 - most);
  *sum = *sum * mine + sum2 * theirs;
  *top = most;
}

// The same of all lanes, for each of them.
#ifdef SHARED
static inline void KERNEL(together)(float* top, float* sum, __local float* tops,
                                    __local float* sums) {
  const int item = ITEM, lane = ITEM_LANE;
  tops[item] = *top;
  sums[item] = *sum;
  for (int reach = GROUP_LANES / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < reach) {
      const int other = item + reach * LANE_STEP;
      KERNEL(merge)(top, sum, tops[other], sums[other]);
      tops[item] = *top;
      sums[item] = *sum;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  *top = tops[item - lane * LANE_STEP];
  *sum = sums[item - lane * LANE_STEP];
}
#define TOGETHER_IN(top, sum)                      \
  __local float tops_[MOST_ITEMS], sums_[MOST_ITEMS]; \
  KERNEL(together)(&top, &sum, tops_, sums_)
#else
#define TOGETHER_IN(top, sum)
#endif

#define ROW_OF_GROUP                                                         \
  const int row = (int)get_group_id(0) * GROUP_COLUMNS + ITEM_COLUMN;        \
  const int start = row < rows ? (row / step) * step * n + row % step : 0;
#define PART_OF_ROW                                                          \
  const int first = (int)get_group_id(2) * chunk;                            \
  const int end = row >= rows ? first : n - first > chunk ? first + chunk : n;

static inline void KERNEL(write)(__global const REAL* x, __global OUT* y, int i, const int end,
                                 const int step, const float beta, const float top,
                                 const float sum) {
  const float scale = SCALE(sum);
  for (; i < end; i += GROUP_LANES) {
    const float v = beta * LOAD(x, i * step);
    PUT(i * step, RESULT(v, top, scale));
  }
}

#ifdef ONLY_SOFTMAX_GROUP
__kernel void KERNEL(softmax_group)(__global const REAL* x, __global OUT* y, const int rows, const int n,
                             const int step, const float beta) {
  ROW_OF_GROUP
  const int end = row < rows ? n : 0;
  float top = -INFINITY, sum = 0.0f;
  KERNEL(found)(x + start, ITEM_LANE, end, step, beta, &top, &sum);
  TOGETHER_IN(top, sum);
  KERNEL(write)(x + start, y + start, ITEM_LANE, end, step, beta, top, sum);
}
#endif

// In two kernels, where rows are few and long: the largest element and the sum of each part...
#ifdef ONLY_SOFTMAX_PARTS
__kernel void KERNEL(softmax_parts)(__global const REAL* x, __global float* tops, __global float* sums,
                            const int rows, const int n, const int step, const float beta,
                            const int chunk) {
  ROW_OF_GROUP
  PART_OF_ROW
  float top = -INFINITY, sum = 0.0f;
  KERNEL(found)(x + start, first + ITEM_LANE, end, step, beta, &top, &sum);
  TOGETHER_IN(top, sum);
  if (ITEM_LANE > 0 || row >= rows) return;
  const int at = (int)get_group_id(2) * rows + row;
  tops[at] = top;
  sums[at] = sum;
}
#endif

// ...and those of the row from all of its parts, by every group that writes one of them.
#ifdef ONLY_SOFTMAX_OF_PARTS
__kernel void KERNEL(softmax_of_parts)(__global const REAL* x, __global const float* tops,
                             __global const float* sums, __global OUT* y, const int rows,
                             const int n, const int step, const float beta, const int chunk) {
  ROW_OF_GROUP
  PART_OF_ROW
  float top = -INFINITY, sum = 0.0f;
  for (int p = ITEM_LANE; row < rows && p < (int)get_num_groups(2); p += GROUP_LANES)
    KERNEL(merge)(&top, &sum, tops[p * rows + row], sums[p * rows + row]);
  TOGETHER_IN(top, sum);
  KERNEL(write)(x + start, y + start, first + ITEM_LANE, end, step, beta, top, sum);
}
#endif
#endif
