// Resizing of [N, D, H, W, C] with what each output coordinate reads in tables: TAPS input
// coordinates and, unless it is one, their weights, for the coordinates of D, then H, then W. A
// dimension that stays as it is has one tap, so the number of D's is an argument.
//   ELEMENT: what moves when nothing is computed

#ifdef ELEMENT
__kernel void KERNEL(nearest)(__global const ELEMENT* x, __global ELEMENT* y,
                              __global const int* indices, const int count, const int channels,
                              const int in0, const int in1, const int in2, const int out0,
                              const int out1, const int out2) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int c = i % channels;
  i /= channels;
  const int w = indices[out0 + out1 + i % out2];
  i /= out2;
  const int h = indices[out0 + i % out1];
  i /= out1;
  const int d = indices[i % out0], n = i / out0;
  y[get_global_id(0)] = x[(((n * in0 + d) * in1 + h) * in2 + w) * channels + c];
}
#else
__kernel void KERNEL(blend)(__global const REAL* x, __global REAL* y, __global const int* indices,
                            __global const float* weights, const int count, const int channels,
                            const int in0, const int in1, const int in2, const int out0,
                            const int out1, const int out2, const int deep POST_PARAMS) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int c = i % (channels / WIDTH) * WIDTH;
  i /= channels / WIDTH;
  const int w = (out0 + out1 + i % out2) * TAPS;
  i /= out2;
  const int h = (out0 + i % out1) * TAPS;
  i /= out1;
  const int d = i % out0 * TAPS, n = i / out0;
  FLOATS sum = 0.0f;
  for (int a = d; a < d + deep; ++a) {
    for (int b = h; b < h + TAPS; ++b) {
      const int line = ((n * in0 + indices[a]) * in1 + indices[b]) * in2;
      FLOATS part = 0.0f;
      for (int k = w; k < w + TAPS; ++k) {
        part += weights[k] * LOADS(x, (line + indices[k]) * channels + c);
      }
      sum += weights[a] * weights[b] * part;
    }
  }
  const int at = get_global_id(0) * WIDTH;
  STORES(y, at, POSTS(sum, at));
}
#endif
