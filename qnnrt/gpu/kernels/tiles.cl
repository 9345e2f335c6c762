// Products of matrices and convolutions in local memory: a work group makes BM x BN elements of y,
// BK terms of the sum at a time, of which each work item keeps TM x TN in registers. While it
// multiplies one pair of tiles, the next is on its way.
//   AT_A(p), AT_B(p): which matrix of a and of b product p takes
//   A_TURNED: a is [k][m] instead of [m][k]; B_TURNED: b is [n][k] instead of [k][n]
//   VA, VB, VY: elements that are read or written at once, 4 or 1; rows of memory are multiples
//   WINDOW: rows are pixels of a convolution's output, and a is its input
//   UNROLL: terms of the sum that are written out: more of them want more registers
//   PARTIAL: the sum is cut into parts, which combine.cl adds

#define THREADS ((BM / TM) * (BN / TN))
#define A_LINE (BM + 4)  // 4 more: elements of a column lie in different banks
#define B_LINE (BN + 4)
#define A_READS (BM * BK / VA / THREADS)
#define B_READS (BN * BK / VB / THREADS)
#define A_APART (THREADS * VA / BK)  // between the rows of a work item
#define A_GAP (BM * 4 / TM)  // between the groups of four rows of a work item
#define B_GAP (BN * 4 / TN)

#ifdef HALF
#define LOAD_4(p, i) vloada_half4(0, (p) + (i))
#define STORE_4(p, i, v) vstorea_half4(v, 0, (p) + (i))
#else
#define LOAD_4(p, i) (*(__global const float4*)((p) + (i)))
#define STORE_4(p, i, v) (*(__global float4*)((p) + (i)) = (v))
#endif
#define LOAD_1(p, i) LOAD(p, i)
#define ZERO_4 ((float4)(0.0f))
#define ZERO_1 0.0f
#define SPREAD_4(p, step, v) \
  (p)[0] = (v).s0, (p)[step] = (v).s1, (p)[2 * (step)] = (v).s2, (p)[3 * (step)] = (v).s3
#define SPREAD_1(p, step, v) (p)[0] = (v)
#define KEEP_4(p, v) (*(__local float4*)(p) = (v))
#define KEEP_1(p, v) (*(p) = (v))
#define TYPE_4 float4
#define TYPE_1 float
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

__attribute__((reqd_work_group_size(THREADS, 1, 1))) __kernel void KERNEL(tiles)(
#include "operands.cl"
        POST_PARAMS) {
  __local float a_tile[2][BK * A_LINE] __attribute__((aligned(16)));
  __local float b_tile[2][BK * B_LINE] __attribute__((aligned(16)));
  const int id = get_local_id(0);
  const int m0 = get_group_id(1) * BM, n0 = get_group_id(0) * BN;
  const int p = get_group_id(2) / parts, part = get_group_id(2) % parts;
  const int steps = (inner + BK - 1) / BK, share = (steps + parts - 1) / parts;
  const int first = part * share * BK, last = min(inner, first + share * BK);
  a += AT_A(p) * a_matrix;
  b += AT_B(p) * b_matrix;

  CAT(TYPE_, VA) a_next[A_READS];
  CAT(TYPE_, VB) b_next[B_READS];
  // 8 by 4 work items for each 32 of them: fewer different addresses in local memory at a time.
  const int across = id / 32 % (BN / TN / 8) * 8 + id % 8;
  const int down = id / 32 / (BN / TN / 8) * 4 + id / 8 % 4;
  float sum[TM][TN];
#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; ++j) sum[i][j] = 0.0f;
  }

#ifdef A_TURNED
#define READ_A(i, k0)                                                       \
  {                                                                         \
    const int e = id + i * THREADS;                                         \
    const int m = m0 + e % (BM / VA) * VA, k = k0 + e / (BM / VA);          \
    a_next[i] = CAT(ZERO_, VA);                                             \
    if (m < rows && k < last) a_next[i] = CAT(LOAD_, VA)(a, k * a_row + m); \
  }
