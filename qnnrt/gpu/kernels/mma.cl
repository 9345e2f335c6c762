// What tensor.cl asks of 32 work items, a warp, together: with PTX as instructions of NVIDIA's
// devices from compute capability 8.0 on, else the same in OpenCL C, so that any device can check
// whatever is around them. Local memory is `memory`, places in it are in bytes; `lane` is the work
// item's number in the warp.
//
// A word is two 16-bit floats or, without HALF, one of 32 bits; TERMS of the sum are 32 bytes.
// Of blocks of 16 rows of a and of 8 columns of b, a lane's words and sums are
//   a[w]: row lane / 4 + w % 2 * 8, word lane % 4 + w / 2 * 4 of the row's terms
//   b[w]: column lane / 4, word lane % 4 + w * 4 of the column's terms
//   sum[v]: row lane / 4 + v / 2 * 8, column lane % 4 * 2 + v % 2
//
//   COPY_16, _8, _4, _2(to, from, ok): so many bytes from global memory, on the way until WAIT_FOR;
//       zeros unless ok, where from still is an address in a buffer
//   COMMIT(): ends a batch of copies; WAIT_FOR(n): for all batches but the last n
//   SLICE_BARRIER(): a barrier of those who work on the same terms, all of the group without SLICES
//   WARP_BARRIER(): what the warp's work items have written to local memory, all of these see
//   MATRICES(to, at): to[q] is word lane % 4 of 16 bytes at at(q * 8 + lane / 4)
//   MATRICES_TURNED(to, at): to[q] is 16-bit float lane / 4 of the 16 bytes at at(q * 8 + e), for
//       e = lane % 4 * 2 in its lower half, and e + 1 in its upper one
//   WORD(at): the word there
//   LED(word, by): its terms by a scale and a shift, by.x and by.y, and no less than 0 with LEAD_RELU
//   ROUNDED(word): a 32-bit float as tf32, half away from zero
//   MULTIPLY(sum, a, b): adds the products of WM blocks of a and WN of b
//
// With GROUPED four warps multiply together, 64 rows of a and all BN columns of b: `wgmma`, which
// devices of compute capability 9.0 alone have. Both are in local memory, in lines of 128 bytes from a
// multiple of 1024 on, with pieces of 16 bytes exchanged by their line's number modulo 8.
//   GROUP_READY(): what this work item copied may be read by GROUP_MULTIPLY of all behind a barrier
//   GROUP_BEGIN(): before the first GROUP_MULTIPLY of a batch
//   GROUP_MULTIPLY(sum, i, step): begins to add the products of block i of a and all of b, of TERMS
//       terms from step * TERMS on of the tiles at a_tile and b_tile
//   ARRIVE(n), MEET(n): at a barrier of all of the group, without waiting there, and waiting
//   GROUP_COMMIT(): ends a batch; GROUP_WAIT(n): for all batches but the last n
// With MAPS the device's copy engine brings whole tiles: one work item asks for them, and a barrier in
// local memory, of 8 bytes, says when their bytes are there. A tensor map, of 128 bytes, says how a
// matrix lies; 32-bit floats are rounded to tf32 on their way, half to even.
//   MAP(at, base, terms, lines, line, matrix, box_terms, box_lines): makes one at `at`, which is
//       zero: the elements of a line, the lines, the bytes from one to the next and from matrix to
//       matrix, and how many of each a box has. KEEP_MAP(to, at) by a warp puts it where it is used
//   BOX(to, map, x, y, z, full): begins to copy what is at element x of line y of matrix z; zeros
//       where there is nothing
//   BARRIER(at, n): makes a barrier of n arrivals; ARRIVED(at), EXPECT(at, bytes): one of them, with
//       so many bytes to come; MET(at, parity): waits until it was passed a first time (0), second
//       (1), and so on
// Their instructions follow REWRITTEN, a mark of comments: a compiler that does not know them takes
// the text, programs.py removes the mark from the PTX that it makes and has that built.

#ifdef HALF
#define SIZE 2
#else
#define SIZE 4
#endif
#define TERMS (32 / SIZE)
#define COPY_2(to, from, ok) \
  ((__local ushort*)memory)[(to) / 2] = (ok) ? *(__global const ushort*)(from) : (ushort)0

