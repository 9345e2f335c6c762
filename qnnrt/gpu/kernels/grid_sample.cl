// Images [N, H, W, C] or volumes [N, D, H, W, C] at points (x, y) or (x, y, z), which are -1 at one
// end and 1 at the other. The cpu's expressions.
//   DIMS: 2 or 3
//   ALIGNED: the ends are the middles of the outermost pixels, not their borders
//   NEAREST: the nearest pixel instead of a mean of its neighbours
//   ZEROS, BORDER or REFLECTION: what lies outside

// Where a point is along a dim, in pixels.
static inline float KERNEL(place)(float point, float size) {
#ifdef ALIGNED
  const float x = (point + 1.0f) * 0.5f * (size - 1.0f), low = 0.0f, span = size - 1.0f;
#else
  const float x = ((point + 1.0f) * size - 1.0f) * 0.5f, low = -0.5f, span = size;
#endif
#ifdef ZEROS
  return x;
#endif
#ifdef REFLECTION
  if (span <= 0.0f) return 0.0f;
  const float t = fmod(fabs(x - low), 2.0f * span);
  return bounded((t > span ? 2.0f * span - t : t) + low, 0.0f, size - 1.0f);
#endif
  return bounded(x, 0.0f, size - 1.0f);  // NaN stays NaN, which is nowhere
}

__kernel void KERNEL(grid_sample)(__global const REAL* x, __global const REAL* grid,
                                  __global REAL* y, const int count, const int channels,
                                  const int points, const int depth, const int height,
                                  const int width POST_PARAMS) {
  int i = get_global_id(0);
  if (i >= count) return;
  const int c = i % (channels / WIDTH) * WIDTH;
  i /= channels / WIDTH;
  const int sizes[3] = {width, height, depth};  // as a point has them
  float low[DIMS], share[DIMS];
  for (int d = 0; d < DIMS; ++d) {
    const float at = KERNEL(place)(LOAD(grid, i * DIMS + d), (float)sizes[d]);
#ifdef NEAREST
    low[d] = rint(at);
    share[d] = 0.0f;
#else
    low[d] = floor(at);
    share[d] = at - low[d];
#endif
  }
  FLOATS sum = 0.0f;
#ifdef NEAREST
  const int corners = 1;
#else
  const int corners = 1 << DIMS;
#endif
  for (int corner = 0; corner < corners; ++corner) {
    float weight = 1.0f;
    int pixel = 0, inside = 1;
    for (int d = DIMS - 1; d >= 0; --d) {
      const int upper = corner >> d & 1;
      const float at = low[d] + (float)upper;
      weight *= upper ? share[d] : 1.0f - share[d];
      inside = inside && at >= 0.0f && at < (float)sizes[d];
      pixel = pixel * sizes[d] + (inside ? (int)at : 0);
    }
    if (!inside || weight == 0.0f) continue;
    const int image = i / points * depth * height * width;
    sum += weight * LOADS(x, (image + pixel) * channels + c);
  }
  const int at = get_global_id(0) * WIDTH;
  STORES(y, at, POSTS(sum, at));
}
