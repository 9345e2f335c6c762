#include "ops/onednn/fixed/word_gemm.h"

#include <algorithm>
#include <cstring>

#include "ops/isa.h"
#include "ops/onednn/fixed/word_vectors.h"
#include "ops/op.h"
#include "ops/tiles.h"

namespace qnnrt::onednn {

#if defined(__x86_64__)

namespace {

constexpr size_t kVector = 16;               // columns in a register
constexpr size_t kColumns = 2 * kVector;     // of a panel of B
constexpr size_t kDoubles = 8;               // in a register
constexpr size_t kDepth = 4;                 // rows of B side by side, which an instruction sums up
constexpr size_t kRows = 6;                  // of results in registers, with two sums each
constexpr size_t kWorthwhile = 1024 * 1024;  // products worth a thread
constexpr size_t kGrain = 32 * 1024;         // numbers to take apart worth a thread

size_t RoundedUp(size_t count, size_t to) { return (count + to - 1) / to * to; }

// Bytes from a plane's row to the next one: an odd number of lines, so that the rows of a tile lie
// in different sets of L1.
size_t RowBytes(size_t k) { return RoundedUp(k, kLine) / kLine / 2 * 2 * kLine + kLine; }

// The high bytes of a row of A and then its low ones, `step` behind them.
struct SplitRow {
  static QNNRT_INLINE void Run(const uint16_t* in, uint8_t* high, size_t n, size_t step,
                               uint16_t flip) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) {
      const uint16_t x = in[i] ^ flip;
      high[i] = static_cast<uint8_t>(x >> 8);
      high[step + i] = static_cast<uint8_t>(x);
    }
  }
};

// Sums of a row's high bytes and of its low ones.
struct RowSums {
  int32_t high[kColumns], low[kColumns];
};

// Rows of a tile, put together and rounded, to `out`.
template <typename T>
struct JoinRows {
  static QNNRT_INLINE void Run(const RowSums* sums, size_t rows, size_t columns, size_t column,
                               const WordGemm& g, void* out) {
    const Requantize to = g.to;
    const double *constants = g.constants + column, *factors = g.factors + column;
    T* codes = static_cast<T*>(out);
    for (size_t r = 0; r < rows; ++r, codes += g.n) {
      const Sums of{sums[r].high, sums[r].low};
      const auto join = [&](size_t i) {
        codes[i] = Rounded<T>((Whole<true>(of, i) + constants[i]) * factors[i], to);
      };
      if (columns == kColumns) {
        QNNRT_SIMD
        for (size_t i = 0; i < kColumns; ++i) join(i);
        continue;
      }
      size_t first = 0;
      for (; first + kDoubles <= columns; first += kDoubles) {
        QNNRT_SIMD
        for (size_t i = 0; i < kDoubles; ++i) join(first + i);
      }
      for (; first < columns; ++first) join(first);
    }
  }
};

// Some rows of A times a panel.
struct Part {
  const uint8_t* a;  // the planes of the first row
  size_t step;       // from plane to plane
  const int8_t* b;
  size_t groups;  // of kDepth
  RowSums* sums;
  const int8_t* ahead;  // fetched into L2 meanwhile, at so many bytes a group
  size_t ahead_step;
};

QNNRT_VNNI QNNRT_INLINE __m512i Broadcast(const uint8_t* four) {
  int x;
  std::memcpy(&x, four, sizeof(x));
  return _mm512_set1_epi32(x);
}

// By hand: of so many sums the compiler would move some to memory and back in each step.
QNNRT_VNNI QNNRT_INLINE void Add(__m512i* sum, __m512i bytes, __m512i weights) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(bytes), "v"(weights));
}

// kR rows times kV vectors of the panel.
template <int kR, int kV>
QNNRT_VNNI void Multiply(const Part& p) {
  constexpr size_t kPlanes = 2 * kR, kThirds = (kPlanes + 2) / 3;
  __m512i sum[kPlanes][kV];
#pragma GCC unroll 12
  for (size_t i = 0; i < kPlanes; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) sum[i][v] = _mm512_setzero_si512();
  }
  // Planes by three: an address is a pointer and nothing, once or twice the step.
  const uint8_t* a[kThirds];
  const size_t step = p.step;