#define KEEP_A(i, to)                                                            \
  {                                                                              \
    const int e = id + i * THREADS;                                              \
    CAT(KEEP_, VA)(to + e / (BM / VA) * A_LINE + e % (BM / VA) * VA, a_next[i]); \
  }
#define NEXT_A
#else
  const int a_k = id % (BK / VA) * VA, a_m = id / (BK / VA);
#ifdef WINDOW
#include "window.cl"
  // The channel and tap of its terms.
  int channel = (first + a_k) % depth;
  int tap_x = (first + a_k) / depth % kernel_width;
  int tap_y = (first + a_k) / depth / kernel_width;
#define READ_A(i, k0)                                                                 \
  {                                                                                   \
    const int y_tap = tap_y * dilation_y, x_tap = tap_x * dilation_x;                 \
    const uint v = top[i] + y_tap, h = left[i] + x_tap;                               \
    a_next[i] = CAT(ZERO_, VA);                                                       \
    if (v < (uint)height && h < (uint)width && k0 + a_k < last)                       \
      a_next[i] =                                                                     \
          CAT(LOAD_, VA)(a, begin[i] + (y_tap * width + x_tap) * channels + channel); \
  }
#define NEXT_A                                              \
  for (channel += BK; channel >= depth; channel -= depth) { \
    if (++tap_x == kernel_width) tap_x = 0, ++tap_y;        \
  }
#else
#define READ_A(i, k0)                                                       \
  {                                                                         \
    const int m = m0 + a_m + i * A_APART, k = k0 + a_k;                     \
    a_next[i] = CAT(ZERO_, VA);                                             \
    if (m < rows && k < last) a_next[i] = CAT(LOAD_, VA)(a, m * a_row + k); \
  }
#define NEXT_A
#endif
#define KEEP_A(i, to) \
  CAT(SPREAD_, VA)(to + a_k * A_LINE + a_m + i * A_APART, A_LINE, a_next[i]);
#endif

#ifdef B_TURNED
  const int b_k = id % (BK / VB) * VB, b_n = id / (BK / VB);
#define READ_B(i, k0)                                                          \
  {                                                                            \
    const int n = n0 + b_n + i * (THREADS * VB / BK), k = k0 + b_k;            \
    b_next[i] = CAT(ZERO_, VB);                                                \
    if (n < columns && k < last) b_next[i] = CAT(LOAD_, VB)(b, n * b_row + k); \
  }
#define KEEP_B(i, to) \
  CAT(SPREAD_, VB)(to + b_k * B_LINE + b_n + i * (THREADS * VB / BK), B_LINE, b_next[i]);
#else
#define READ_B(i, k0)                                                          \
  {                                                                            \
    const int e = id + i * THREADS;                                            \
    const int n = n0 + e % (BN / VB) * VB, k = k0 + e / (BN / VB);             \
    b_next[i] = CAT(ZERO_, VB);                                                \
    if (n < columns && k < last) b_next[i] = CAT(LOAD_, VB)(b, k * b_row + n); \
  }
#define KEEP_B(i, to)                                                            \
  {                                                                              \
    const int e = id + i * THREADS;                                              \
    CAT(KEEP_, VB)(to + e / (BN / VB) * B_LINE + e % (BN / VB) * VB, b_next[i]); \
  }
#endif

#define READ(k0)                                                      \
  _Pragma("unroll") for (int i = 0; i < A_READS; ++i) READ_A(i, (k0)) \
      _Pragma("unroll") for (int i = 0; i < B_READS; ++i) READ_B(i, (k0)) NEXT_A
