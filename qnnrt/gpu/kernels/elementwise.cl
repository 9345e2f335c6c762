// One element of the output for each work item.
//   F(a) or F(a, b): what is computed
//   AT_A(i), AT_B(i): where the operands of element i lie; they may be broadcast

#ifndef AT_B
__kernel void KERNEL(unary)(__global const float* a, __global float* y) {
  const int i = get_global_id(0);
  y[i] = F(a[i]);
}
#else
__kernel void KERNEL(binary)(__global const float* a, __global const float* b,
                             __global float* y) {
  const int i = get_global_id(0);
  y[i] = F(a[AT_A(i)], b[AT_B(i)]);
}
#endif