#pragma GCC unroll 4
  for (size_t i = 0; i < kThirds; ++i) a[i] = p.a + 3 * i * step;
  const int8_t *b = p.b, *ahead = p.ahead;
  for (const int8_t* const end = b + p.groups * kColumns * kDepth; b != end;
       b += kColumns * kDepth, ahead += p.ahead_step) {
    _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
    __m512i weights[kV];
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) weights[v] = _mm512_loadu_si512(b + v * kVector * kDepth);
#pragma GCC unroll 12
    for (size_t i = 0; i < kPlanes; ++i) {
      const __m512i bytes = Broadcast(a[i / 3] + i % 3 * step);
#pragma GCC unroll 2
      for (size_t v = 0; v < kV; ++v) Add(&sum[i][v], bytes, weights[v]);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < kThirds; ++i) a[i] += kDepth;
  }
#pragma GCC unroll 6
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) {
      _mm512_storeu_si512(p.sums[r].high + v * kVector, sum[2 * r][v]);
      _mm512_storeu_si512(p.sums[r].low + v * kVector, sum[2 * r + 1][v]);
    }
  }
}

using MultiplyFn = void (*)(const Part&);
template <int kV>
constexpr MultiplyFn kMultiply[kRows] = {Multiply<1, kV>, Multiply<2, kV>, Multiply<3, kV>,
                                         Multiply<4, kV>, Multiply<5, kV>, Multiply<6, kV>};

}  // namespace

bool HasWordGemm() { return HasWordVectors() && !HasTiles(); }

size_t PackedWordBytes(size_t k, size_t n) { return RoundedUp(k, kDepth) * RoundedUp(n, kColumns); }

void PackWordWeights(const ByteMatrix& b, size_t k, size_t n, int8_t* packed) {
  std::memset(packed, 0, PackedWordBytes(k, n));
  const size_t panel = RoundedUp(k, kDepth) * kColumns;
  for (size_t d = 0; d < k; ++d) {
    for (size_t c = 0; c < n; ++c) {
      packed[c / kColumns * panel + (d / kDepth * kColumns + c % kColumns) * kDepth + d % kDepth] =
          b.data[d * b.row_stride + c * b.column_stride];
    }
  }
}

size_t WordGemmScratch(size_t rows, size_t k) { return 2 * rows * RowBytes(k); }

void RunWordGemm(const WordGemm& g, size_t first, size_t rows, void* scratch,
                 const Threads& threads) {
  static const auto split = PickIsa<SplitRow>();
  static const auto join16 = PickIsa<JoinRows<uint16_t>>(), join8 = PickIsa<JoinRows<uint8_t>>();
  const auto join = g.out_bytes == 2 ? join16 : join8;
  uint8_t* const planes = static_cast<uint8_t*>(scratch);
  const size_t step = RowBytes(g.k), padding = RoundedUp(g.k, kDepth) - g.k;
  threads.For(rows, 1 + kGrain / g.k, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      uint8_t* high = planes + 2 * r * step;
      split(g.a + (first + r) * g.k, high, g.k, step, g.flip);
      std::memset(high + g.k, 0, padding);  // the weights there are 0
      std::memset(high + step + g.k, 0, padding);
    }
  });
  const size_t panels = (g.n + kColumns - 1) / kColumns, groups = (g.k + kDepth - 1) / kDepth;
  // All tiles together fetch the next panel: the first one would wait for each line of it else.
  const size_t tiles = (rows + kRows - 1) / kRows, bytes = kColumns * kDepth;  // of a group
  const size_t ahead_step = (bytes + tiles - 1) / tiles;
  threads.For(panels, 1 + kWorthwhile / (rows * kColumns * g.k), [&](size_t begin, size_t end) {
    alignas(kLine) RowSums sums[kRows];
    for (size_t p = begin; p < end; ++p) {
      const size_t column = p * kColumns, columns = std::min(kColumns, g.n - column);
      const int8_t* panel = g.packed + p * groups * bytes;
      const int8_t* next = p + 1 < panels ? panel + groups * bytes : panel;
      const MultiplyFn* multiply = columns > kVector ? kMultiply<2> : kMultiply<1>;
      for (size_t t = 0; t < tiles; ++t) {  // as high as each other
        const size_t row = t * rows / tiles, count = (t + 1) * rows / tiles - row;
        multiply[count - 1]({planes + 2 * row * step, step, panel, groups, sums,
                             next + t * groups * ahead_step, ahead_step});
        join(sums, count, columns, column, g,
             static_cast<char*>(g.out) + ((first + row) * g.n + column) * g.out_bytes);
      }
    }
  });
}

#else

bool HasWordGemm() { return false; }
size_t PackedWordBytes(size_t, size_t) { return 0; }
void PackWordWeights(const ByteMatrix&, size_t, size_t, int8_t*) {}
size_t WordGemmScratch(size_t, size_t) { return 0; }
void RunWordGemm(const WordGemm&, size_t, size_t, void*, const Threads&) {}

#endif

}  // namespace qnnrt::onednn
