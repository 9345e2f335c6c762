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
constexpr size_t kColumns = kWordColumns;    // two registers
constexpr size_t kDoubles = 8;               // in a register
constexpr size_t kDepth = 4;                 // rows of B side by side, which an instruction sums up
constexpr size_t kRows = 6;                  // of results in registers, with two sums each
constexpr size_t kWorthwhile = 1024 * 1024;  // products worth a thread
constexpr size_t kGrain = 32 * 1024;         // numbers to take apart worth a thread

constexpr size_t kSplit = 32;                // numbers taken apart at a time
constexpr __mmask32 kAll32 = ~__mmask32{0};  // (word_vectors.h says why)

size_t RoundedUp(size_t count, size_t to) { return (count + to - 1) / to * to; }

// Bytes from a plane's row to the next one: an odd number of lines, so that the rows of a tile lie
// in different sets of L1.
size_t RowBytes(size_t k) { return RoundedUp(k, kLine) / kLine / 2 * 2 * kLine + kLine; }

// The high bytes of n numbers, and the low ones `step` behind them. What follows up to the next
// kSplit is written, too.
QNNRT_VNNI QNNRT_INLINE void SplitWords(const uint16_t* in, uint8_t* high, size_t n, size_t step,
                                        __m512i flips) {
  for (size_t i = 0; i < n; i += kSplit) {
    const size_t left = n - i;
    const __m512i x = left >= kSplit ? _mm512_loadu_si512(in + i)
                                     : _mm512_maskz_loadu_epi16((__mmask32{1} << left) - 1, in + i);
    const __m512i words = _mm512_xor_si512(x, flips);
    const __m256i highs = _mm512_maskz_cvtepi16_epi8(kAll32, _mm512_srli_epi16(words, 8));
    const __m256i lows = _mm512_maskz_cvtepi16_epi8(kAll32, words);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(high + i), highs);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(high + step + i), lows);
  }
}

QNNRT_VNNI void SplitRows(const WordGemm& g, size_t first, size_t rows, uint8_t* high,
                          size_t step) {
  const __m512i flips = _mm512_set1_epi16(static_cast<int16_t>(g.flip));
  for (size_t r = first; r < first + rows; ++r, high += 2 * step) {
    SplitWords(g.a + r * g.k, high, g.k, step, flips);
  }
}

// Sums of a row's high bytes and of its low ones.
struct RowSums {
  int32_t high[kColumns], low[kColumns];
};