#define KEEP(which)                                                            \
  _Pragma("unroll") for (int i = 0; i < A_READS; ++i) KEEP_A(i, a_tile[which]) \
      _Pragma("unroll") for (int i = 0; i < B_READS; ++i) KEEP_B(i, b_tile[which])

  READ(first)
  KEEP(0)
  barrier(CLK_LOCAL_MEM_FENCE);
  int now = 0;
  for (int k0 = first; k0 < last; k0 += BK) {
    const int more = k0 + BK < last;
    if (more) {
      READ(k0 + BK)
    }
#pragma unroll UNROLL
    for (int k = 0; k < BK; ++k) {
      float4 line_a[TM / 4], line_b[TN / 4];
#pragma unroll
      for (int i = 0; i < TM / 4; ++i)
        line_a[i] = *(__local const float4*)(a_tile[now] + k * A_LINE + i * A_GAP + down * 4);
#pragma unroll
      for (int j = 0; j < TN / 4; ++j)
        line_b[j] = *(__local const float4*)(b_tile[now] + k * B_LINE + j * B_GAP + across * 4);
#pragma unroll
      for (int i = 0; i < TM / 4; ++i) {
#pragma unroll
        for (int j = 0; j < TN / 4; ++j) {
#define ROW(r, s)                                                                        \
  sum[i * 4 + r][j * 4 + 0] = fma(line_a[i].s, line_b[j].s0, sum[i * 4 + r][j * 4 + 0]); \
  sum[i * 4 + r][j * 4 + 1] = fma(line_a[i].s, line_b[j].s1, sum[i * 4 + r][j * 4 + 1]); \
  sum[i * 4 + r][j * 4 + 2] = fma(line_a[i].s, line_b[j].s2, sum[i * 4 + r][j * 4 + 2]); \
  sum[i * 4 + r][j * 4 + 3] = fma(line_a[i].s, line_b[j].s3, sum[i * 4 + r][j * 4 + 3]);
          ROW(0, s0)
          ROW(1, s1)
          ROW(2, s2)
          ROW(3, s3)
#undef ROW
        }
      }
    }
    now ^= 1;
    if (more) {
      KEEP(now)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

#ifdef PARTIAL
  y += (part * (get_num_groups(2) / parts) + p) * rows * columns;
#endif
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int m = m0 + i / 4 * A_GAP + down * 4 + i % 4;
#pragma unroll
    for (int j = 0; j < TN; j += VY) {
      const int n = n0 + j / 4 * B_GAP + across * 4 + j % 4;
      if (m < rows && n < columns) {
#ifdef PARTIAL
        const int at = m * columns + n;
#define RESULT(j) sum[i][j]
#else
        const int at = y_first + p * y_matrix + m * y_row + n;
#ifdef BIAS
#define RESULT(j) POST(sum[i][j] + LOAD(bias, BIAS + n + (j) % VY), at + (j) % VY)
#else
#define RESULT(j) POST(sum[i][j], at + (j) % VY)
#endif
#endif
#if VY == 4
        const float4 four = (float4)(RESULT(j), RESULT(j + 1), RESULT(j + 2), RESULT(j + 3));
#ifdef PARTIAL
        *(__global float4*)(y + at) = four;
#else
        STORE_4(y, at, four);
#endif
#elif defined PARTIAL
        y[at] = RESULT(j);
#else
        STORE(y, at, RESULT(j));
#endif
#undef RESULT
      }
    }
  }
}
#undef THREADS
#undef A_LINE
#undef B_LINE
#undef A_READS
#undef B_READS
#undef A_APART
#undef A_GAP
#undef B_GAP
#undef LOAD_4
#undef STORE_4
#undef LOAD_1
#undef ZERO_4
#undef ZERO_1
#undef SPREAD_4
#undef SPREAD_1
#undef KEEP_4
#undef KEEP_1
#undef TYPE_4
#undef TYPE_1
#undef CAT_
#undef CAT
#undef READ_A
#undef READ_B
#undef KEEP_A
#undef KEEP_B
#undef NEXT_A
#undef READ
#undef KEEP
