#include "ops/brain_gemm.h"

#include <algorithm>
#include <cstring>

#include "ops/brain_rows.h"
#include "ops/gemm.h"
#include "ops/isa.h"
#include "ops/op.h"
#include "ops/tiles.h"

#ifdef QNNRT_TILES
#include <immintrin.h>
#endif

namespace qnnrt {

#ifdef QNNRT_TILES

namespace {

#define QNNRT_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

constexpr size_t kColumns = kBrainColumns;
constexpr size_t kVector = 16;  // of its columns in a register
constexpr size_t kRows = 12;    // of results in registers
// Rows that a thread multiplies by a panel at a time: their results stay in L1.
constexpr size_t kBlockRows = 48, kBlockTiles = 2;
constexpr size_t kPieces = 2;  // of a block's results, which are stored while tiles are multiplied
constexpr size_t kDepthBlock = 512;  // pairs of rows of a panel: 64 KiB, which stay in L2
// Bytes of panels that pass by a block's rows, where those stay in a first cache of 48 KiB.
constexpr size_t kGroup = 96 * 1024, kStaying = 32 * 1024;
constexpr size_t kWorthwhile = 1024 * 1024;  // products worth a thread, about 10 microseconds

size_t Rounded(size_t count, size_t to) { return (count + to - 1) / to * to; }

size_t BlockRows() { return HasTiles() ? kBlockTiles * kTileRows : kBlockRows; }

bool UsesTileRows(size_t m, bool wanted) { return wanted && m <= kTileRows && HasTiles(); }

// Tiles are read whole, pairs too: rows of A that end before are copied, with zeros behind them
// (one row is not, but in pairs). Where there are rows before a last block, it begins by some of
// those instead: a copy is written by one core in each run, and takes the others as long to read as
// a small product.
struct Copied {
  size_t rows, depth;  // of A, filled up
  bool any;
  Copied(size_t m, size_t k, bool tile_rows)
      : rows(m > 1 && HasTiles() && !UsesTileRows(m, tile_rows) ? Rounded(m, kTileRows) : m),
        depth(Rounded(k, m > 1 && HasTiles() ? kTileDepth : 2)),
        any(depth != k || (rows != m && m < BlockRows())) {}
  size_t bytes() const { return any ? rows * depth * sizeof(uint16_t) : 0; }
};

// Some rows of A times some of the depth of a panel.
struct Part {
  const uint16_t* a;
  size_t lda;
  const uint32_t* b;
  size_t pairs;
  const float* bias;  // of kColumns; null: to be added to what C holds
  float* c;           // kColumns from row to row
};

template <int kR, int kV>
QNNRT_BF16 void MultiplyRows(const Part& p) {
  __m512 sum[kR][kV];
#pragma GCC unroll 12
  for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) {
      const float* from = p.bias != nullptr ? p.bias : p.c + i * kColumns;
      sum[i][v] = _mm512_loadu_ps(from + v * kVector);
    }
  }
  const uint16_t* a[kR];
#pragma GCC unroll 12
  for (size_t i = 0; i < kR; ++i) a[i] = p.a + i * p.lda;
  const uint32_t* b = p.b;
  for (size_t pair = 0; pair < p.pairs; ++pair, b += kColumns) {
    __m512bh row[kV];
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) row[v] = (__m512bh)_mm512_loadu_si512(b + v * kVector);
#pragma GCC unroll 12
    for (size_t i = 0; i < kR; ++i) {
      int x;
      std::memcpy(&x, a[i] + 2 * pair, sizeof(x));
      const __m512bh both = (__m512bh)_mm512_set1_epi32(x);
#pragma GCC unroll 2
      for (size_t v = 0; v < kV; ++v) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], both, row[v]);
    }
  }
#pragma GCC unroll 12
  for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) _mm512_storeu_ps(p.c + i * kColumns + v * kVector, sum[i][v]);
  }
}

using MultiplyFn = void (*)(const Part&);
template <int kV>
constexpr MultiplyFn kMultiply[kRows] = {
    MultiplyRows<1, kV>, MultiplyRows<2, kV>,  MultiplyRows<3, kV>,  MultiplyRows<4, kV>,
    MultiplyRows<5, kV>, MultiplyRows<6, kV>,  MultiplyRows<7, kV>,  MultiplyRows<8, kV>,
    MultiplyRows<9, kV>, MultiplyRows<10, kV>, MultiplyRows<11, kV>, MultiplyRows<12, kV>};

