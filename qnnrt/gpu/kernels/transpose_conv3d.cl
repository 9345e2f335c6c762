// Transposed convolutions of volumes, [N, D, H, W, C]. A work item has WIDTH channels of a place of
// the output: it goes through the taps that a place of the input meets there.

__kernel void KERNEL(transpose_conv3d)(
    __global const REAL* x, __global const REAL* w,
#ifdef BIAS
    __global const REAL* bias,
#endif
    __global REAL* y, const int count, const int cin, const int cout, const int groups,
    const int depth, const int out_depth, const int kd, const int sd, const int front,
    const int height, const int out_height, const int kh, const int sh, const int top,
    const int width, const int out_width, const int kw, const int sw, const int left POST_PARAMS) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int c = i % (cout / WIDTH) * WIDTH;
  i /= cout / WIDTH;
  const int column = i % out_width + left;
  i /= out_width;
  const int row = i % out_height + top;
  i /= out_height;
  const int slice = i % out_depth + front, n = i / out_depth;
  const int inner = cin / groups, n_group = cout / groups;
  const int from_channel = c / n_group * inner;
#ifdef BIAS
  FLOATS sum = LOADS(bias, c);
#else
  FLOATS sum = 0.0f;
#endif
  for (int a = slice % sd; a < kd && a <= slice; a += sd) {
    const int z = (slice - a) / sd;
    if (z >= depth) continue;
    for (int b = row % sh; b < kh && b <= row; b += sh) {
      const int h = (row - b) / sh;
      if (h >= height) continue;
      for (int d = column % sw; d < kw && d <= column; d += sw) {
        const int v = (column - d) / sw;
        if (v >= width) continue;
        const int from = (((n * depth + z) * height + h) * width + v) * cin + from_channel;
        const int tap = (((a * kh + b) * kw + d) * cin + from_channel) * n_group + c % n_group;
        for (int k = 0; k < inner; ++k) sum += LOADS(w, tap + k * n_group) * LOAD(x, from + k);
      }
    }
  }
  const int at = get_global_id(0) * WIDTH;
  STORES(y, at, POSTS(sum, at));
}
