// y = x * weight + bias along the last axis, WIDTH elements for each work item.

__kernel void KERNEL(batchnorm)(__global const REAL* x, __global const REAL* weight,
#ifdef BIAS
                                __global const REAL* bias,
#endif
                                __global REAL* y, const int count, const int channels POST_PARAMS) {
  if (get_global_id(0) >= count) return;
  const int i = get_global_id(0) * WIDTH, c = i % channels;
  FLOATS v = LOADS(x, i) * LOADS(weight, c);
#ifdef BIAS
  v += LOADS(bias, c);
#endif
  STORES(y, i, POSTS(v, i));
}
