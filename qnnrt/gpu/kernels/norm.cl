// Normalization by statistics, of rows or, with SPATIAL, of images.
//   LANES, COLUMNS: of a work group, see ITEM_LANE
// Arguments: `centre`: the mean is subtracted; `scale`: by what the rest is divided, 0 nothing, 1
// its deviation, 2 its length

#define SUM1(v) (v)
#define SUM2(v) ((v).s0 + (v).s1)
#define SUM4(v) (SUM2((v).s01) + SUM2((v).s23))
#define SUM8(v) (SUM4((v).s0123) + SUM4((v).s4567))
#define SUM(v) JOIN(SUM, WIDTH)(v)

// The sum of all lanes' `v`, for each of them.
static inline float KERNEL(all)(float v, __local float* parts) {
#if LANES > 1
  const int item = ITEM, lane = ITEM_LANE;
  parts[item] = v;
  for (int others = LANES / 2; others > 0; others /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < others) parts[item] += parts[item + others * LANE_STEP];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  v = parts[item - lane * LANE_STEP];
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  return v;
}

// `mean`, the sum of all lanes' FIRST over `elements`, then `all`, that of their SECOND, which takes
// it. One call for both: PoCL 3 lets its threads share the local memory of a function that a
// kernel calls twice.
#define TWO_SUMS(elements, FIRST, SECOND)           \
  float mean = 0.0f, all = 0.0f;                    \
  for (int pass_ = 0; pass_ < 2; ++pass_) {         \
    float v_ = 0.0f;                                \
    if (pass_ == 0) {                               \
      FIRST                                         \
    } else {                                        \
      SECOND                                        \
    }                                               \
    v_ = KERNEL(all)(v_, parts);                    \
    mean = pass_ == 0 ? v_ / (elements) : mean;     \
    all = v_;                                       \
  }

// One over what a group with this sum of squares is divided by.
static inline float KERNEL(factor)(float squares, float elements, int scale, float epsilon) {
  if (scale == 2) return 1.0f / fmax(sqrt(squares), epsilon);
  return scale == 1 ? 1.0f / sqrt(squares / elements + epsilon) : 1.0f;
}

// Mean and squared distances from it, of elements that are read once, a block after the other. What
// is squared are distances from the block's first element, so that little cancels; without
// `centre` the mean is 0.
#define MOMENTS(count, mean, squares, i, step, end, ELEMENT_AT)                        \
  for (int i_ = (i); i_ < (end);) {                                                    \
    const FLOATS origin_ = centre ? LOADS(x, ELEMENT_AT(i_)) : (FLOATS)0.0f;           \
    FLOATS sum_ = 0.0f, square_ = 0.0f;                                                \
    int taken_ = 0;                                                                    \
    for (; taken_ < 16 && (end)-i_ > 3 * (step); taken_ += 4, i_ += 4 * (step)) {      \
      const FLOATS a_ = LOADS(x, ELEMENT_AT(i_)) - origin_;                            \
      const FLOATS b_ = LOADS(x, ELEMENT_AT(i_ + (step))) - origin_;                   \
      const FLOATS c_ = LOADS(x, ELEMENT_AT(i_ + 2 * (step))) - origin_;               \
      const FLOATS d_ = LOADS(x, ELEMENT_AT(i_ + 3 * (step))) - origin_;               \
      sum_ += (a_ + b_) + (c_ + d_);                                                   \
      square_ += (a_ * a_ + b_ * b_) + (c_ * c_ + d_ * d_);                            \
    }                                                                                  \
    for (; taken_ < 16 && i_ < (end); ++taken_, i_ += (step)) {                        \
      const FLOATS a_ = LOADS(x, ELEMENT_AT(i_)) - origin_;                            \
      sum_ += a_;                                                                      \
      square_ += a_ * a_;                                                              \
    }                                                                                  \
    const float share_ = taken_ / (float)(count + taken_);                             \
    if (centre) {                                                                      \
      const FLOATS off_ = origin_ + sum_ / (float)taken_ - mean;                       \
      square_ -= sum_ * (sum_ / (float)taken_);                                        \
      square_ += off_ * off_ * (count * share_);                                       \
      mean += off_ * share_;                                                           \
    }                                                                                  \
    squares += square_;                                                                \
    count += taken_;                                                                   \
  }

#ifndef SPATIAL
// Rows of `inner` elements.
//   TABLES: element k of row r is at starts[r] + steps[k], else rows are neighbours; WIDTH is 1
//   then
//   PERIOD: weights repeat after so many elements of a row

