// Products of few rows: each LANES work items share the sum of a column of TM elements of y, so
// that b, which is [n][k], is read once and in order. A work item has AT_ONCE pieces of it on their
// way: there are too few others beside it to wait for memory one by one.
#define AT_ONCE (TM > 2 ? 4 : 8)
#if VA == 8
// 16-bit floats, as 16 bytes: drivers load vectors of them in smaller pieces.
#define PIECE uint4
static inline float KERNEL(words)(uint x, uint y) {
  return dot(vload_half2(0, (const half*)&x), vload_half2(0, (const half*)&y));
}
#define WORDS(q) KERNEL(words)(left.q, right.q)
static inline float KERNEL(pieces)(uint4 left, uint4 right) {
  return (WORDS(x) + WORDS(y)) + (WORDS(z) + WORDS(w));
}
#define DOT(x, y, sum) ((sum) + KERNEL(pieces)(x, y))
#define LOAD_PIECE(p, i) (*(__global const uint4*)((p) + (i)))
#elif VA == 4
#define PIECE float4
#define DOT(x, y, sum) ((sum) + dot(x, y))
#ifdef HALF
#define LOAD_PIECE(p, i) vloada_half4(0, (p) + (i))
#else
#define LOAD_PIECE(p, i) (*(__global const float4*)((p) + (i)))
#endif
#else
#define PIECE float
#define DOT(x, y, sum) fma(x, y, sum)
#define LOAD_PIECE(p, i) LOAD(p, i)
#endif
#define ADD(of_b, k)                             \
  _Pragma("unroll") for (int i = 0; i < TM; ++i) \
      sum[i] = DOT(LOAD_PIECE(a, min(i, rows - 1) * a_row + (k)), of_b, sum[i]);

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
    const int apart = LANES * VA;
    int k = lane * VA;
    for (; k + (AT_ONCE - 1) * apart < depth; k += AT_ONCE * apart) {
      PIECE next[AT_ONCE];
#pragma unroll
      for (int t = 0; t < AT_ONCE; ++t) next[t] = LOAD_PIECE(b, k + t * apart);
#pragma unroll
      for (int t = 0; t < AT_ONCE; ++t) { ADD(next[t], k + t * apart) }
    }
    for (; k < depth; k += apart) {
      const PIECE next = LOAD_PIECE(b, k);
      ADD(next, k)
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
