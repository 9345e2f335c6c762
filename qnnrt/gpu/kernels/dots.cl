// Products of few rows: each LANES work items share the sum of a column of TM elements of y, so
// that b, which is [n][k], is read once and in order.

__attribute__((reqd_work_group_size(LANES, GROUP, 1))) __kernel void KERNEL(dots)(
    __global const REAL* restrict a, __global const REAL* restrict b,
#ifdef BIAS
    __global const REAL* restrict bias,
#endif
    __global REAL* y, const int rows, const int columns, const int depth, const int a_matrix,
    const int b_matrix, const int a_row, const int b_row, const int y_matrix, const int y_row,
    const int y_first POST_PARAMS) {
  __local float part[TM][GROUP][LANES];
  const int lane = get_local_id(0), mine = get_local_id(1);
  const int n = get_global_id(1), p = get_global_id(2);
  float sum[TM];
#pragma unroll
  for (int i = 0; i < TM; ++i) sum[i] = 0.0f;
  if (n < columns) {
    a += AT_A(p) * a_matrix;
    b += AT_B(p) * b_matrix + n * b_row;
    for (int k = lane * VA; k < depth; k += LANES * VA) {
#if VA == 4
#ifdef HALF
#define LOAD_4(p) vloada_half4(0, p)
#else
#define LOAD_4(p) (*(__global const float4*)(p))
#endif
      const float4 four = LOAD_4(b + k);
#pragma unroll
      for (int i = 0; i < TM; ++i) sum[i] += dot(LOAD_4(a + min(i, rows - 1) * a_row + k), four);
#undef LOAD_4
#else
      const float one = LOAD(b, k);
#pragma unroll
      for (int i = 0; i < TM; ++i) sum[i] = fma(LOAD(a, min(i, rows - 1) * a_row + k), one, sum[i]);
#endif
    }
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) part[i][mine][lane] = sum[i];
  for (int half_of = LANES / 2; half_of > 0; half_of /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_of) {
#pragma unroll
      for (int i = 0; i < TM; ++i) part[i][mine][lane] += part[i][mine][lane + half_of];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane < min(TM, rows) && n < columns) {
    const int at = y_first + p * y_matrix + lane * y_row + n;
#ifdef BIAS
    const float v = part[lane][mine][0] + LOAD(bias, BIAS + n);
#else
    const float v = part[lane][mine][0];
#endif
    STORE(y, at, POST(v, at));
  }
}