// Rows of a tile, put together and rounded, to `out`, of 8 bits.
struct JoinRows {
  static QNNRT_INLINE void Run(const RowSums* sums, size_t rows, size_t columns, size_t column,
                               const WordGemm& g, void* out) {
    const Requantize to = g.to;
    const double *constants = g.constants + column, *factors = g.factors + column;
    uint8_t* codes = static_cast<uint8_t*>(out);
    for (size_t r = 0; r < rows; ++r, codes += g.n) {
      const Sums of{sums[r].high, sums[r].low};
      const auto join = [&](size_t i) {
        codes[i] = Rounded<uint8_t>((Whole<true>(of, i) + constants[i]) * factors[i], to);
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

// The same of 16 bits. kFit: whole sums fit 32 bits.
template <bool kFit, bool kFractions, bool kFar>
QNNRT_VNNI void JoinWords(const RowSums* sums, size_t rows, size_t columns, size_t column,
                          const WordGemm& g, void* out) {
  const WordCodes<kFractions, kFar> join(g.to);
  const WordJoin& joining = g.joins->blocks()[column / kColumns];
  const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
  const __mmask32 mask = columns < kColumns ? (__mmask32{1} << columns) - 1 : kAll32;
  uint16_t* codes = static_cast<uint16_t*>(out);
  for (size_t r = 0; r < rows; ++r, codes += g.n) {
    __m512i parts[2];
    parts[1] = _mm512_setzero_si512();
    const size_t vectors = columns > kVector ? 2 : 1;
    for (size_t v = 0; v < vectors; ++v) {
      const __m512i high = _mm512_load_si512(sums[r].high + v * kVector);
      const __m512i low = _mm512_load_si512(sums[r].low + v * kVector);
      const double *fractions = joining.fractions + v * kVector,
                   *factors = joining.factors + v * kVector;
      if constexpr (kFit) {
        const __m512i start = _mm512_load_si512(joining.start + v * kVector);
        const __m512i whole = _mm512_add_epi32(_mm512_maskz_slli_epi32(kAll16, high, 8),
                                               _mm512_add_epi32(low, start));
        parts[v] = join.Sixteen(whole, fractions, factors);
      } else {
        parts[v] = join.Sixteen(high, low, fractions, factors);
      }
    }
    const __m512i mixed = join.Packed(parts[0], parts[1]);  // by quarters
    const __m512i row = _mm512_maskz_permutexvar_epi64(kAll8, order, mixed);
    if (columns == kColumns) {
      _mm512_storeu_si512(codes, row);
    } else {
      _mm512_mask_storeu_epi16(codes, mask, row);
    }
  }
}

using JoinFn = void (*)(const RowSums*, size_t, size_t, size_t, const WordGemm&, void*);
JoinFn PickJoin(const WordGemm& g) {
  static const JoinFn bytes = PickIsa<JoinRows>();
  if (g.out_bytes == 1) return bytes;
  const bool fractions = g.joins->fractions(), far = g.joins->far();
  if (g.joins->fit()) {
    return fractions || far ? JoinWords<true, true, true> : JoinWords<true, false, false>;
  }
  return far ? JoinWords<false, true, true> : JoinWords<false, true, false>;
}

// Some rows of A times a panel.
struct Part {
  WordRows a;
  const int8_t* b;
  RowSums* sums;
  const int8_t* ahead;  // fetched into L2 meanwhile, at so many bytes a group
  size_t ahead_step;
};

// kR rows times kV vectors of the panel. kApart: steps are where p.a.steps says.
template <int kR, int kV, bool kApart>
QNNRT_VNNI void Multiply(const Part& p) {
  constexpr size_t kThirds = (kR + 2) / 3;
  __m512i sum[2 * kR][kV];
#pragma GCC unroll 12
  for (size_t i = 0; i < 2 * kR; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) sum[i][v] = _mm512_setzero_si512();
  }
  // Rows by three: an address is a pointer and nothing, once or twice the step.
  const uint8_t *high[kThirds], *low[kThirds];
  const size_t row = p.a.row, low_plane = p.a.low;
  const auto point = [&](const uint8_t* at) QNNRT_VNNI __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (size_t i = 0; i < kThirds; ++i) {
      high[i] = at + 3 * i * row;
      low[i] = high[i] + low_plane;
    }
  };
  const size_t* steps = p.a.steps;
  const uint8_t* const first = p.a.high;
  const int8_t *b = p.b, *ahead = p.ahead;
  const size_t ahead_step = p.ahead_step;
  RowSums* const sums = p.sums;
  if (!kApart) point(first);
  for (const int8_t* const end = b + p.a.step_count * kColumns * kDepth; b != end;
       b += kColumns * kDepth, ahead += ahead_step) {
    _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
    if (kApart) point(first + *steps++);
    __m512i weights[kV];
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) weights[v] = _mm512_loadu_si512(b + v * kVector * kDepth);
#pragma GCC unroll 6
    for (size_t r = 0; r < kR; ++r) {
      const __m512i highs = BroadcastFour(high[r / 3] + r % 3 * row);
#pragma GCC unroll 2
      for (size_t v = 0; v < kV; ++v) AddFours(&sum[2 * r][v], highs, weights[v]);
      const __m512i lows = BroadcastFour(low[r / 3] + r % 3 * row);
#pragma GCC unroll 2
      for (size_t v = 0; v < kV; ++v) AddFours(&sum[2 * r + 1][v], lows, weights[v]);
    }
    if (kApart) continue;
#pragma GCC unroll 2
    for (size_t i = 0; i < kThirds; ++i) high[i] += kDepth, low[i] += kDepth;
  }
#pragma GCC unroll 6
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) {
      _mm512_storeu_si512(sums[r].high + v * kVector, sum[2 * r][v]);
      _mm512_storeu_si512(sums[r].low + v * kVector, sum[2 * r + 1][v]);
    }
  }
}

using MultiplyFn = void (*)(const Part&);
template <int kV, bool kApart>
constexpr MultiplyFn kMultiply[kRows] = {Multiply<1, kV, kApart>, Multiply<2, kV, kApart>,
                                         Multiply<3, kV, kApart>, Multiply<4, kV, kApart>,
                                         Multiply<5, kV, kApart>, Multiply<6, kV, kApart>};

template <bool kApart>
const MultiplyFn* PickMultiply(size_t columns) {
  return columns > kVector ? kMultiply<2, kApart> : kMultiply<1, kApart>;
}

}  // namespace

bool HasWordGemm() { return HasWordVectors() && !HasTiles(); }