// One `led` for 32-bit floats; for 16-bit ones by PTX, and without
#define LED(word, by) led(word, by)
#if defined LEAD && !defined HALF
static inline uint led(uint word, uint2 by) {
  const float v = fma(as_float(word), as_float(by.x), as_float(by.y));
#ifdef LEAD_RELU
  return as_uint(v < 0.0f ? 0.0f : v);
#else
  return as_uint(v);
#endif
}
#endif

#ifdef PTX

#define EACH _Pragma("unroll")
#define SOME _Pragma("unroll 2")  // of many small ones, which want many registers

// Where a place in local memory is for instructions. Pointers may be generic, or offsets already.
static inline uint local_address(__local const void* p) {
  uint address;
  asm volatile(
      "{\n"
      ".reg .pred is_generic;\n"
      ".reg .u64 place;\n"
      "isspacep.shared is_generic, %1;\n"
      "cvta.to.shared.u64 place, %1;\n"
      "selp.b64 place, place, %1, is_generic;\n"
      "cvt.u32.u64 %0, place;\n"
      "}"
      : "=r"(address)
      : "l"((ulong)(size_t)p));
  return address;
}
#define PREPARE const uint memory_address = local_address(memory);

#define COPY(bytes, cache, to, from, ok)                        \
  asm volatile(                                                 \
      "{\n"                                                     \
      ".reg .u64 place;\n"                                      \
      "cvta.to.global.u64 place, %1;\n"                         \
      "cp.async." cache ".shared.global [%0], [place], " #bytes \
      ", %2;\n"                                                 \
      "}" ::"r"(memory_address + (to)),                         \
      "l"((ulong)(size_t)(from)), "r"((ok) ? bytes : 0)         \
      : "memory")
#define COPY_16(to, from, ok) COPY(16, "cg", to, from, ok)
#define COPY_8(to, from, ok) COPY(8, "ca", to, from, ok)
#define COPY_4(to, from, ok) COPY(4, "ca", to, from, ok)
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_FOR(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#ifdef SLICES
#define SLICE_BARRIER() \
  asm volatile("bar.sync %0, %1;" ::"r"(1 + slice), "n"(MULTIPLIERS) : "memory")
#else
#define SLICE_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#endif
#define WARP_BARRIER() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")

#define LDMATRIX(how, to, at)                                                            \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"((to)[0]), "=r"((to)[1]), "=r"((to)[2]), "=r"((to)[3])              \
               : "r"(memory_address + at(lane))                                          \
               : "memory")
#define MATRICES(to, at) LDMATRIX("", to, at)
#define MATRICES_TURNED(to, at) LDMATRIX(".trans", to, at)

static inline uint word_at(uint address) {
  uint word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}
#define WORD(at) word_at(memory_address + (at))

static inline uint rounded(uint word) {
  uint tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(as_float(word)));
  return tf32;
}
#define ROUNDED(word) rounded(word)

#if defined LEAD && defined HALF
#ifdef LEAD_RELU
#define SCALE "fma.rn.relu.f16x2"
#else
#define SCALE "fma.rn.f16x2"
#endif
static inline uint led(uint word, uint2 by) {
  uint scaled;
  asm(SCALE " %0, %1, %2, %3;" : "=r"(scaled) : "r"(word), "r"(by.x), "r"(by.y));
  return scaled;
}
#endif

#ifdef HALF
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#else
#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
#endif
#define MULTIPLY_ONE(sum, a, b)                                                                \
  asm volatile(MMA "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"       \
               : "=f"((sum)[0]), "=f"((sum)[1]), "=f"((sum)[2]), "=f"((sum)[3])                \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]), \
                 "f"((sum)[0]), "f"((sum)[1]), "f"((sum)[2]), "f"((sum)[3]))
#define MULTIPLY(sum, a, b)                                                                 \
  EACH for (int mi = 0; mi < WM; ++mi) {                                                    \
    EACH for (int nj = 0; nj < WN; ++nj) MULTIPLY_ONE(sum[mi][nj], a + mi * 4, b + nj * 2); \
  }

#ifdef GROUPED
#define REWRITTEN "//@ "
#define GROUP_READY() asm volatile(REWRITTEN "fence.proxy.async.shared::cta;" ::: "memory")
#define ARRIVE(n) asm volatile("bar.arrive %0, %1;" ::"r"(n), "n"(THREADS) : "memory")
#define MEET(n) asm volatile("bar.sync %0, %1;" ::"r"(n), "n"(THREADS) : "memory")
#define GROUP_BEGIN() asm volatile(REWRITTEN "wgmma.fence.sync.aligned;" ::: "memory")
#define GROUP_COMMIT() asm volatile(REWRITTEN "wgmma.commit_group.sync.aligned;" ::: "memory")
#define GROUP_WAIT(n) asm volatile(REWRITTEN "wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

