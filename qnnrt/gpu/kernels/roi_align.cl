// Regions of [N, H, W, C], each (x1, y1, x2, y2) of an image that is smaller here by scale_y, scale_x, as
// rows x columns bins: means of samples that are interpolated linearly. The cpu's expressions.
//   INDEX: the type of the indices of images; one outside gives 0, and is noted
//   SAMPLES_Y, SAMPLES_X: samples of a bin; -1: as many as it has pixels
//   ALIGNED: pixels lie half a pixel off their index

#define MOST_SAMPLES 4096.0f
#ifdef ALIGNED
#define OFFSET 0.5f
#define SIZE(x) (x)
#else
#define OFFSET 0.0f
#define SIZE(x) fmax(x, 1.0f)
#endif

static inline int KERNEL(samples)(int given, float bin) {
  if (given > 0) return given;
  return bin > 0.0f ? (int)fmin(ceil(bin), MOST_SAMPLES) : 0;
}

__kernel void KERNEL(roi_align)(__global const REAL* x, __global const REAL* regions,
                                __global const INDEX* images, __global REAL* y, const int count,
                                const int channels, const int batch, const int height,
                                const int width, const int rows, const int columns,
                                const float scale_y, const float scale_x FAULT_PARAMS POST_PARAMS) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int c = i % (channels / WIDTH) * WIDTH;
  i /= channels / WIDTH;
  const int column = i % columns, row = i / columns % rows, region = i / columns / rows;
  const long given = (long)images[region], image = given < 0 ? given + batch : given;
  if (image < 0 || image >= batch) FAULT(region, given, 0, batch)
  FLOATS sum = 0.0f;
  if (image >= 0 && image < batch) {
    const float y1 = LOAD(regions, region * 4 + 1) * scale_y - OFFSET;
    const float x1 = LOAD(regions, region * 4) * scale_x - OFFSET;
    const float y2 = LOAD(regions, region * 4 + 3) * scale_y - OFFSET;
    const float x2 = LOAD(regions, region * 4 + 2) * scale_x - OFFSET;
    const float bin_y = SIZE(y2 - y1) / rows, bin_x = SIZE(x2 - x1) / columns;
    const int samples_y = KERNEL(samples)(SAMPLES_Y, bin_y);
    const int samples_x = KERNEL(samples)(SAMPLES_X, bin_x);
    const float each = 1.0f / max(1, samples_y * samples_x);
    for (int a = 0; a < samples_y; ++a) {
      float h = y1 + row * bin_y + (a + 0.5f) * bin_y / samples_y;
      if (!(h >= -1.0f && h <= height)) continue;
      h = fmin(fmax(h, 0.0f), height - 1.0f);
      const int top = (int)h, bottom = min(top + 1, height - 1);
      const int above = ((int)image * height + top) * width;
      const int below = ((int)image * height + bottom) * width;
      h -= top;
      for (int b = 0; b < samples_x; ++b) {
        float w = x1 + column * bin_x + (b + 0.5f) * bin_x / samples_x;
        if (!(w >= -1.0f && w <= width)) continue;
        w = fmin(fmax(w, 0.0f), width - 1.0f);
        const int left = (int)w, right = min(left + 1, width - 1);
        w -= left;
        sum += (1 - h) * (1 - w) * each * LOADS(x, (above + left) * channels + c) +
               (1 - h) * w * each * LOADS(x, (above + right) * channels + c) +
               h * (1 - w) * each * LOADS(x, (below + left) * channels + c) +
               h * w * each * LOADS(x, (below + right) * channels + c);
      }
    }
  }
  const int at = get_global_id(0) * WIDTH;
  STORES(y, at, POSTS(sum, at));
}
