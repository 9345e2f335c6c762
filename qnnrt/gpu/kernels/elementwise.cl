// One element of the output for each work item.
//   F(a) or F(a, b): what is computed
//   AT_A(i), AT_B(i): where the operands of element i lie; they may be broadcast

#ifndef AT_B
__kernel void KERNEL(unary)(__global const REAL* a, __global REAL* y POST_PARAMS) {
  const int i = get_global_id(0);
  const float v = F(LOAD(a, i));
  STORE(y, i, POST(v, i));
}
#else
__kernel void KERNEL(binary)(__global const REAL* a, __global const REAL* b,
                             __global REAL* y POST_PARAMS) {
  const int i = get_global_id(0);
  const float v = F(LOAD(a, AT_A(i)), LOAD(b, AT_B(i)));
  STORE(y, i, POST(v, i));
}
#endif
