// Convolutions of [N, D, H, W, C] and, with TRANSPOSED, transposed ones of [N, H, W, C]. A work
// item has WIDTH channels of PIXELS pixels in a line of the output that share the weights that are
// read: neighbours, or a stride apart, which see the same taps.
//   STEP: input channels that are read at once, 1 or 4

#undef FROM
#if STEP == 1
#define FROM float
#define FROM_AT(p, i) LOAD(p, i)
#else
#define FROM float4
#ifdef HALF
#define FROM_AT(p, i) vloada_half4(0, (p) + (i))
#else
#define FROM_AT(p, i) (*(__global const float4*)((p) + (i)))
#endif
#endif
#define TAP(k, from)                                                                   \
  {                                                                                    \
    const FLOATS weight = LOADS(weights, (z + k) * step);                              \
    _Pragma("unroll") for (int p = 0; p < PIXELS; ++p) { sums[p] += weight * (from); } \
  }

#ifdef TRANSPOSED
__kernel void KERNEL(transpose_conv)(__global const REAL* x, __global const REAL* w,
#ifdef BIAS
                                     __global const REAL* bias,
#endif
                                     __global REAL* y, const int count, const int height,
                                     const int width, const int cin, const int out_height,
                                     const int out_width, const int cout, const int groups,
                                     const int kh, const int kw, const int sh, const int sw,
                                     const int top, const int left POST_PARAMS) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int c = i % (cout / WIDTH) * WIDTH;
  i /= cout / WIDTH;
  const int blocks = ((out_width + sw - 1) / sw + PIXELS - 1) / PIXELS;
  const int first = i % blocks * PIXELS;  // of the columns that have this item's phase
  i /= blocks;
  const int phase = i % sw;
  i /= sw;
  const int row = i % out_height, n = i / out_height;
  const int depth = cin / groups, n_group = cout / groups, step = n_group;
  const int from_channel = c / n_group * depth;
  FLOATS sums[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
#ifdef BIAS
    sums[p] = LOADS(bias, c);
#else
    sums[p] = 0.0f;
#endif
  }
  // Output o gets input i through tap k where o = i * stride - pad + k.
  for (int a = (row + top) % sh; a < kh; a += sh) {
    const int h = (row + top - a) / sh;
    if (h < 0 || h >= height) continue;
    __global const REAL* line = x + (n * height + h) * width * cin + from_channel;
    for (int b = (phase + left) % sw; b < kw; b += sw) {
      const int column = first + (phase + left - b) / sw;
      __global const REAL* weights =
          w + ((a * kw + b) * cin + from_channel) * n_group + c % n_group;
      for (int z = 0; z < depth; z += STEP) {
        FROM from[PIXELS];
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
          from[p] = 0.0f;
          if (column + p >= 0 && column + p < width) {
            from[p] = FROM_AT(line, (column + p) * cin + z);
          }
        }
#if STEP == 1
        TAP(0, from[p])
#else
        TAP(0, from[p].s0)
        TAP(1, from[p].s1)
        TAP(2, from[p].s2)
        TAP(3, from[p].s3)
#endif
      }
    }
  }
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    const int column = phase + (first + p) * sw;
    if (column < out_width) {
      const int at = ((n * out_height + row) * out_width + column) * cout + c;
      STORES(y, at, POSTS(sums[p], at));
    }
  }
}
#else
// A dimension: input, output, taps, stride, dilation, padding before
#define DIMENSION(d)                                                                             \
  const int in##d, const int out##d, const int size##d, const int stride##d, const int apart##d, \
      const int before##d

__kernel void KERNEL(conv3d)(__global const REAL* x, __global const REAL* w,
#ifdef BIAS
                             __global const REAL* bias,
#endif
                             __global REAL* y, const int count, const int cin, const int cout,
                             const int groups, DIMENSION(0), DIMENSION(1),
                             DIMENSION(2) POST_PARAMS) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int c = i % (cout / WIDTH) * WIDTH;
  i /= cout / WIDTH;
  const int blocks = (out2 + PIXELS - 1) / PIXELS;
  const int first = i % blocks * PIXELS;
  i /= blocks;
  const int line = i;  // of the output
  const int top = i % out1 * stride1 - before1;
  i /= out1;
  const int front = i % out0 * stride0 - before0, n = i / out0;
  const int depth = cin / groups, step = cout;
  const int from_channel = c / (cout / groups) * depth;
  FLOATS sums[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
#ifdef BIAS
    sums[p] = LOADS(bias, c);
#else
    sums[p] = 0.0f;
#endif
  }
  for (int t = 0; t < size0 * size1; ++t) {
    const int d = front + t / size1 * apart0, h = top + t % size1 * apart1;
    if (d < 0 || d >= in0 || h < 0 || h >= in1) continue;
    __global const REAL* from_line = x + ((n * in0 + d) * in1 + h) * in2 * cin + from_channel;
    for (int b = 0; b < size2; ++b) {
      const int column = first * stride2 - before2 + b * apart2;
      __global const REAL* weights = w + (t * size2 + b) * depth * cout + c;
      for (int z = 0; z < depth; z += STEP) {
        FROM from[PIXELS];
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
          const int at = column + p * stride2;
          from[p] = 0.0f;
          if (at >= 0 && at < in2) from[p] = FROM_AT(from_line, at * cin + z);
        }
#if STEP == 1
        TAP(0, from[p])
#else
        TAP(0, from[p].s0)
        TAP(1, from[p].s1)
        TAP(2, from[p].s2)
        TAP(3, from[p].s3)
#endif
      }
    }
  }
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    if (first + p < out2) {
      const int at = (line * out2 + first + p) * cout + c;
      STORES(y, at, POSTS(sums[p], at));
    }
  }
}
#undef DIMENSION
#endif
#undef FROM_AT
#undef TAP
