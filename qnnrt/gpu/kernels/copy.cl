// Elements of any type, as units of so many bytes.
__kernel void KERNEL(copy)(__global const UNIT* x, __global UNIT* y) {
  const int i = get_global_id(0);
  y[i] = x[i];
}
