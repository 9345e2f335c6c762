// Products of matrices and convolutions on tensor cores: a work group makes BM x BN elements of y,
// of which each of its DOWN x ACROSS warps keeps a part in registers. STAGES pairs of tiles, LINE
// bytes of the sum's terms each, are in local memory or on their way there.
//   AT_A(p), AT_B(p), A_TURNED, B_TURNED, WINDOW, PARTIAL: as in tiles.cl
//   A_BYTES, B_BYTES: that are copied at once: 16, 8, 4 or 2; rows of memory are multiples
//   VY: elements that are written at once, 2 or 1; rows of y are multiples
#define THREADS (DOWN * ACROSS * 32)
#define WM (BM / DOWN / 16)
#define WN (BN / ACROSS / 8)
#include "mma.cl"

#define BK (LINE / SIZE)
#define VA (A_BYTES / SIZE)
#define VB (B_BYTES / SIZE)
#define A_SIZE (BM * LINE)
#define STAGE ((BM + BN) * LINE)
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define BAND 8

// Where byte `byte` of line `line` of a tile is. Pieces of 16 bytes are exchanged within lines, so
// that those that are read at once, of lines behind one another, lie in different banks.
#define PLACE_BY(line, byte, size, twist) \
  ((line) * (size) + (((byte) / 16 ^ (twist)) * 16) + (byte) % 16)
#define PLACE_OF(line, byte, size) \
  PLACE_BY(line, byte, size, (size) == 64 ? (line) / 2 % 4 : (line) % 8)
// Lines of terms, and lines of rows or columns, one for each term.
#define PLACE(line, byte) PLACE_OF(line, byte, LINE)
#ifdef HALF
#define PLACE_TURNED(k, byte, size) PLACE_OF(k, byte, size)
#else
#define PLACE_TURNED(k, byte, size) PLACE_BY(k, byte, size, (k) % 4 * 2)
// The same of a lane's word of eight rows or columns, the x-th of a warp's, which are a multiple of
// four; k is a multiple of four, too. Four sums are of registers, the rest is known.
#define PLACE_OF_WORD(k, x, size) \
  (((k) + lane % 4) * (size) + (x) / 4 * 128 + ((x) % 4 ^ lane % 4) * 32 + lane / 4 * 4)
#endif