// `rows` rows of A from `a` on times a panel.
void InRegisters(const uint16_t* a, size_t lda, size_t rows, const uint32_t* panel, size_t pairs,
                 size_t columns, const float* bias, float* c) {
  // Half of a panel takes half of the time where no more columns are wanted.
  const MultiplyFn* multiply = columns <= kVector ? kMultiply<1> : kMultiply<2>;
  for (size_t k = 0; k == 0 || k < pairs; k += kDepthBlock) {
    for (size_t m = 0; m < rows; m += kRows) {
      multiply[std::min(kRows, rows - m) - 1]({a + m * lda + 2 * k, lda, panel + k * kColumns,
                                               std::min(kDepthBlock, pairs - k),
                                               k == 0 ? bias : nullptr, c + m * kColumns});
    }
  }
}

// The part of a panel of the next group that a block fetches: all blocks together fetch it whole.
// Weights that come from memory are waited for by the first block of each panel else.
struct Ahead {
  const uint32_t* panel;
  size_t block, blocks;
  bool rows_stay;
};

// The same on matrix tiles. `meanwhile` is called with 0 to kPieces - 1.
void InTiles(const uint16_t* a, size_t lda, size_t rows, const uint32_t* panel, size_t pairs,
             const float* bias, float* c, const Ahead& ahead,
             const FunctionRef<void(size_t)>& meanwhile) {
  constexpr size_t kPairs = kTileDepth / 2, kTileLines = kPairs * kColumns * 4 / kLine;
  const size_t whole = pairs / kPairs, left = pairs % kPairs;
  TileProduct p = {};
  p.a = a;
  p.lda = lda;
  p.b = reinterpret_cast<const uint16_t*>(panel);
  p.ldb = 2 * kColumns;
  p.c = c;
  p.ldc = kColumns;
  p.row_tiles = TilesOf(rows, kTileRows);
  p.column_tiles = kColumns / kTileColumns;
  p.depth_tiles = whole;
  p.b_passes = ahead.rows_stay;
  p.bias = bias;
  p.meanwhile = &meanwhile;
  p.pieces = std::min(kPieces, whole);
  p.ahead_lines = (kTileLines + ahead.blocks - 1) / ahead.blocks;
  p.ahead =
      reinterpret_cast<const char*>(ahead.panel) + ahead.block * p.ahead_lines * whole * kLine;
  MultiplyTiles(p);
  for (size_t piece = p.pieces; piece < kPieces; ++piece) meanwhile(piece);
  if (left == 0) return;
  alignas(64) uint32_t last[kPairs * kColumns] = {};
  std::copy_n(panel + whole * kPairs * kColumns, left * kColumns, last);
  p.a += whole * kTileDepth;
  p.b = reinterpret_cast<const uint16_t*>(last);
  p.depth_tiles = 1;
  p.ahead_lines = p.pieces = 0;
  p.accumulate = true;
  MultiplyTiles(p);
}

// What the sums of a panel begin with: that of the last one may not be whole. Written before tiles
// are read, which wait for what was stored just before.
class Bias {
 public:
  explicit Bias(const BrainGemm& g)
      : from_(g.bias), whole_(g.bias == nullptr ? 0 : g.n / kColumns * kColumns) {
    if (from_ != nullptr) std::copy_n(from_ + whole_, g.n - whole_, edge_);
  }
  const float* From(size_t n0) const { return n0 < whole_ ? from_ + n0 : edge_; }

 private:
  const float* from_;
  size_t whole_;
  alignas(64) float edge_[kColumns] = {};
};

}  // namespace

bool HasBrainGemm() { return CpuRoundsBrains() && Simd().columns == kColumns; }

size_t BrainGemmScratch(size_t m, size_t k, bool tile_rows) {
  return ScratchRoom(Copied(m, k, tile_rows).bytes());
}

