// y = x / (bias + alpha * sum of the squares in a window) ^ beta.
//   ACROSS: the window is of channels, else of pixels of [N, H, W, C]

// 1 / s^beta; the usual exponents without pow.
FLOATS KERNEL(power)(FLOATS s, float beta) {
  if (beta == 0.75f) return 1.0f / (sqrt(s) * sqrt(sqrt(s)));
  if (beta == 0.5f) return 1.0f / sqrt(s);
  if (beta == 1.0f) return 1.0f / s;
  return pow(s, (FLOATS)(-beta));
}

#ifdef ACROSS
// WIDTH is 1 for windows that are no neighbours' of each other.
__kernel void KERNEL(lrn)(__global const REAL* x, __global REAL* y, const int count,
                          const int channels, const int radius, const float alpha, const float beta,
                          const float bias POST_PARAMS) {
  if (get_global_id(0) >= count) return;
  const int at = get_global_id(0) * WIDTH, c = at % channels;
  const int first = -min(radius, c), last = min(radius + WIDTH - 1, channels - 1 - c);
  float sums[WIDTH];
#pragma unroll
  for (int j = 0; j < WIDTH; ++j) sums[j] = 0.0f;
  for (int k = first; k <= last; ++k) {
    const float v = LOAD(x, at + k);
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
      if (abs(k - j) <= radius) sums[j] += v * v;
    }
  }
#if WIDTH == 1
  const FLOATS sum = sums[0];
#else
  const FLOATS sum = JOIN(vload, WIDTH)(0, sums);
#endif
  const FLOATS v = LOADS(x, at) * KERNEL(power)(bias + alpha * sum, beta);
  STORES(y, at, POSTS(v, at));
}
#else
__kernel void KERNEL(lrn)(__global const REAL* x, __global REAL* y, const int count,
                          const int channels, const int radius, const float alpha, const float beta,
                          const float bias, const int height, const int width POST_PARAMS) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int at = i * WIDTH;
  const int c = i % (channels / WIDTH) * WIDTH;
  i /= channels / WIDTH;
  const int column = i % width;
  i /= width;
  const int row = i % height, n = i / height;
  FLOATS sum = 0.0f;
  for (int h = row - min(radius, row); h <= row + min(radius, height - 1 - row); ++h) {
    for (int w = column - min(radius, column); w <= column + min(radius, width - 1 - column); ++w) {
      const FLOATS v = LOADS(x, ((n * height + h) * width + w) * channels + c);
      sum += v * v;
    }
  }
  const FLOATS v = LOADS(x, at) * KERNEL(power)(bias + alpha * sum, beta);
  STORES(y, at, POSTS(v, at));
}
#endif