__attribute__((reqd_work_group_size(THREADS, 1, 1))) __kernel void KERNEL(tensor)(
    __global const REAL* restrict a, __global const REAL* restrict b,
#ifdef PARTIAL
    __global float* y,
#else
#ifdef BIAS
    __global const REAL* restrict bias,
#endif
    __global REAL* y,
#endif
    const int rows, const int columns, const int depth, const int inner, const int parts,
    const int a_matrix, const int b_matrix, const int b_row, const int y_matrix, const int y_row,
#ifdef WINDOW
    const int height, const int width, const int channels, const int y_height, const int y_width,
    const int kernel_height, const int kernel_width, const int stride_y, const int stride_x,
    const int dilation_y, const int dilation_x, const int pad_y,
    const int pad_x
#else
    const int a_row
#endif
        POST_PARAMS) {
  __local uint memory[STAGES * STAGE / 4] __attribute__((aligned(128)));
  PREPARE
  const int id = get_local_id(0), lane = id % 32;
  const int down = id / 32 / ACROSS * (BM / DOWN), across = id / 32 % ACROSS * (BN / ACROSS);
  // Groups that run at a time take BAND rows of tiles, column by column: they read less.
  const int wide = get_num_groups(0);
  const int group = get_group_id(1) * wide + get_group_id(0), band = group / (BAND * wide) * BAND;
  const int tall = min(BAND, (int)get_num_groups(1) - band);
  const int m0 = (band + group % (BAND * wide) % tall) * BM;
  const int n0 = group % (BAND * wide) / tall * BN;
  const int p = get_group_id(2) / parts, part = get_group_id(2) % parts;
  const int steps = (inner + BK - 1) / BK, share = (steps + parts - 1) / parts;
  const int first = part * share * BK, last = min(inner, first + share * BK);
  a += AT_A(p) * a_matrix;
  b += AT_B(p) * b_matrix;

#ifdef A_TURNED
#define A_READS (BM * BK / VA / THREADS)
#define READ_A(i, to, k0)                                                          \
  {                                                                                \
    const int e = id + i * THREADS, x = e % (BM / VA) * VA, t = e / (BM / VA);     \
    const int m = m0 + x, k = k0 + t, ok = m < rows && k < last;                   \
    CAT(COPY_, A_BYTES)                                                            \
    (to + PLACE_TURNED(t, x * SIZE, BM * SIZE), a + (ok ? k * a_row + m : 0), ok); \
  }
#define NEXT_A
#else
  const int a_k = id % (BK / VA) * VA, a_m = id / (BK / VA);
#define A_APART (THREADS * VA / BK)
#define A_READS (BM / A_APART)
#ifdef WINDOW
  // Where this work item's rows begin, and the tap and channel of its terms.
  int image[A_READS], top[A_READS], left[A_READS];
  EACH for (int i = 0; i < A_READS; ++i) {
    const int m = m0 + a_m + i * A_APART;
    image[i] = m / (y_height * y_width) * height * width;
    top[i] = m < rows ? m / y_width % y_height * stride_y - pad_y : -(1 << 30);
    left[i] = m % y_width * stride_x - pad_x;
  }
  int channel = (first + a_k) % depth;
  int tap_x = (first + a_k) / depth % kernel_width;
  int tap_y = (first + a_k) / depth / kernel_width;
#define READ_A(i, to, k0)                                                          \
  {                                                                                \
    const int v = top[i] + tap_y * dilation_y, h = left[i] + tap_x * dilation_x;   \
    const int ok = v >= 0 && v < height && h >= 0 && h < width && k0 + a_k < last; \
    const int from = ok ? (image[i] + v * width + h) * channels + channel : 0;     \
    CAT(COPY_, A_BYTES)(to + PLACE(a_m + i * A_APART, a_k * SIZE), a + from, ok);  \
  }
#define NEXT_A                                              \
  for (channel += BK; channel >= depth; channel -= depth) { \
    if (++tap_x == kernel_width) tap_x = 0, ++tap_y;        \
  }
#else
#define READ_A(i, to, k0)                                                             \
  {                                                                                   \
    const int t = a_m + i * A_APART, m = m0 + t, k = k0 + a_k;                        \
    const int ok = m < rows && k < last;                                              \
    CAT(COPY_, A_BYTES)(to + PLACE(t, a_k * SIZE), a + (ok ? m * a_row + k : 0), ok); \
  }
#define NEXT_A
#endif
#endif

#ifdef B_TURNED
  const int b_k = id % (BK / VB) * VB, b_n = id / (BK / VB);
#define B_APART (THREADS * VB / BK)
#define B_READS (BN / B_APART)
#define READ_B(i, to, k0)                                                             \
  {                                                                                   \
    const int t = b_n + i * B_APART, n = n0 + t, k = k0 + b_k;                        \
    const int ok = n < columns && k < last;                                           \
    CAT(COPY_, B_BYTES)(to + PLACE(t, b_k * SIZE), b + (ok ? n * b_row + k : 0), ok); \
  }
#else
#define B_READS (BN * BK / VB / THREADS)
#define READ_B(i, to, k0)                                                          \
  {                                                                                \
    const int e = id + i * THREADS, x = e % (BN / VB) * VB, t = e / (BN / VB);     \
    const int n = n0 + x, k = k0 + t, ok = n < columns && k < last;                \
    CAT(COPY_, B_BYTES)                                                            \
    (to + PLACE_TURNED(t, x * SIZE, BN * SIZE), b + (ok ? k * b_row + n : 0), ok); \
  }
#endif

#if A_BYTES >= 8 || defined WINDOW
#define EACH_A EACH
#else
#define EACH_A SOME
#endif
#if B_BYTES >= 8
#define EACH_B EACH
#else
#define EACH_B SOME
#endif
#define READ(stage, k0)                                                   \
  EACH_A for (int i = 0; i < A_READS; ++i) READ_A(i, (stage)*STAGE, (k0)) \
      EACH_B for (int i = 0; i < B_READS; ++i) READ_B(i, (stage)*STAGE + A_SIZE, (k0)) NEXT_A

// The words of block i of a and pair j of b, of term s * TERMS and those behind it.
#ifndef A_TURNED
#define A_AT(l) (a_tile + PLACE(down + i * 16 + (l) % 16, s * 32 + (l) / 16 * 16))
#define WORDS_A MATRICES(a_words + i * 4, A_AT);
#elif defined HALF
#define A_AT(l)                                              \
  (a_tile + PLACE_TURNED(s * TERMS + (l) % 8 + (l) / 16 * 8, \
                         (down + i * 16) * SIZE + (l) / 8 % 2 * 16, BM * SIZE))
#define WORDS_A MATRICES_TURNED(a_words + i * 4, A_AT);
#else
#define WORDS_A                                         \
  EACH for (int w = 0; w < 4; ++w) a_words[i * 4 + w] = \
      WORD(a_tile + down * SIZE + PLACE_OF_WORD(s * TERMS + w / 2 * 4, i * 2 + w % 2, BM * SIZE));
#endif
#ifdef B_TURNED
#define B_AT(l) \
  (b_tile + PLACE(across + j * 16 + (l) % 8 + (l) / 16 * 8, s * 32 + (l) / 8 % 2 * 16))
#define WORDS_B MATRICES(b_words + j * 4, B_AT);
#elif defined HALF
#define B_AT(l) \
  (b_tile + PLACE_TURNED(s * TERMS + (l) % 16, (across + j * 16) * SIZE + (l) / 16 * 16, BN * SIZE))
#define WORDS_B MATRICES_TURNED(b_words + j * 4, B_AT);
#else
#define WORDS_B                                               \
  EACH for (int w = 0; w < 4; ++w) b_words[j * 4 + w] = WORD( \
      b_tile + across * SIZE + PLACE_OF_WORD(s * TERMS + w % 2 * 4, j * 2 + w / 2, BN * SIZE));
#endif

  float sum[WM][WN][4];
  EACH for (int i = 0; i < WM; ++i) {
    EACH for (int j = 0; j < WN; ++j) { EACH for (int v = 0; v < 4; ++v) sum[i][j][v] = 0.0f; }
  }
  EACH for (int stage = 0; stage < STAGES - 1; ++stage) {
    READ(stage, first + stage * BK)
    COMMIT();
  }
  int now = 0;
  for (int k0 = first; k0 < last; k0 += BK) {
    WAIT();
    barrier(CLK_LOCAL_MEM_FENCE);
    // Into the place of the stage before, which all have read.
    if (k0 + (STAGES - 1) * BK < last) {
      const int stage = now == 0 ? STAGES - 1 : now - 1;
      READ(stage, k0 + (STAGES - 1) * BK)
    }
    COMMIT();
    const int a_tile = now * STAGE, b_tile = a_tile + A_SIZE;
    EACH for (int s = 0; s < LINE / 32; ++s) {
      uint a_words[WM * 4], b_words[WN * 2];
      EACH for (int i = 0; i < WM; ++i){WORDS_A} EACH for (int j = 0; j < WN / 2; ++j){WORDS_B}
#ifndef HALF
      EACH for (int i = 0; i < WM * 4; ++i) a_words[i] = ROUNDED(a_words[i]);
      EACH for (int j = 0; j < WN * 2; ++j) b_words[j] = ROUNDED(b_words[j]);
#endif
      MULTIPLY(sum, a_words, b_words)
    }
    now = now == STAGES - 1 ? 0 : now + 1;
  }

#ifdef PARTIAL
  y += (part * (get_num_groups(2) / parts) + p) * rows * columns;
#endif
  EACH for (int i = 0; i < WM * 2; ++i) {
    const int m = m0 + down + i * 8 + lane / 4;
    EACH for (int j = 0; j < WN; ++j) {
      EACH for (int v = 0; v < 2; v += VY) {
        const int n = n0 + across + j * 8 + lane % 4 * 2 + v;
        if (m < rows && n < columns) {
#ifdef PARTIAL
          const int at = m * columns + n;
#define RESULT(v) sum[i / 2][j][i % 2 * 2 + v]
#else
          const int at = p * y_matrix + m * y_row + n;
#ifdef BIAS
#define RESULT(v) \
  POST(sum[i / 2][j][i % 2 * 2 + v] + LOAD(bias, BIAS + n + (v) % VY), at + (v) % VY)
#else
#define RESULT(v) POST(sum[i / 2][j][i % 2 * 2 + v], at + (v) % VY)
#endif
#endif
#if VY == 2
          const float2 two = (float2)(RESULT(0), RESULT(1));
#if defined HALF && !defined PARTIAL
          vstorea_half2(two, 0, y + at);
#else
          *(__global float2*)(y + at) = two;
#endif
#elif defined PARTIAL
          y[at] = RESULT(v);
#else
          STORE(y, at, RESULT(v));
#endif
        }
      }
    }
  }
}
