// y[p, m, n] = sum over k of a[p, m, k] * b[p, k, n], with a bias for each n where there is one. One
// element for each work item: no local memory, which is slow where work groups are loops.
//   AT_A(p), AT_B(p): where the matrices of product p begin

__kernel void KERNEL(matmul)(__global const REAL* a, __global const REAL* b,
#ifdef BIAS
                             __global const REAL* bias,
#endif
                             __global REAL* y, const int depth, const int a_row, const int a_step,
                             const int b_step, const int b_column POST_PARAMS) {
  const int n = get_global_id(0), m = get_global_id(1), p = get_global_id(2);
  const int columns = get_global_size(0), rows = get_global_size(1);
  a += AT_A(p) + m * a_row;
  b += AT_B(p) + n * b_column;
  float sum = 0.0f;
  for (int k = 0; k < depth; ++k) sum = fma(LOAD(a, k * a_step), LOAD(b, k * b_step), sum);
#ifdef BIAS
  sum += LOAD(bias, n);
#endif
  const int i = (p * rows + m) * columns + n;
  STORE(y, i, POST(sum, i));
}