#ifdef TABLES
#define TABLE_PARAMS __global const int *starts, __global const int *steps,
#define ELEMENT(k) (start + steps[k])
#else
#define TABLE_PARAMS
#define ELEMENT(k) (start + (k))
#endif
#ifdef PERIOD
#define OF_WEIGHT(k) ((k) % period)
#else
#define OF_WEIGHT(k) (k)
#endif
#ifdef WEIGHT
#define WEIGHT_PARAMS __global const REAL *weight,
#define WEIGHTED(v, k) v *= LOADS(weight, OF_WEIGHT(k))
#else
#define WEIGHT_PARAMS
#define WEIGHTED(v, k)
#endif
#ifdef BIAS
#define BIAS_PARAMS __global const REAL *bias,
#define BIASED(v, k) v += LOADS(bias, OF_WEIGHT(k))
#else
#define BIAS_PARAMS
#define BIASED(v, k)
#endif
#ifdef TABLES
#define START(row) starts[row]
#else
#define START(row) ((row)*inner)
#endif
#define ROW_OF_GROUP                                             \
  const int row = (int)get_group_id(0) * COLUMNS + ITEM_COLUMN;  \
  const int start = row < rows ? START(row) : 0;
// `mean` and `all`, the squares around it, of elements that all lanes of a row share
#define MOMENTS_OF_ROW(first, end, elements)                          \
  int count = 0;                                                      \
  FLOATS each = 0.0f, square = 0.0f;                                  \
  MOMENTS(count, each, square, first, LANES * WIDTH, end, ELEMENT)    \
  TWO_SUMS(elements, v_ = SUM(each) * count;,                         \
           const FLOATS off = each - mean; v_ = SUM(square + off * off * (float)count);)
#define WRITTEN(from, to)                                        \
  for (int k = (from); k < (to); k += LANES * WIDTH) {           \
    FLOATS v = (LOADS(x, ELEMENT(k)) - mean) * factor;           \
    WEIGHTED(v, k);                                              \
    BIASED(v, k);                                                \
    STORES(y, ELEMENT(k), POSTS(v, ELEMENT(k)));                 \
  }

#ifdef ONLY_ROWS
__kernel void KERNEL(rows)(__global const REAL* x, WEIGHT_PARAMS BIAS_PARAMS TABLE_PARAMS
                           __global REAL* y, const int rows, const int inner, const int period,
                           const int centre, const int scale, const float epsilon POST_PARAMS) {
  __local float parts[LANES * COLUMNS];
  ROW_OF_GROUP
  const int end = row < rows ? inner : 0;
  const int first = ITEM_LANE * WIDTH;
  MOMENTS_OF_ROW(first, end, inner)
  const float factor = KERNEL(factor)(all, inner, scale, epsilon);
  WRITTEN(first, end)
}
#endif

// In two kernels, where rows are few and long: mean and squares of each part, to [parts, rows]...
#define PART_OF_ROW                                                                     \
  const int begin = (int)get_group_id(2) * chunk;                                       \
  const int size = inner - begin > chunk ? chunk : inner - begin;                       \
  const int end = row < rows ? begin + size : begin;                                    \
  const int first = begin + ITEM_LANE * WIDTH;
#ifdef ONLY_ROW_PARTS
__kernel void KERNEL(row_parts)(__global const REAL* x, TABLE_PARAMS __global float* means,
                                __global float* squares, const int rows, const int inner,
                                const int chunk, const int centre) {
  __local float parts[LANES * COLUMNS];
  ROW_OF_GROUP
  PART_OF_ROW
  MOMENTS_OF_ROW(first, end, size)
  if (ITEM_LANE > 0 || row >= rows) return;
  const int at = (int)get_group_id(2) * rows + row;
  means[at] = mean;
  squares[at] = all;
}
#endif

// ...and those of the row from all of its parts, by every group that writes one of them.
#ifdef ONLY_ROWS_OF_PARTS
__kernel void KERNEL(rows_of_parts)(__global const REAL* x, WEIGHT_PARAMS BIAS_PARAMS TABLE_PARAMS
                                    __global const float* means, __global const float* squares,
                                    __global REAL* y, const int rows, const int inner,
                                    const int period, const int chunk, const int centre,
                                    const int scale, const float epsilon POST_PARAMS) {
  __local float parts[LANES * COLUMNS];
  ROW_OF_GROUP
  PART_OF_ROW
  const int last = row < rows ? get_num_groups(2) : 0;
  TWO_SUMS(
      inner, for (int p = ITEM_LANE; p < last; p += LANES) v_ +=
             means[p * rows + row] * min(chunk, inner - p * chunk);
      , for (int p = ITEM_LANE; p < last; p += LANES) {
        const float off = means[p * rows + row] - mean;  // nothing unless centred
        v_ += squares[p * rows + row] + off * off * min(chunk, inner - p * chunk);
      })
  const float factor = KERNEL(factor)(all, inner, scale, epsilon);
  WRITTEN(first, end)
}
#endif

