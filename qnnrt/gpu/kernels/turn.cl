// Matrices [k][n] of 32-bit floats as [n][k], or [n][k] as they are, rounded to tf32: lines of `width`
// elements, with zeros behind the last term. A work group has 32 x 32 of them.
//   TURNED: b is [n][k] already
#include "tf32.cl"
__attribute__((reqd_work_group_size(32, 8, 1))) __kernel void KERNEL(turn)(
    __global const uint* restrict b, __global uint* restrict y, const int terms, const int columns,
    const int width, const int b_matrix, const int b_line) {
  __local uint tile[32][33];
  const int x = get_local_id(0), k0 = get_group_id(0) * 32, n0 = get_group_id(1) * 32;
  b += get_group_id(2) * b_matrix;
  y += get_group_id(2) * columns * width;
  for (int i = get_local_id(1); i < 32; i += 8) {
#ifdef TURNED
    const int k = k0 + x, n = n0 + i, at = n * b_line + k;
#else
    const int k = k0 + i, n = n0 + x, at = k * b_line + n;
#endif
    tile[i][x] = k < terms && n < columns ? rounded(b[at]) : 0u;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_local_id(1); i < 32; i += 8) {
    const int k = k0 + x, n = n0 + i;
#ifdef TURNED
    if (k < width && n < columns) y[n * width + k] = tile[i][x];
#else
    if (k < width && n < columns) y[n * width + k] = tile[x][i];
#endif
  }
}
