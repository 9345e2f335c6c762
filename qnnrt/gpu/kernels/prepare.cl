// Matrices of 32-bit floats rounded to tf32, in pieces of four, all of a work item's on their way
// before the first is written. One kernel does both of these, by different groups of 256:
//   ROUND: x as it lies, in the first `rounds` groups, of 4096 elements each
//   TURN: matrices [k][n] as [n][k], lines of `width` elements with zeros behind the last term; a
//       group has 64 x 64, of which there are `across` along a line and `down`. A work item turns
//       four lines of four in registers; eight neighbours write a whole line of 128 bytes.
#include "tf32.cl"
#define PIECE(p) (*(__global const uint4*)(p))
#define PUT(p, a, b, c, d) \
  *(__global uint4*)(p) = (uint4)(rounded(a), rounded(b), rounded(c), rounded(d))

__attribute__((reqd_work_group_size(256, 1, 1))) __kernel void KERNEL(prepare)(
#ifdef ROUND
    __global const uint* restrict x, __global uint* restrict x_rounded, const int size,
    const int rounds
#endif
#if defined ROUND && defined TURN
    ,
#endif
#ifdef TURN
    __global const uint* restrict b, __global uint* restrict b_turned, const int terms,
    const int columns, const int width, const int b_matrix, const int b_line, const int across,
    const int down
#endif
) {
  const int id = get_local_id(0);
  int group = get_group_id(0);
  uint4 piece[4];
#ifdef ROUND
  if (group < rounds) {
    const int begin = group * 4096 + id * 4;
    _Pragma("unroll") for (int i = 0; i < 4; ++i) {
      const int at = begin + i * 1024;
      if (at + 4 <= size) piece[i] = PIECE(x + at);
    }
    _Pragma("unroll") for (int i = 0; i < 4; ++i) {
      const int at = begin + i * 1024;
      if (at + 4 <= size) {
        PUT(x_rounded + at, piece[i].x, piece[i].y, piece[i].z, piece[i].w);
      } else {
        for (int rest = at; rest < size; ++rest) x_rounded[rest] = rounded(x[rest]);
      }
    }
    return;
  }
  group -= rounds;
#endif
#ifdef TURN
  const int k = group % across * 64 + id / 32 % 2 * 32 + id % 8 * 4;
  const int n = group / across % down * 64 + id / 64 * 16 + id / 8 % 4 * 4;
  const int matrix = group / (across * down);
  if (n >= columns || k >= width) return;
  b += matrix * b_matrix + k * b_line + n;
  b_turned += (matrix * columns + n) * width + k;
  _Pragma("unroll") for (int i = 0; i < 4; ++i) {
    piece[i] = (uint4)(0);
    if (k + i < terms) piece[i] = PIECE(b + i * b_line);
  }
  PUT(b_turned, piece[0].x, piece[1].x, piece[2].x, piece[3].x);
  PUT(b_turned + width, piece[0].y, piece[1].y, piece[2].y, piece[3].y);
  PUT(b_turned + width * 2, piece[0].z, piece[1].z, piece[2].z, piece[3].z);
  PUT(b_turned + width * 3, piece[0].w, piece[1].w, piece[2].w, piece[3].w);
#endif
}