#else
// [N, pixels, C] by groups of channels over all pixels, in three kernels: statistics of each
// channel over chunks of pixels, those of groups out of them, and the result. All but the ends are
// 32 bits.
//   EACH: groups are single channels

#define FLOATS_AT(p, i) (*(__global FLOATS*)((p) + (i)))

// `count`: vectors of channels of all images
#ifdef ONLY_MOMENTS
__kernel void KERNEL(moments)(__global const REAL* x, __global float* means,
                              __global float* squares, const int count, const int channels,
                              const int pixels, const int chunk, const int chunks,
                              const int centre) {
  const int i = (int)get_group_id(0) * COLUMNS + ITEM_COLUMN;
  const int c = i % (channels / WIDTH) * WIDTH, n = i / (channels / WIDTH);
  const int first = (int)get_group_id(2) * chunk;
  const int size = min(chunk, pixels - first), last = i < count ? first + size : first;
  if (i < count) x += n * pixels * channels + c;
  int taken = 0;
  FLOATS mean = 0.0f, square = 0.0f;
#define PIXEL(p) ((p)*channels)
  MOMENTS(taken, mean, square, first + ITEM_LANE, LANES, last, PIXEL)
#if LANES > 1
  __local FLOATS parts[LANES * COLUMNS];
  const int item = ITEM, lane = ITEM_LANE;
  FLOATS sum = mean * (float)taken, middle = 0.0f;
  for (int pass = 0; pass < 2; ++pass) {
    parts[item] = sum;
    for (int others = LANES / 2; others > 0; others /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if (lane < others) parts[item] += parts[item + others * LANE_STEP];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = parts[item - lane * LANE_STEP];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (pass == 0) {
      middle = sum / (float)size;
      sum = square + (mean - middle) * (mean - middle) * (float)taken;
    }
  }
  mean = middle;
  square = sum;
#endif
  if (ITEM_LANE > 0 || i >= count) return;
  const int at = (n * chunks + (int)get_group_id(2)) * channels + c;
  FLOATS_AT(means, at) = mean;
  FLOATS_AT(squares, at) = square;
}
#endif

// A work group of LANES for each group of `width` channels.
#ifdef ONLY_JOIN
__kernel void KERNEL(join)(__global const float* means, __global const float* squares,
                           __global float* stats, const int channels, const int width,
                           const int pixels, const int chunk, const int chunks, const int centre,
                           const int scale, const float epsilon) {
  const int groups = channels / width, every = get_num_groups(0), group = get_group_id(0);
  const int n = group / groups, c = group % groups * width, lane = ITEM_LANE;
  const float elements = (float)pixels * width;
  means += n * chunks * channels + c;
  squares += n * chunks * channels + c;
  __local float parts[LANES];
  TWO_SUMS(
      elements, for (int t = lane; t < chunks * width; t += LANES) {
        const int k = t / width;
        v_ += means[k * channels + t % width] * min(chunk, pixels - k * chunk);
      },
      for (int t = lane; t < chunks * width; t += LANES) {
        const int k = t / width;
        const float off = means[k * channels + t % width] - mean;  // nothing unless centred
        v_ += squares[k * channels + t % width] + off * off * min(chunk, pixels - k * chunk);
      })
  if (lane > 0) return;
  stats[group] = mean;
  stats[every + group] = KERNEL(factor)(all, elements, scale, epsilon);
}
#endif

#ifdef ONLY_NORMALIZE
__kernel void KERNEL(normalize)(__global const REAL* x, __global const float* stats,
#ifdef WEIGHT
                                __global const REAL* weight,
#endif
#ifdef BIAS
                                __global const REAL* bias,
#endif
                                __global REAL* y, const int count, const int channels,
                                const int width, const int pixels, const int all POST_PARAMS) {
  if (get_global_id(0) >= count) return;
  const int i = get_global_id(0) * WIDTH, c = i % channels;
  const int group = i / (pixels * channels) * (channels / width) + c / width;
#ifdef EACH
  const FLOATS mean = FLOATS_AT(stats, group), factor = FLOATS_AT(stats, all + group);
#else
  const float mean = stats[group], factor = stats[all + group];
#endif
  FLOATS v = (LOADS(x, i) - mean) * factor;
#ifdef WEIGHT
  v *= LOADS(weight, c);
#endif
#ifdef BIAS
  v += LOADS(bias, c);
#endif
  STORES(y, i, POSTS(v, i));
}
#endif
#endif
