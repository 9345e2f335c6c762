// Depthwise convolution of [N, H, W, C]: every output channel sees one input channel. A work item
// has WIDTH channels of PIXELS neighbours in a line of the output, which share what they read:
//   KW, SW, DW: taps, stride and dilation along a line
//   MULTIPLIER: output channels for each input channel, where that is not one; WIDTH divides it
//   SHUFFLED: channels are read as from so many groups, the first one of each before the second ones

#define SPAN ((PIXELS - 1) * SW + (KW - 1) * DW + 1)
#undef TAKE
#ifdef MULTIPLIER
#define TAKE(p, c) ((FLOATS)(LOAD(p, (c) / MULTIPLIER)))
#elif defined SHUFFLED
#define PICK1(p, c) LOAD(p, (c) % SHUFFLED * (cin / SHUFFLED) + (c) / SHUFFLED)
#define PICK2(p, c) (float2)(PICK1(p, c), PICK1(p, (c) + 1))
#define PICK4(p, c) (float4)(PICK2(p, c), PICK2(p, (c) + 2))
#define PICK8(p, c) (float8)(PICK4(p, c), PICK4(p, (c) + 4))
#define TAKE(p, c) JOIN(PICK, WIDTH)(p, c)
#else
#define TAKE(p, c) LOADS(p, c)
#endif

__kernel void KERNEL(depthwise)(__global const REAL* x, __global const REAL* w,
#ifdef BIAS
                                __global const REAL* bias,
#endif
                                __global REAL* y, const int count, const int height,
                                const int width, const int cin, const int out_height,
                                const int out_width, const int cout, const int kh, const int sh,
                                const int dh, const int top, const int left POST_PARAMS) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int c = i % (cout / WIDTH) * WIDTH;
  i /= cout / WIDTH;
  const int blocks = (out_width + PIXELS - 1) / PIXELS;
  const int first = i % blocks * PIXELS;
  i /= blocks;
  const int row = i % out_height;
  const int n = i / out_height;
  FLOATS sums[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
#ifdef BIAS
    sums[p] = LOADS(bias, c);
#else
    sums[p] = 0.0f;
#endif
  }
  for (int k = 0; k < kh; ++k) {
    const int h = row * sh - top + k * dh;
    if (h < 0 || h >= height) continue;
    __global const REAL* line = x + (n * height + h) * width * cin;
    __global const REAL* taps = w + k * KW * cout + c;
#if PIXELS == 1
    for (int t = 0; t < KW; ++t) {
      const int column = first * SW - left + t * DW;
      if (column < 0 || column >= width) continue;
      sums[0] += TAKE(line + column * cin, c) * LOADS(taps, t * cout);
    }
#else
    FLOATS weights[KW];
#pragma unroll
    for (int t = 0; t < KW; ++t) weights[t] = LOADS(taps, t * cout);
#pragma unroll
    for (int s = 0; s < SPAN; ++s) {
      const int column = first * SW - left + s;
      FLOATS v = 0.0f;
      if (column >= 0 && column < width) v = TAKE(line + column * cin, c);
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) {
        const int t = s - p * SW;
        if (t >= 0 && t % DW == 0 && t / DW < KW) sums[p] += v * weights[t / DW];
      }
    }
#endif
  }
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    if (first + p < out_width) {
      const int at = ((n * out_height + row) * out_width + first + p) * cout + c;
      STORES(y, at, POSTS(sums[p], at));
    }
  }
}
#undef SPAN