void RunBrainGemm(const BrainGemm& g, void* scratch, const Threads& threads,
                  FunctionRef<void(const BrainBlock&)> store) {
  const Copied copied(g.m, g.k, g.tile_rows);
  const size_t lda = copied.depth;
  uint16_t* copy = static_cast<uint16_t*>(scratch);
  if (copied.any) {
    const size_t grain = std::max<size_t>(1, 64 * 1024 / std::max<size_t>(1, lda));
    threads.For(copied.rows, grain, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const size_t count = i < g.m ? g.k : 0;
        uint16_t* to = copy + i * lda;
        std::copy_n(g.a + (count == 0 ? 0 : i * g.k), count, to);
        std::fill(to + count, to + lda, uint16_t{0});
      }
    });
  }
  const uint16_t* whole = copied.any ? copy : g.a;
  if (UsesTileRows(g.m, g.tile_rows)) return RunBrainTileRows(g, whole, lda, threads, store);
  if (g.m == 1) return RunBrainRow(g, whole, threads, store);
  const size_t pairs = (g.k + 1) / 2, rows = BlockRows();
  const size_t panels = PackedPanels(g.n);
  const bool tiles = HasTiles();
  const size_t blocks = (g.m + rows - 1) / rows;  // of a panel
  const size_t work = std::max<size_t>(1, std::min(rows, g.m) * kColumns * g.k);
  // Panels go by each block of rows in groups, so that its rows are read from the first cache.
  const size_t panel_bytes = std::max<size_t>(1, pairs * kColumns * sizeof(uint32_t));
  const bool rows_stay = tiles && rows * lda * sizeof(uint16_t) <= kStaying;
  const size_t group = rows_stay ? std::max<size_t>(1, kGroup / panel_bytes) : 1;
  struct Place {
    size_t block, panel;
    size_t m0, n0, rows, columns;
    size_t again;  // rows before, which are multiplied again
    const uint16_t* a;
    const uint32_t* packed;
  };
  const auto place = [&](size_t i) {
    const size_t first = i / (group * blocks) * group, in = i - first * blocks;
    const size_t here = std::min(group, panels - first);  // panels of this group
    const size_t block = in / here, panel = first + in % here;
    const size_t m0 = block * rows, n0 = panel * kColumns;
    const size_t count = std::min(rows, g.m - m0);
    const size_t again = tiles && !copied.any ? Rounded(count, kTileRows) - count : 0;
    return Place{block,
                 panel,
                 m0,
                 n0,
                 count,
                 std::min(kColumns, g.n - n0),
                 again,
                 whole + (m0 - again) * lda,
                 g.packed + panel * pairs * kColumns};
  };
  const Bias bias(g);
  const auto in_registers = [&](size_t begin, size_t end) {
    alignas(64) float c[kBlockRows * kColumns];
    for (size_t i = begin; i < end; ++i) {
      const Place p = place(i);
      InRegisters(p.a, lda, p.rows, p.packed, pairs, p.columns, bias.From(p.n0), c);
      store({p.m0, p.rows, p.n0, p.columns, c, kColumns});
    }
  };
  // A tile waits for what was stored just before, and storing results for the last tile: each
  // block's results are stored while the next one's are summed.
  const auto in_tiles = [&](size_t begin, size_t end) {
    const TileScope scope;
    alignas(64) float c[2][kBlockTiles * kTileRows * kColumns];
    const auto store_piece = [&](const Place& p, float* from, size_t piece) {
      const size_t first = p.rows * piece / kPieces, count = p.rows * (piece + 1) / kPieces - first;
      if (count == 0) return;
      from += (p.again + first) * kColumns;
      store({p.m0 + first, count, p.n0, p.columns, from, kColumns});
    };
    Place last = {};
    for (size_t i = begin; i < end; ++i) {
      const Place p = place(i);
      const uint32_t* next = p.packed + (p.panel + group < panels ? group * pairs * kColumns : 0);
      InTiles(p.a, lda, p.again + p.rows, p.packed, pairs, bias.From(p.n0), c[i % 2],
              {next, p.block, blocks, rows_stay}, [&](size_t piece) {
                if (i != begin) store_piece(last, c[(i - 1) % 2], piece);
              });
      last = p;
    }
    for (size_t piece = 0; piece < kPieces; ++piece) store_piece(last, c[(end - 1) % 2], piece);
  };
  threads.For(
      panels * blocks, std::max<size_t>(1, kWorthwhile / work),
      [&](size_t begin, size_t end) { tiles ? in_tiles(begin, end) : in_registers(begin, end); });
}

#else

bool HasBrainGemm() { return false; }
size_t BrainGemmScratch(size_t, size_t, bool) { return 0; }
void RunBrainGemm(const BrainGemm&, void*, const Threads&, FunctionRef<void(const BrainBlock&)>) {}

#endif

}  // namespace qnnrt
