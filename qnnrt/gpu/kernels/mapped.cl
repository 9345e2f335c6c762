// Large products by four warps together, of tiles that the device's copy engine brings: tensor.cl with
// GROUPED and COPIERS, and its defines, but that
//   maps: 256 bytes for each group, where tensor maps say how a and b lie, whose lines are multiples
//       of 16 bytes
//   layers: matrices, each as often as its sum has parts
// Groups are as many as run at a time, and take one tile after the other: the next one is on its way
// while results are written. The first of the COPIERS asks for copies.
#define MAPS
#define MULTIPLIERS (DOWN * 32)
#define THREADS (MULTIPLIERS + COPIERS)
#define MULTIPLIES (id < MULTIPLIERS)
#define WM (BM / DOWN / 16)
#define WN (BN / 8)
#include "mma.cl"

#define BK (LINE / SIZE)
#define A_SIZE (BM * LINE)
#define STAGE ((BM + BN) * LINE)
#define STEPS (LINE / 32)
// A warp's results on their way out: 16 rows of so many columns at a time, eight floats apart from one
// another's banks.
#define OUT_COLUMNS 32
#define OUT_LINE (OUT_COLUMNS + 8)
// Behind the stages: results on their way, and of each stage a barrier that says it is full and one
// that says it is empty. Maps are made where results will be.
#define OUT_AT (STAGES * STAGE)
#define FULL_AT(stage) (OUT_AT + DOWN * 16 * OUT_LINE * 4 + (stage) * 16)
#define EMPTY_AT(stage) (FULL_AT(stage) + 8)
#define LOCAL_WORDS (FULL_AT(STAGES) / 4)
#define MATRIX_BYTES(matrix) ((matrix) > 0 ? (ulong)(matrix) * SIZE : 16)
#define BAND (2048 / BM)
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#include "places.cl"

