// Softmax or, with LOG, its logarithm, of `n` elements that lie `step` apart.
//   WIDENS: results are 32-bit floats, whatever the elements are

#ifdef WIDENS
#define OUT float
#define PUT(i, v) y[i] = (v)
#else
#define OUT REAL
#define PUT(i, v) STORE(y, i, v)
#endif
#define TOGETHER 8
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
  const int lanes = GROUP_LANES, apart = lanes * step, whole = TOGETHER * lanes;
  for (bool more = i < end; more;) {
    float part = 0.0f;  // so that long sums stay exact
    for (int k = 0; k < 16 && more; ++k) {
      float v[TOGETHER], most = -INFINITY;
      const int at = i * step;
      if (end - i > whole - lanes) {
WRITTEN_OUT
        for (int t = 0; t < TOGETHER; ++t) v[t] = beta * LOAD(x, at + t * apart);
      } else {
WRITTEN_OUT
        for (int t = 0; t < TOGETHER; ++t)
          v[t] = end - i > t * lanes ? beta * LOAD(x, at + t * apart) : -INFINITY;
      }
WRITTEN_OUT
      for (int t = 0; t < TOGETHER; ++t) most = fmax(most, v[t]);
      if (most > *top) {
        const float less = exp(*top - most);
        *sum *= less;
        part *= less;
        *top = most;
      }
      const float from = *top == -INFINITY ? 0.0f : *top;  // all are -infinity: their sum is 0
WRITTEN_OUT
      for (int t = 0; t < TOGETHER; ++t) part += exp(v[t] - from);
      more = end - i > whole;
      if (more) i += whole;  // i may be all but the largest number
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

// Rows that fit into registers, HELD elements of each lane: read once.
#ifdef ONLY_SOFTMAX_HELD
static inline float KERNEL(of_lanes)(float v, const bool add, __local float* parts) {
#ifdef SHARED
  const int item = ITEM, lane = ITEM_LANE;
  barrier(CLK_LOCAL_MEM_FENCE);
  parts[item] = v;
  for (int reach = GROUP_LANES / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < reach) {
      const float other = parts[item + reach * LANE_STEP];
      v = add ? v + other : fmax(v, other);
      parts[item] = v;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return parts[item - lane * LANE_STEP];
#else
  return v;
#endif
}

__kernel void KERNEL(softmax_held)(__global const REAL* x, __global OUT* y, const int rows,
                                   const int n, const int step, const float beta) {
  __local float parts[MOST_ITEMS];
  const int row = (int)get_group_id(0) * GROUP_COLUMNS + ITEM_COLUMN;
  const int start = row < rows ? (row / step) * step * n + row % step : 0;
  const int lane = ITEM_LANE, lanes = GROUP_LANES, end = row < rows ? n : 0;
  float v[HELD], top = -INFINITY, sum = 0.0f;
WRITTEN_OUT
  for (int k = 0; k < HELD; ++k) {
    const int i = lane + k * lanes;
    v[k] = i < end ? beta * LOAD(x, start + i * step) : -INFINITY;
    top = fmax(top, v[k]);
  }
  for (int pass = 0; pass < 2; ++pass) {  // a loop, so that of_lanes is called once: decision 47
    const float all = KERNEL(of_lanes)(pass == 0 ? top : sum, pass > 0, parts);
    if (pass > 0) {
      sum = all;
      break;
    }
    top = all;
WRITTEN_OUT
    for (int k = 0; k < HELD; ++k) {
      const float e = v[k] == -INFINITY ? 0.0f : exp(v[k] - top);
      sum += e;
#ifndef LOG
      v[k] = e;
#endif
    }
  }
  const float scale = SCALE(sum);
WRITTEN_OUT
  for (int k = 0; k < HELD; ++k) {
    const int i = lane + k * lanes;
#ifdef LOG
    if (i < end) PUT(start + i * step, v[k] - top - scale);
#else
    if (i < end) PUT(start + i * step, v[k] * scale);
#endif
  }
}
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
  const int lanes = GROUP_LANES, apart = lanes * step;
  // y may be x, so a compiler leaves a read behind a write where it is: several reads come first.
  for (; end - i > (TOGETHER - 1) * lanes; i += TOGETHER * lanes) {
    float v[TOGETHER];
    const int at = i * step;
WRITTEN_OUT
    for (int t = 0; t < TOGETHER; ++t) v[t] = beta * LOAD(x, at + t * apart);
WRITTEN_OUT
    for (int t = 0; t < TOGETHER; ++t) PUT(at + t * apart, RESULT(v[t], top, scale));
  }
  for (; i < end; i += lanes) {
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