size_t PackedWordBytes(size_t runs, size_t k, size_t n) {
  return runs * RoundedUp(k, kDepth) * RoundedUp(n, kColumns);
}

void PackWordWeights(const ByteMatrix& b, size_t runs, size_t k, size_t n, int8_t* packed) {
  std::memset(packed, 0, PackedWordBytes(runs, k, n));
  const size_t depth = RoundedUp(k, kDepth), panel = runs * depth * kColumns;
  for (size_t d = 0; d < runs * k; ++d) {
    const size_t at = d / k * depth + d % k;
    for (size_t c = 0; c < n; ++c) {
      packed[c / kColumns * panel + (at / kDepth * kColumns + c % kColumns) * kDepth +
             at % kDepth] = b.data[d * b.row_stride + c * b.column_stride];
    }
  }
}

QNNRT_VNNI void SplitWordRow(const uint16_t* in, uint8_t* high, size_t n, size_t low,
                             uint16_t flip) {
  SplitWords(in, high, n, low, _mm512_set1_epi16(static_cast<int16_t>(flip)));
}

void RunWordPanel(const WordGemm& g, const WordRows& a, const WordPanel& panel, size_t rows,
                  void* out) {
  alignas(kLine) RowSums sums[kRows];
  const JoinFn join = PickJoin(g);
  const MultiplyFn* multiply =
      a.steps != nullptr ? PickMultiply<true>(panel.columns) : PickMultiply<false>(panel.columns);
  const size_t tiles = WordTilesOf(rows);
  Part part{a, panel.weights, sums, panel.ahead, panel.ahead_step};
  for (size_t t = 0; t < tiles; ++t) {  // as high as each other
    const size_t row = t * rows / tiles, count = (t + 1) * rows / tiles - row;
    part.a.high = a.high + row * a.row;
    multiply[count - 1](part);
    part.ahead += a.step_count * panel.ahead_step;
    join(sums, count, panel.columns, panel.column, g,
         static_cast<char*>(out) + row * g.n * g.out_bytes);
  }
}

size_t WordSteps(size_t k) { return (k + kDepth - 1) / kDepth; }

size_t WordTilesOf(size_t rows) { return (rows + kRows - 1) / kRows; }

size_t WordAhead(size_t tiles) { return (kColumns * kDepth + tiles - 1) / tiles; }

size_t WordGemmScratch(size_t rows, size_t k) { return 2 * rows * RowBytes(k); }

void RunWordGemm(const WordGemm& g, size_t first, size_t rows, void* scratch,
                 const Threads& threads) {
  uint8_t* const planes = static_cast<uint8_t*>(scratch);
  const size_t step = RowBytes(g.k);
  threads.For(rows, 1 + kGrain / g.k, [&](size_t begin, size_t end) {
    // (The weights behind the last number are 0.)
    SplitRows(g, first + begin, end - begin, planes + 2 * begin * step, step);
  });
  const size_t panels = (g.n + kColumns - 1) / kColumns, bytes = PackedWordBytes(1, g.k, kColumns);
  const WordRows a{planes, 2 * step, step, nullptr, WordSteps(g.k)};
  const size_t ahead = WordAhead(WordTilesOf(rows));
  threads.For(panels, 1 + kWorthwhile / (rows * kColumns * g.k), [&](size_t begin, size_t end) {
    for (size_t p = begin; p < end; ++p) {
      const size_t column = p * kColumns, columns = std::min(kColumns, g.n - column);
      const int8_t* weights = g.packed + p * bytes;
      const int8_t* next = p + 1 < panels ? weights + bytes : weights;
      RunWordPanel(g, a, {weights, column, columns, next, ahead}, rows,
                   static_cast<char*>(g.out) + (first * g.n + column) * g.out_bytes);
    }
  });
}

#else

bool HasWordGemm() { return false; }
size_t PackedWordBytes(size_t, size_t, size_t) { return 0; }
void PackWordWeights(const ByteMatrix&, size_t, size_t, size_t, int8_t*) {}
void SplitWordRow(const uint16_t*, uint8_t*, size_t, size_t, uint16_t) {}
void RunWordPanel(const WordGemm&, const WordRows&, const WordPanel&, size_t, void*) {}
size_t WordSteps(size_t) { return 0; }
size_t WordTilesOf(size_t) { return 0; }
size_t WordAhead(size_t) { return 0; }
size_t WordGemmScratch(size_t, size_t) { return 0; }
void RunWordGemm(const WordGemm&, size_t, size_t, void*, const Threads&) {}

#endif

}  // namespace qnnrt::onednn
