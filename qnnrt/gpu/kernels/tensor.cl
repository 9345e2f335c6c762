// Products of matrices and convolutions on tensor cores: a work group makes BM x BN elements of y,
// of which each of its DOWN x ACROSS warps keeps a part in registers. STAGES pairs of tiles, LINE
// bytes of the sum's terms each, are in local memory or on their way there.
//   AT_A(p), AT_B(p), A_TURNED, B_TURNED, WINDOW, PARTIAL: as in tiles.cl
//   A_BYTES, B_BYTES: that are copied at once: 16, 8, 4 or 2; rows of memory are multiples
//   VY: elements that are written at once, 4, 2 or 1; rows of y are multiples
//   AHEAD: a warp loads its words for the next product while it makes this one, for blocks whose
//       warps are too few to wait for one another
//   GROUPED: four warps, one below the other, multiply together (ACROSS is 1, LINE 128); 32-bit
//       floats are rounded, those of a not A_TURNED, those of b B_TURNED
//   COPIERS: work items behind those that multiply, which copy for them
//   LEAD: what is multiplied of a is LED(a's terms, lead's words for them); see mma.cl
//   SLICES: the sum's terms are cut into so many, each of which has warps and stages of its own; what
//       they have computed is added at the end, in local memory
#define MULTIPLIERS (DOWN * ACROSS * 32)
#ifdef SLICES
#define THREADS (SLICES * MULTIPLIERS)
#define COPYING MULTIPLIERS
#define MULTIPLIES 1
#elif defined COPIERS
#define THREADS (MULTIPLIERS + COPIERS)
#define COPYING COPIERS
#define MULTIPLIES (id < MULTIPLIERS)
#else
#define THREADS MULTIPLIERS
#define COPYING MULTIPLIERS
#define MULTIPLIES 1
#endif
#define WM (BM / DOWN / 16)
#define WN (BN / ACROSS / 8)
#include "mma.cl"

#define BK (LINE / SIZE)
#define VA (A_BYTES / SIZE)
#define VB (B_BYTES / SIZE)
#define A_SIZE (BM * LINE)
#define STAGE ((BM + BN) * LINE)
#define STEPS (LINE / 32)
#ifdef GROUPED
#define ROW_STEP 64  // from one block of a warp to the next
#define ALIGNED 1024
#else
#define ROW_STEP 16
#define ALIGNED 128
#endif
// A warp's results on their way out: 16 rows at a time, eight floats apart from one another's banks.
#define OUT_COLUMNS (BN / ACROSS)
#define OUT_LINE (OUT_COLUMNS + 8)
#define OUT (DOWN * ACROSS * 16 * OUT_LINE * 4)
#if OUT > STAGES * STAGE
#define LOCAL_BYTES OUT
#else
#define LOCAL_BYTES (STAGES * STAGE)
#endif
#define SLICE_WORDS (LOCAL_BYTES / 4)
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define BAND 8

#include "places.cl"

#ifdef SLICES
// What all slices have at a place of theirs.
static inline float KERNEL(total)(__local const float* at) {
  float sum = at[0];
  EACH for (int s = 1; s < SLICES; ++s) sum += at[s * SLICE_WORDS];
  return sum;
}
#endif