__attribute__((reqd_work_group_size(THREADS, 1, 1))) __kernel void KERNEL(mapped)(
    __global uint* maps, const int layers,
#include "operands.cl"
        POST_PARAMS) {
  __local uint memory[LOCAL_WORDS] __attribute__((aligned(1024)));
  PREPARE
  const int id = get_local_id(0), lane = id % 32, copier = id - MULTIPLIERS;
  const int group_row = id / 128 * (BM / DOWN * 4), down = group_row + id / 32 % 4 * 16;
  const int steps = (inner + BK - 1) / BK;
  const int wide = (columns + BN - 1) / BN, high = (rows + BM - 1) / BM;
  const int each = wide * high, tiles = each * layers;
  int now = 0;
#ifdef PTX
  __global uint* const map = maps + get_group_id(0) * 64;
  for (int i = id; i < 64; i += THREADS) memory[OUT_AT / 4 + i] = 0;
  if (id == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      BARRIER(FULL_AT(stage), 1);
      BARRIER(EMPTY_AT(stage), MULTIPLIERS / 32);
    }
    GROUP_READY();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (!MULTIPLIES) {
    if (copier == 0) {
#ifdef A_TURNED
      MAP(OUT_AT, a, rows, inner, (ulong)a_row * SIZE, MATRIX_BYTES(a_matrix), 64, BK)
#else
      MAP(OUT_AT, a, inner, rows, (ulong)a_row * SIZE, MATRIX_BYTES(a_matrix), BK, BM)
#endif
#ifdef B_TURNED
      MAP(OUT_AT + 128, b, inner, columns, (ulong)b_row * SIZE, MATRIX_BYTES(b_matrix), BK, BN)
#else
      MAP(OUT_AT + 128, b, columns, inner, (ulong)b_row * SIZE, MATRIX_BYTES(b_matrix), 64, BK)
#endif
    }
    WARP_BARRIER();
    KEEP_MAP(map, OUT_AT);
    KEEP_MAP(map + 32, OUT_AT + 128);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  // The stages are gone through again and again: `turn` is how often, modulo 2.
  int turn = 0;
#else
  // The same copies by all COPIERS, of as many bytes at once as lines and their ends are multiples of.
#define VA (A_BYTES / SIZE)
#define VB (B_BYTES / SIZE)
#ifdef A_TURNED
#define COPY_A                                                                \
  for (int e = copier; e < BM * BK / VA; e += COPIERS) {                      \
    const int x = e % (BM / VA) * VA, t = e / (BM / VA), m = m0 + x, k = k0 + t; \
    const int ok = m < rows && k < last;                                      \
    CAT(COPY_, A_BYTES)                                                       \
    (a_tile + PLACE_TURNED(t, x * SIZE, BM * SIZE), this_a + (ok ? k * a_row + m : 0), ok); \
  }
#else
#define COPY_A                                                                \
  for (int e = copier; e < BM * BK / VA; e += COPIERS) {                      \
    const int x = e % (BK / VA) * VA, t = e / (BK / VA), m = m0 + t, k = k0 + x; \
    const int ok = m < rows && k < last;                                      \
    CAT(COPY_, A_BYTES)                                                       \
    (a_tile + PLACE(t, x * SIZE), this_a + (ok ? m * a_row + k : 0), ok);     \
  }
#endif
#ifdef B_TURNED
#define COPY_B                                                                \
  for (int e = copier; e < BN * BK / VB; e += COPIERS) {                      \
    const int x = e % (BK / VB) * VB, t = e / (BK / VB), n = n0 + t, k = k0 + x; \
    const int ok = n < columns && k < last;                                   \
    CAT(COPY_, B_BYTES)                                                       \
    (b_tile + PLACE(t, x * SIZE), this_b + (ok ? n * b_row + k : 0), ok);     \
  }
#else
#define COPY_B                                                                \
  for (int e = copier; e < BN * BK / VB; e += COPIERS) {                      \
    const int x = e % (BN / VB) * VB, t = e / (BN / VB), n = n0 + x, k = k0 + t; \
    const int ok = n < columns && k < last;                                   \
    CAT(COPY_, B_BYTES)                                                       \
    (b_tile + PLACE_TURNED(t, x * SIZE, BN * SIZE), this_b + (ok ? k * b_row + n : 0), ok); \
  }
#endif
#endif

  for (int tile = get_group_id(0); tile < tiles; tile += get_num_groups(0)) {
    const int group = tile % each, layer = tile / each;
    // Groups that run at a time take BAND rows of tiles, column by column: they read less.
  const int band = group / (BAND * wide) * BAND, tall = min(BAND, high - band);
  const int m0 = (band + group % (BAND * wide) % tall) * BM;
  const int n0 = group % (BAND * wide) / tall * BN;
  const int p = layer / parts, part = layer % parts;
  const int share = (steps + parts - 1) / parts;
  const int first = part * share * BK, last = min(inner, first + share * BK);
  float sum[WM][WN][4];
  EACH for (int i = 0; i < WM; ++i) {
    EACH for (int j = 0; j < WN; ++j) { EACH for (int v = 0; v < 4; ++v) sum[i][j][v] = 0.0f; }
  }
  // A batch of products begins while the one before goes on.
#define NEXT(stage) ((stage) == STAGES - 1 ? 0 : (stage) + 1)
#define MULTIPLY_STAGE                                                            \
  {                                                                               \
    const int a_tile = now * STAGE, b_tile = a_tile + A_SIZE;                     \
    GROUP_BEGIN();                                                                \
    EACH for (int step = 0; step < STEPS; ++step) {                               \
      EACH for (int i = 0; i < WM; ++i) GROUP_MULTIPLY(sum, i, step)              \
    }                                                                             \
    GROUP_COMMIT();                                                               \
    GROUP_WAIT(1);                                                                \
  }
#ifdef PTX
  if (!MULTIPLIES) {
    if (copier > 0) return;
    const int a_at = a_matrix > 0 ? AT_A(p) : 0, b_at = b_matrix > 0 ? AT_B(p) : 0;
    for (int k0 = first; k0 < last; k0 += BK) {
      const int a_tile = now * STAGE, b_tile = a_tile + A_SIZE;
      MET(EMPTY_AT(now), turn ^ 1);
      EXPECT(FULL_AT(now), STAGE);
#ifdef A_TURNED
      EACH for (int x = 0; x < BM; x += 64)
        BOX(a_tile + x * BK * SIZE, map, m0 + x, k0, a_at, FULL_AT(now));
#else
      BOX(a_tile, map, k0, m0, a_at, FULL_AT(now));
#endif
#ifdef B_TURNED
      BOX(b_tile, map + 32, k0, n0, b_at, FULL_AT(now));
#else
      EACH for (int x = 0; x < BN; x += 64)
        BOX(b_tile + x * BK * SIZE, map + 32, n0 + x, k0, b_at, FULL_AT(now));
#endif
      now = NEXT(now);
      turn ^= now == 0;
    }
    continue;
  }
  for (int k0 = first; k0 < last; k0 += BK) {
    MET(FULL_AT(now), turn);
    MULTIPLY_STAGE
    if (k0 > first && lane == 0) ARRIVED(EMPTY_AT(now == 0 ? STAGES - 1 : now - 1));
    now = NEXT(now);
    turn ^= now == 0;
  }
  GROUP_WAIT(0);
  if (first < last && lane == 0) ARRIVED(EMPTY_AT(now == 0 ? STAGES - 1 : now - 1));
#define WRITES 1
#else
  __global const REAL *const this_a = a + AT_A(p) * a_matrix, *const this_b = b + AT_B(p) * b_matrix;
  for (int k0 = first; k0 < last; k0 += BK) {
    if (!MULTIPLIES) {
      const int a_tile = now * STAGE, b_tile = a_tile + A_SIZE;
      COPY_A
      COPY_B
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (MULTIPLIES) MULTIPLY_STAGE
    now = NEXT(now);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#define WRITES MULTIPLIES
#endif

  // Through local memory, so that a warp writes in whole lines.
  __local float* const out = (__local float*)memory + OUT_AT / 4 + id / 32 * (16 * OUT_LINE);
#define TOTAL(at) out[at]
  EACH for (int i = 0; i < WM; ++i) {
    EACH for (int c = 0; c < BN; c += OUT_COLUMNS) {
    EACH for (int j = 0; j < OUT_COLUMNS / 8; ++j) {
      EACH for (int v = 0; v < 2; ++v) {
        if (WRITES)
          *(__local float2*)(out + (v * 8 + lane / 4) * OUT_LINE + j * 8 + lane % 4 * 2) =
              (float2)(sum[i][c / 8 + j][v * 2], sum[i][c / 8 + j][v * 2 + 1]);
      }
    }
    WARP_BARRIER();
    SOME for (int t = lane * VY; t < 16 * OUT_COLUMNS; t += 32 * VY) {
      const int x = t / OUT_COLUMNS * OUT_LINE + t % OUT_COLUMNS;
      const int m = m0 + down + i * 64 + t / OUT_COLUMNS, n = n0 + c + t % OUT_COLUMNS;
      if (m < rows && n < columns && WRITES) {
#ifdef PARTIAL
        const int at = ((part * (layers / parts) + p) * rows + m) * columns + n;
#else
        const int at = y_first + p * y_matrix + m * y_row + n;
#endif
#include "result.cl"
      }
    }
    WARP_BARRIER();
    }
  }
  }
}
