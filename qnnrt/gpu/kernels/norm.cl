// Normalization by statistics, of rows or, with SPATIAL, of images.
//   LANES: work items that share a statistic
// Arguments: `centre`: the mean is subtracted; `scale`: by what the rest is divided, 0 nothing, 1
// its deviation, 2 its length

// The sum of all work items' `v`.
float KERNEL(all)(float v, __local float* parts) {
#if LANES > 1
  const int lane = get_local_id(0);
  parts[lane] = v;
  for (int others = LANES / 2; others > 0; others /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < others) parts[lane] += parts[lane + others];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  v = parts[0];
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  return v;
}

// One over what a group with this sum of squares is divided by.
float KERNEL(factor)(float squares, float elements, int scale, float epsilon) {
  if (scale == 2) return 1.0f / fmax(sqrt(squares), epsilon);
  return scale == 1 ? 1.0f / sqrt(squares / elements + epsilon) : 1.0f;
}

#ifndef SPATIAL
// Rows of `inner` elements, a work group for each.
//   TABLES: element k of row r is at starts[r] + steps[k], else rows are neighbours; WIDTH is 1
//   then

#undef SUM
#define SUM1(v) (v)
#define SUM2(v) ((v).s0 + (v).s1)
#define SUM4(v) (SUM2((v).s01) + SUM2((v).s23))
#define SUM8(v) (SUM4((v).s0123) + SUM4((v).s4567))
#define SUM(v) JOIN(SUM, WIDTH)(v)
#undef ELEMENT
#ifdef TABLES
#define ELEMENT(k) (start + steps[k])
#else
#define ELEMENT(k) (start + (k))
#endif

__kernel void KERNEL(rows)(__global const REAL* x,
#ifdef WEIGHT
                           __global const REAL* weight,
#endif
#ifdef BIAS
                           __global const REAL* bias,
#endif
#ifdef TABLES
                           __global const int* starts, __global const int* steps,
#endif
                           __global REAL* y, const int inner, const int centre, const int scale,
                           const float epsilon POST_PARAMS) {
  __local float parts[LANES];
  const int row = get_group_id(0);
#ifdef TABLES
  const int start = starts[row];
#else
  const int start = row * inner;
#endif
  const int first = get_local_id(0) * WIDTH;
  FLOATS mean = 0.0f, sums = 0.0f;
  if (centre) {
    for (int k = first; k < inner; k += LANES * WIDTH) sums += LOADS(x, ELEMENT(k));
    mean = KERNEL(all)(SUM(sums), parts) / inner;
    sums = 0.0f;
  }
  for (int k = first; k < inner; k += LANES * WIDTH) {
    const FLOATS v = LOADS(x, ELEMENT(k)) - mean;
    sums += v * v;
  }
  const float all = KERNEL(all)(SUM(sums), parts);
  const float factor = KERNEL(factor)(all, inner, scale, epsilon);
  for (int k = first; k < inner; k += LANES * WIDTH) {
    FLOATS v = (LOADS(x, ELEMENT(k)) - mean) * factor;
#ifdef WEIGHT
    v *= LOADS(weight, k);
#endif
#ifdef BIAS
    v += LOADS(bias, k);
#endif
    STORES(y, ELEMENT(k), POSTS(v, ELEMENT(k)));
  }
}

#else
// [N, pixels, C] by groups of channels over all pixels, in three kernels: statistics of each
// channel over chunks of pixels, those of groups out of them, and the result. All but the ends are
// 32 bits.
//   EACH: groups are single channels

#undef FLOATS_AT
#define FLOATS_AT(p, i) (*(__global FLOATS*)((p) + (i)))

__kernel void KERNEL(moments)(__global const REAL* x, __global float* means,
                              __global float* squares, const int count, const int channels,
                              const int pixels, const int chunk, const int chunks,
                              const int centre) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int at = i * WIDTH;
  const int c = i % (channels / WIDTH) * WIDTH;
  i /= channels / WIDTH;
  const int first = i % chunks * chunk, n = i / chunks;
  const int last = min(first + chunk, pixels);
  x += n * pixels * channels + c;
  FLOATS mean = 0.0f, sum = 0.0f;
  if (centre) {
    for (int p = first; p < last; ++p) mean += LOADS(x, p * channels);
    mean /= (float)(last - first);
  }
  for (int p = first; p < last; ++p) {
    const FLOATS v = LOADS(x, p * channels) - mean;
    sum += v * v;
  }
  FLOATS_AT(means, at) = mean;
  FLOATS_AT(squares, at) = sum;
}

// A work group for each group of `width` channels.
__kernel void KERNEL(join)(__global const float* means, __global const float* squares,
                           __global float* stats, const int channels, const int width,
                           const int pixels, const int chunk, const int chunks, const int centre,
                           const int scale, const float epsilon) {
  const int groups = channels / width, all = get_num_groups(0), group = get_group_id(0);
  const int n = group / groups, c = group % groups * width, lane = get_local_id(0);
  const float elements = (float)pixels * width;
  means += n * chunks * channels + c;
  squares += n * chunks * channels + c;
  __local float parts[LANES];
  float mean = 0.0f;
  if (centre) {
    for (int t = lane; t < chunks * width; t += LANES) {
      const int k = t / width;
      mean += means[k * channels + t % width] * min(chunk, pixels - k * chunk);
    }
    mean = KERNEL(all)(mean, parts) / elements;
  }
  float squared = 0.0f;
  for (int t = lane; t < chunks * width; t += LANES) {
    const int k = t / width, at = k * channels + t % width;
    const float off = means[at] - mean;  // nothing unless centred
    squared += squares[at] + off * off * min(chunk, pixels - k * chunk);
  }
  squared = KERNEL(all)(squared, parts);
  if (lane > 0) return;
  stats[group] = mean;
  stats[all + group] = KERNEL(factor)(squared, elements, scale, epsilon);
}

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