__attribute__((reqd_work_group_size(THREADS, 1, 1))) __kernel void KERNEL(tensor)(
#ifdef LEAD
    __global const uint2* restrict lead,
#endif
#include "operands.cl"
        POST_PARAMS) {
#ifdef SLICES
  __local uint all[SLICES * SLICE_WORDS] __attribute__((aligned(ALIGNED)));
  const int slice = get_local_id(0) / MULTIPLIERS, id = get_local_id(0) % MULTIPLIERS;
  __local uint* const memory = all + slice * SLICE_WORDS;
#else
  __local uint memory[SLICE_WORDS] __attribute__((aligned(ALIGNED)));
  const int id = get_local_id(0);
#endif
  PREPARE
  const int lane = id % 32;
#ifdef COPIERS
  const int copier = id - MULTIPLIERS;
#else
  const int copier = id;
#endif
#ifdef GROUPED
  const int group_row = id / 128 * (BM / DOWN * 4), down = group_row + id / 32 % 4 * 16, across = 0;
#else
  const int down = id / 32 / ACROSS * (BM / DOWN), across = id / 32 % ACROSS * (BN / ACROSS);
#endif
  // Groups that run at a time take BAND rows of tiles, column by column: they read less.
  const int wide = get_num_groups(0);
  const int group = get_group_id(1) * wide + get_group_id(0), band = group / (BAND * wide) * BAND;
  const int tall = min(BAND, (int)get_num_groups(1) - band);
  const int m0 = (band + group % (BAND * wide) % tall) * BM;
  const int n0 = group % (BAND * wide) / tall * BN;
  const int p = get_group_id(2) / parts, part = get_group_id(2) % parts;
  const int steps = (inner + BK - 1) / BK;
#ifdef SLICES
  // All slices take as many steps, the last ones perhaps of zeros, and meet at the same barriers.
  const int share = (steps + parts * SLICES - 1) / (parts * SLICES);
  const int first = (part * SLICES + slice) * share * BK, until = first + share * BK;
  const int last = min(inner, until);
#else
  const int share = (steps + parts - 1) / parts;
  const int first = part * share * BK, last = min(inner, first + share * BK), until = last;
#endif
  a += AT_A(p) * a_matrix;
  b += AT_B(p) * b_matrix;

#ifdef A_TURNED
#define A_READS (BM * BK / VA / COPYING)
#define READ_A(i, to, k0)                                                          \
  {                                                                                \
    const int e = copier + i * COPYING, x = e % (BM / VA) * VA, t = e / (BM / VA);     \
    const int m = m0 + x, k = k0 + t, ok = m < rows && k < last;                   \
    CAT(COPY_, A_BYTES)                                                            \
    (to + PLACE_TURNED(t, x * SIZE, BM * SIZE), a + (ok ? k * a_row + m : 0), ok); \
  }
#define NEXT_A
#else
  const int a_k = copier % (BK / VA) * VA, a_m = copier / (BK / VA);
#define A_APART (COPYING * VA / BK)
#define A_READS (BM / A_APART)
#ifdef WINDOW
#include "window.cl"
  // The channel and tap of its terms, and how far they are from there.
  int channel = (first + a_k) % depth;
  int tap_x = (first + a_k) / depth % kernel_width;
  int tap_y = (first + a_k) / depth / kernel_width;
  const int channel_step = BK % depth;
  const int x_step = BK / depth % kernel_width, y_step = BK / depth / kernel_width;
  int tap_down, tap_right, tap;
#define FIND_TAP                                                \
  tap_down = tap_y * dilation_y, tap_right = tap_x * dilation_x; \
  tap = (tap_down * width + tap_right) * channels + channel;
  FIND_TAP
#define READ_A(i, to, k0)                                                            \
  {                                                                                  \
    const uint v = top[i] + tap_down, h = left[i] + tap_right;                       \
    const int ok = v < (uint)height && h < (uint)width && k0 + a_k < last;           \
    CAT(COPY_, A_BYTES)                                                              \
    (to + PLACE(a_m + i * A_APART, a_k * SIZE), a + (ok ? begin[i] + tap : 0), ok);  \
  }
#define NEXT_A                                       \
  {                                                  \
    channel += channel_step;                         \
    const int next_tap = channel >= depth;           \
    channel -= next_tap ? depth : 0;                 \
    tap_x += x_step + next_tap;                      \
    const int next_line = tap_x >= kernel_width;     \
    tap_x -= next_line ? kernel_width : 0;           \
    tap_y += y_step + next_line;                     \
    FIND_TAP                                         \
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
  const int b_k = copier % (BK / VB) * VB, b_n = copier / (BK / VB);
#define B_APART (COPYING * VB / BK)
#define B_READS (BN / B_APART)
#define READ_B(i, to, k0)                                                             \
  {                                                                                   \
    const int t = b_n + i * B_APART, n = n0 + t, k = k0 + b_k;                        \
    const int ok = n < columns && k < last;                                           \
    CAT(COPY_, B_BYTES)(to + PLACE(t, b_k * SIZE), b + (ok ? n * b_row + k : 0), ok); \
  }
#else
#define B_READS (BN * BK / VB / COPYING)
#define READ_B(i, to, k0)                                                          \
  {                                                                                \
    const int e = copier + i * COPYING, x = e % (BN / VB) * VB, t = e / (BN / VB);     \
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
#define WORDS_A MATRICES(a_words[to] + i * 4, A_AT);
#elif defined HALF
#define A_AT(l)                                              \
  (a_tile + PLACE_TURNED(s * TERMS + (l) % 8 + (l) / 16 * 8, \
                         (down + i * 16) * SIZE + (l) / 8 % 2 * 16, BM * SIZE))
#define WORDS_A MATRICES_TURNED(a_words[to] + i * 4, A_AT);
#else
#define WORDS_A                                         \
  EACH for (int w = 0; w < 4; ++w) a_words[to][i * 4 + w] = \
      WORD(a_tile + down * SIZE + PLACE_OF_WORD(s * TERMS + w / 2 * 4, i * 2 + w % 2, BM * SIZE));
#endif
#ifdef B_TURNED
#define B_AT(l) \
  (b_tile + PLACE(across + j * 16 + (l) % 8 + (l) / 16 * 8, s * 32 + (l) / 8 % 2 * 16))
#define WORDS_B MATRICES(b_words[to] + j * 4, B_AT);
#elif defined HALF
#define B_AT(l) \
  (b_tile + PLACE_TURNED(s * TERMS + (l) % 16, (across + j * 16) * SIZE + (l) / 16 * 16, BN * SIZE))
#define WORDS_B MATRICES_TURNED(b_words[to] + j * 4, B_AT);
#else
#define WORDS_B                                               \
  EACH for (int w = 0; w < 4; ++w) b_words[to][j * 4 + w] = WORD( \
      b_tile + across * SIZE + PLACE_OF_WORD(s * TERMS + w % 2 * 4, j * 2 + w / 2, BN * SIZE));
#endif

// a's words w and w + 1 are of the same terms, those of `lead` behind the stage's first one.
#ifdef LEAD
#define LEAD_A(begin)                                                                  \
  EACH for (int w = 0; w < 4; w += 2) {                                                \
    const uint2 by = lead[(begin)*SIZE / 4 + s * 8 + lane % 4 + w * 2];                \
    EACH for (int i = 0; i < WM * 4; i += 4) {                                         \
      EACH for (int r = i + w; r < i + w + 2; ++r) a_words[to][r] = LED(a_words[to][r], by); \
    }                                                                                  \
  }
#else
#define LEAD_A(begin)
#endif
#ifdef HALF
#define ROUND(to)
#else
#ifdef B_ROUNDED
#define ROUND_B(to)
#else
#define ROUND_B(to) EACH for (int j = 0; j < WN * 2; ++j) b_words[to][j] = ROUNDED(b_words[to][j]);
#endif
#define ROUND(to)                                                                 \
  EACH for (int i = 0; i < WM * 4; ++i) a_words[to][i] = ROUNDED(a_words[to][i]); \
  ROUND_B(to)
#endif
// Of a step of the stage whose first term is `begin`.
#define WORDS(buffer, stage, step, begin)                            \
  {                                                                  \
    const int to = buffer, s = step;                                 \
    const int a_tile = (stage)*STAGE, b_tile = a_tile + A_SIZE;      \
    EACH for (int i = 0; i < WM; ++i){WORDS_A}                       \
    EACH for (int j = 0; j < WN / 2; ++j){WORDS_B}                   \
    LEAD_A(begin)                                                    \
    ROUND(to)                                                        \
  }

  float sum[WM][WN][4];
  EACH for (int i = 0; i < WM; ++i) {
    EACH for (int j = 0; j < WN; ++j) { EACH for (int v = 0; v < 4; ++v) sum[i][j][v] = 0.0f; }
  }
  int now = 0;
#ifdef GROUPED
  // A batch of products begins while the one before goes on, so that a stage is on its way into the
  // place of the last but one: two of them are not on their way.
#define AWAY (STAGES - 2)
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
#if defined COPIERS && defined PTX
  // Each stage has a barrier for its being full, and one for its being empty.
#define FULL 1
#define EMPTY (1 + STAGES)
  if (!MULTIPLIES) {
    int stage = 0, there = 0, filled = 0;
    for (int k0 = first; k0 < last; k0 += BK, ++filled) {
      if (filled >= STAGES) MEET(EMPTY + stage);
      READ(stage, k0)
      COMMIT();
      stage = NEXT(stage);
      if (filled >= AWAY - 1) {
        WAIT_FOR(AWAY - 1);
        GROUP_READY();
        ARRIVE(FULL + there);
        there = NEXT(there);
      }
    }
    WAIT_FOR(0);
    GROUP_READY();
    for (; there != stage; there = NEXT(there)) ARRIVE(FULL + there);
  } else {
    for (int k0 = first; k0 < last; k0 += BK) {
      MEET(FULL + now);
      MULTIPLY_STAGE
      // The stage before, if it is filled once more.
      if (k0 > first && k0 + (STAGES - 1) * BK < last)
        ARRIVE(EMPTY + (now == 0 ? STAGES - 1 : now - 1));
      now = NEXT(now);
    }
    GROUP_WAIT(0);
  }
#elif defined COPIERS
  for (int k0 = first; k0 < last; k0 += BK) {
    if (!MULTIPLIES) { READ(now, k0) }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (MULTIPLIES) MULTIPLY_STAGE
    now = NEXT(now);
  }
#else
  EACH for (int stage = 0; stage < AWAY; ++stage) {
    if (first + stage * BK < last) { READ(stage, first + stage * BK) }
    COMMIT();
  }
  for (int k0 = first; k0 < last; k0 += BK) {
    WAIT_FOR(AWAY - 1);
    GROUP_READY();
    barrier(CLK_LOCAL_MEM_FENCE);
    MULTIPLY_STAGE
    if (k0 + AWAY * BK < last) {
      const int stage = now < 2 ? now + AWAY : now - 2;
      READ(stage, k0 + AWAY * BK)
    }
    COMMIT();
    now = NEXT(now);
  }
  GROUP_WAIT(0);
#endif
#elif defined AHEAD
  // Once a stage's last words are in registers, its place is free: so all stages are on their way.
#define TURNS (STEPS == 1 ? 2 : 1)  // of stages, so that the words' buffers are constants
  uint a_words[2][WM * 4], b_words[2][WN * 2];
  EACH for (int stage = 0; stage < STAGES; ++stage) {
    if (first + stage * BK < until) { READ(stage, first + stage * BK) }
    COMMIT();
  }
  WAIT_FOR(STAGES - 1);
  SLICE_BARRIER();
  WORDS(0, 0, 0, first)
  for (int k0 = first; k0 < until; k0 += BK * TURNS) {
    EACH for (int u = 0; u < TURNS * STEPS; ++u) {
      const int at = k0 + u / STEPS * BK;
      if (u >= STEPS && at >= until) break;
      if (u % STEPS == STEPS - 1) {
        WAIT_FOR(STAGES - 2);
        SLICE_BARRIER();
        const int free = now;
        now = now == STAGES - 1 ? 0 : now + 1;
        WORDS((u + 1) % 2, now, 0, at + BK)
        if (at + STAGES * BK < until) { READ(free, at + STAGES * BK) }
        COMMIT();
      } else {
        WORDS((u + 1) % 2, now, (u + 1) % STEPS, at)
      }
      MULTIPLY(sum, a_words[u % 2], b_words[u % 2])
    }
  }
#else
  uint a_words[1][WM * 4], b_words[1][WN * 2];
  EACH for (int stage = 0; stage < STAGES - 1; ++stage) {
    READ(stage, first + stage * BK)
    COMMIT();
  }
  for (int k0 = first; k0 < until; k0 += BK) {
    WAIT_FOR(STAGES - 2);
    SLICE_BARRIER();
    // Into the place of the stage before, which all have read.
    if (k0 + (STAGES - 1) * BK < until) {
      const int stage = now == 0 ? STAGES - 1 : now - 1;
      READ(stage, k0 + (STAGES - 1) * BK)
    }
    COMMIT();
    EACH for (int step = 0; step < STEPS; ++step) {
      WORDS(0, now, step, k0)
      MULTIPLY(sum, a_words[0], b_words[0])
    }
    now = now == STAGES - 1 ? 0 : now + 1;
  }
#endif

  // Through local memory, so that a warp writes, and reads what is added, in whole lines.
#ifdef PARTIAL
  y += (part * (get_num_groups(2) / parts) + p) * rows * columns;
#endif
  __local float* const out = (__local float*)memory + id / 32 * (16 * OUT_LINE);
  WAIT_FOR(0);  // for zeros, where there are fewer steps than stages
  barrier(CLK_LOCAL_MEM_FENCE);
#ifdef SLICES
  __local const float* const of_slices = (__local const float*)all + id / 32 * (16 * OUT_LINE);
#define TOTAL(at) KERNEL(total)(of_slices + (at))
#define OUT_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define OUT_FIRST ((slice * 32 + lane) * VY)
#define OUT_STEP (SLICES * 32 * VY)
#else
#define TOTAL(at) out[at]
#define OUT_BARRIER() WARP_BARRIER()
#define OUT_FIRST (lane * VY)
#define OUT_STEP (32 * VY)
#endif
#if defined COPIERS && defined PTX
  if (!MULTIPLIES) return;
#define WRITES 1
#else
#define WRITES MULTIPLIES
#endif
  EACH for (int i = 0; i < WM; ++i) {
    EACH for (int j = 0; j < WN; ++j) {
      EACH for (int v = 0; v < 2; ++v) {
        if (WRITES) *(__local float2*)(out + (v * 8 + lane / 4) * OUT_LINE + j * 8 + lane % 4 * 2) =
            (float2)(sum[i][j][v * 2], sum[i][j][v * 2 + 1]);
      }
    }
    OUT_BARRIER();
    SOME for (int t = OUT_FIRST; t < 16 * OUT_COLUMNS; t += OUT_STEP) {
      const int x = t / OUT_COLUMNS * OUT_LINE + t % OUT_COLUMNS;
      const int m = m0 + down + i * ROW_STEP + t / OUT_COLUMNS, n = n0 + across + t % OUT_COLUMNS;
      if (m < rows && n < columns && WRITES) {
#ifdef PARTIAL
        const int at = m * columns + n;
#else
        const int at = y_first + p * y_matrix + m * y_row + n;
#endif
#include "result.cl"
      }
    }
    OUT_BARRIER();
  }
}