// Where lines are: their address, how far 64 columns of turned ones are from the next, eight lines
// from the next, and that 128 bytes are exchanged.
#define LINES(place, apart)                                                            \
  (1UL << 62 | (ulong)(1024 / 16) << 32 | (ulong)((apart) / 16) << 16 | \
   (ulong)((memory_address + (place)) / 16))
#define TEN(t) \
  "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9, "
#define FOUR_SUMS(s, j) "+f"((s)[j][0]), "+f"((s)[j][1]), "+f"((s)[j][2]), "+f"((s)[j][3])
#define SUMS(s, j)                                                                          \
  FOUR_SUMS(s, j), FOUR_SUMS(s, j + 1), FOUR_SUMS(s, j + 2), FOUR_SUMS(s, j + 3),           \
      FOUR_SUMS(s, j + 4), FOUR_SUMS(s, j + 5), FOUR_SUMS(s, j + 6), FOUR_SUMS(s, j + 7)
#if BN == 64
#define SUM_NAMES TEN("") TEN("1") TEN("2") "%30, %31"
#define ALL_SUMS(s) SUMS(s, 0)
#define COLUMNS_NAME "n64"
#elif BN == 128
#define SUM_NAMES TEN("") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5") "%60, %61, %62, %63"
#define ALL_SUMS(s) SUMS(s, 0), SUMS(s, 8)
#define COLUMNS_NAME "n128"
#elif BN == 192
#define SUM_NAMES                                                                   \
  TEN("") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5") TEN("6") TEN("7") TEN("8") \
  "%90, %91, %92, %93, %94, %95"
#define ALL_SUMS(s) SUMS(s, 0), SUMS(s, 8), SUMS(s, 16)
#define COLUMNS_NAME "n192"
#else
#define SUM_NAMES                                                                 \
  TEN("") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5") TEN("6") TEN("7") TEN("8") \
  TEN("9") TEN("10") TEN("11") "%120, %121, %122, %123, %124, %125, %126, %127"
#define ALL_SUMS(s) SUMS(s, 0), SUMS(s, 8), SUMS(s, 16), SUMS(s, 24)
#define COLUMNS_NAME "n256"
#endif
#ifdef HALF
#define GROUP_TYPES "k16.f32.f16.f16"
#else
#define GROUP_TYPES "k8.f32.tf32.tf32"
#endif
#ifdef MAPS
#define MAP_SET(at, field, bits, constraint, value)                                            \
  asm volatile(REWRITTEN "tensormap.replace.tile." field bits ", %1;" ::"r"(memory_address + (at)), \
               constraint(value)                                                               \
               : "memory")
#define MAP_TYPE(at, field, value) MAP_SET(at, field, ".shared::cta.b1024.b32 [%0]", "n", value)
#define MAP_WORD(at, field, value) \
  MAP_SET(at, field, ".shared::cta.b1024.b32 [%0]", "r", (uint)(value))
#define MAP_LONG(at, field, value) \
  MAP_SET(at, field, ".shared::cta.b1024.b64 [%0]", "l", (ulong)(value))
#define MAP_SIZE(at, field, dim, value) \
  MAP_SET(at, field, ".shared::cta.b1024.b32 [%0], " #dim, "r", (uint)(value))
#define MAP_STRIDE(at, dim, value) \
  MAP_SET(at, "global_stride", ".shared::cta.b1024.b64 [%0], " #dim, "l", (ulong)(value))
#ifdef HALF
#define MAP_ELEMENT 6  // 16-bit floats
#else
#define MAP_ELEMENT 11  // 32-bit ones that become tf32
#endif
// Fields that are not set here are 0: no interleaving, zeros where there is nothing.
#define MAP(at, base, terms, lines, line, matrix, box_terms, box_lines) \
  {                                                                     \
    MAP_LONG(at, "global_address", (size_t)(base));                     \
    MAP_TYPE(at, "rank", 2); /* less one */                             \
    MAP_TYPE(at, "elemtype", MAP_ELEMENT);                              \
    MAP_TYPE(at, "swizzle_mode", 3); /* of 128 bytes */                 \
    MAP_SIZE(at, "global_dim", 0, terms);                               \
    MAP_SIZE(at, "global_dim", 1, lines);                               \
    MAP_SIZE(at, "global_dim", 2, 0x7fffffff);                          \
    MAP_STRIDE(at, 0, line);                                            \
    MAP_STRIDE(at, 1, matrix);                                          \
    MAP_SIZE(at, "box_dim", 0, box_terms);                              \
    MAP_SIZE(at, "box_dim", 1, box_lines);                              \
    MAP_SIZE(at, "box_dim", 2, 1);                                      \
    MAP_SIZE(at, "element_stride", 0, 1);                               \
    MAP_SIZE(at, "element_stride", 1, 1);                               \
    MAP_SIZE(at, "element_stride", 2, 1);                               \
  }
#define KEEP_MAP(to, at)                                                                       \
  asm volatile(REWRITTEN                                                                       \
               "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu."    \
               "sync.aligned [%0], [%1], 128;\n" REWRITTEN                                     \
               "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"((ulong)(size_t)(to)), \
               "r"(memory_address + (at))                                                      \
               : "memory")
#define BOX(to, map, x, y, z, full)                                                                \
  asm volatile(REWRITTEN                                                                           \
               "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes " \
               "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(memory_address + (to)),                     \
               "l"((ulong)(size_t)(map)), "r"(x), "r"(y), "r"(z), "r"(memory_address + (full))     \
               : "memory")
#define BARRIER(at, n)                                                                    \
  asm volatile(REWRITTEN "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(memory_address + (at)), \
               "r"(n)                                                                     \
               : "memory")
#define ARRIVED(at)                                                                           \
  asm volatile(REWRITTEN "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(memory_address + (at)) \
               : "memory")
#define EXPECT(at, bytes)                                                 \
  asm volatile(REWRITTEN                                                  \
               "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"( \
                   memory_address + (at)),                                \
               "r"(bytes)                                                 \
               : "memory")
#define MET(at, parity)                                                                   \
  asm volatile(                                                                           \
      "{\n"                                                                               \
      ".reg .pred met;\n"                                                                 \
      "WAIT:\n" REWRITTEN "mbarrier.try_wait.parity.shared::cta.b64 met, [%0], %1;\n"     \
      REWRITTEN "@!met bra WAIT;\n"                                                       \
      "}" ::"r"(memory_address + (at)),                                                   \
      "r"(parity)                                                                         \
      : "memory")
#endif
// The places of b's terms; whether it is turned is said of 16-bit floats alone.
#ifdef B_TURNED
#define B_LINES(step) LINES(b_tile + (step)*32, 16)
#define B_HOW ", 0"
#else
#define B_LINES(step) LINES(b_tile + (step)*TERMS * 128, BK * 128)
#define B_HOW ", 1"
#endif
#ifdef A_TURNED
#define A_LINES(row, step) LINES(a_tile + (row)*BK * SIZE + (step)*TERMS * 128, BK * 128)
#define A_HOW ", 1"
#else
#define A_LINES(row, step) LINES(a_tile + (row)*LINE + (step)*32, 16)
#define A_HOW ", 0"
#endif
#ifndef HALF
#undef A_HOW
#undef B_HOW
#define A_HOW ""
#define B_HOW ""
#endif
#define GROUP_MULTIPLY(sum, i, step)                                                         \
  asm volatile(REWRITTEN "wgmma.mma_async.sync.aligned.m64" COLUMNS_NAME GROUP_TYPES         \
                         " {" SUM_NAMES "}, %[a_lines], %[b_lines], 1, 1, 1" A_HOW B_HOW ";" \
               : ALL_SUMS((sum)[i])                                                          \
               : [a_lines] "l"(A_LINES(group_row + (i)*64, step)), [b_lines] "l"(B_LINES(step)) \
               : "memory");
#endif

#else

#define EACH
#define SOME
#define PREPARE __local uint exchange[THREADS * (WM * 4 + WN * 2)];
#define COPY(type, to, from, ok) \
  *((__local type*)memory + (to) / sizeof(type)) = (ok) ? *(__global const type*)(from) : (type)(0)
#define COPY_16(to, from, ok) COPY(uint4, to, from, ok)
#define COPY_8(to, from, ok) COPY(uint2, to, from, ok)
#define COPY_4(to, from, ok) COPY(uint, to, from, ok)
#define COMMIT() \
  {}
#define WAIT_FOR(n) \
  {}
#define SLICE_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define WARP_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define WORD(at) memory[(at) / 4]
#define MATRICES(to, at) \
  for (int q = 0; q < 4; ++q) (to)[q] = WORD(at(q * 8 + lane / 4) + lane % 4 * 4)
#define HALF_WORD(at) (uint)((__local const ushort*)memory)[(at) / 2 + lane / 4]
#define MATRICES_TURNED(to, at) \
  for (int q = 0; q < 4; ++q)   \
  (to)[q] = HALF_WORD(at(q * 8 + lane % 4 * 2)) | HALF_WORD(at(q * 8 + lane % 4 * 2 + 1)) << 16

#include "tf32.cl"
#define ROUNDED(word) rounded(word)

#if defined LEAD && defined HALF
// By way of bytes, which a compiler takes for anything.
static inline uint led(uint word, uint2 by) {
  uchar bytes[12] __attribute__((aligned(4)));
  half* const halves = (half*)bytes;
  vstore4(as_uchar4(word), 0, bytes);
  vstore8(as_uchar8(by), 0, bytes + 4);
  for (int k = 0; k < 2; ++k) {
    const float v = fma(vload_half(k, halves), vload_half(k + 2, halves), vload_half(k + 4, halves));
#ifdef LEAD_RELU
    vstore_half(v < 0.0f ? 0.0f : v, k, halves);
#else
    vstore_half(v, k, halves);
#endif
  }
  return as_uint(vload4(0, bytes));
}
#endif

#ifdef HALF
#define TERM(words, k) vload_half((k) % 2, (__local const half*)((words) + (k) / 2 % 4))
#else
#define TERM(words, k) as_float((words)[(k) % 4])
#endif
// The words of a warp lie as [block][w][lane], those of a before those of b.
static inline void multiply(float (*sum)[WN][4], const uint* a, const uint* b,
                            __local uint* exchange, const int lane) {
  for (int w = 0; w < WM * 4; ++w) exchange[w * 32 + lane] = a[w];
  for (int w = 0; w < WN * 2; ++w) exchange[(WM * 4 + w) * 32 + lane] = b[w];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int mi = 0; mi < WM; ++mi) {
    for (int nj = 0; nj < WN; ++nj) {
      for (int v = 0; v < 4; ++v) {
        float added = 0.0f;
        for (int k = 0; k < TERMS; ++k) {
          const int upper = k * SIZE / 16;
          __local const uint* row = exchange + (mi * 4 + upper * 2 + v / 2) * 32 + lane / 4 * 4;
          __local const uint* column =
              exchange + (WM * 4 + nj * 2 + upper) * 32 + (lane % 4 * 2 + v % 2) * 4;
          added = fma(TERM(row, k), TERM(column, k), added);
        }
        sum[mi][nj][v] += added;
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
#define MULTIPLY(sum, a, b) \
  multiply(sum, a, b, exchange + get_local_id(0) / 32 * (32 * (WM * 4 + WN * 2)), lane);

#ifdef GROUPED
#define GROUP_READY() \
  {}
#define GROUP_BEGIN() \
  {}
#define GROUP_COMMIT() \
  {}
#define GROUP_WAIT(n) \
  {}
#ifdef HALF
#define NUMBER(at) vload_half((at) / 2, (__local const half*)memory)
#elif defined MAPS
#define NUMBER(at) as_float(ROUNDED(WORD(at)))
#else
#define NUMBER(at) as_float(WORD(at))
#endif
#ifdef B_TURNED
#define B_NUMBER(n, k) NUMBER(b_tile + PLACE(n, (k)*SIZE))
#else
#define B_NUMBER(n, k) NUMBER(b_tile + PLACE_GROUPED(k, (n)*SIZE))
#endif
#ifdef A_TURNED
#define A_NUMBER(m, k) NUMBER(a_tile + PLACE_GROUPED(k, (m)*SIZE))
#else
#define A_NUMBER(m, k) NUMBER(a_tile + PLACE(m, (k)*SIZE))
#endif
#define GROUP_MULTIPLY(sum, i, step)                                             \
  for (int j = 0; j < WN; ++j) {                                                 \
    for (int v = 0; v < 4; ++v) {                                                \
      const int m = down + (i)*64 + lane / 4 + v / 2 * 8;                        \
      const int n = j * 8 + lane % 4 * 2 + v % 2;                                \
      float added = 0.0f;                                                        \
      for (int k = (step)*TERMS; k < (step)*TERMS + TERMS; ++k)                  \
        added = fma(A_NUMBER(m, k), B_NUMBER(n, k), added);                      \
      sum[i][j][v] += added;                                                     \
    }                                                                            \
  }
#endif

#endif
