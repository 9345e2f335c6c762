#include "ops/brain_rows.h"

#include <algorithm>
#include <cstring>

#include "ops/gemm.h"
#include "ops/isa.h"
#include "ops/tiles.h"

#ifdef QNNRT_TILES
#include <immintrin.h>

namespace qnnrt {
namespace {

#define QNNRT_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

constexpr size_t kHalf = kBrainColumns / 2;  // in a register
constexpr size_t kPair = 2 * kBrainColumns;  // of two panels

// Some panels, their weights fetched into the first cache.
template <size_t kPanels>
QNNRT_BF16 void MultiplyRow(const uint16_t* a, size_t pairs, const uint32_t* b, float* c) {
  constexpr size_t kAhead = 4;    // pairs of rows
  constexpr size_t kBlock = 128;  // pairs with a sum of their own: fewer roundings of a large one
  const size_t panel = pairs * kBrainColumns;
  __m512 total[kPanels][2] = {};
  for (size_t k0 = 0; k0 < pairs; k0 += kBlock) {
    __m512 sum[kPanels][2] = {};
    const size_t end = std::min(pairs, k0 + kBlock);
    for (size_t k = k0; k < end; ++k, b += kBrainColumns) {
      int x;
      std::memcpy(&x, a + 2 * k, sizeof(x));
      const __m512bh both = (__m512bh)_mm512_set1_epi32(x);
      // What comes behind the end of a panel is that of the next ones.
      const size_t past = k + kAhead < pairs ? 0 : (kPanels - 1) * panel;
      const char* next = reinterpret_cast<const char*>(b + past + kAhead * kBrainColumns);
#pragma GCC unroll 4
      for (size_t p = 0; p < kPanels; ++p) {
        _mm_prefetch(next + p * panel * sizeof(*b), _MM_HINT_T0);
        _mm_prefetch(next + p * panel * sizeof(*b) + kLine, _MM_HINT_T0);
      }
#pragma GCC unroll 4
      for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 2
        for (size_t v = 0; v < 2; ++v) {
          const __m512bh row = (__m512bh)_mm512_loadu_si512(b + p * panel + v * kHalf);
          sum[p][v] = _mm512_dpbf16_ps(sum[p][v], both, row);
        }
      }
    }
#pragma GCC unroll 4
    for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 2
      for (size_t v = 0; v < 2; ++v) total[p][v] = _mm512_add_ps(total[p][v], sum[p][v]);
    }
  }
#pragma GCC unroll 4
  for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      float* to = c + p * kBrainColumns + v * kHalf;
      _mm512_storeu_ps(to, _mm512_add_ps(total[p][v], _mm512_loadu_ps(to)));
    }
  }
}

// What the sums of the panels from column n0 on begin with.
void Begin(const BrainGemm& g, size_t n0, size_t panels, float* from) {
  std::fill_n(from, panels * kBrainColumns, 0.0f);
  if (g.bias != nullptr) std::copy_n(g.bias + n0, std::min(panels * kBrainColumns, g.n - n0), from);
}

// As many rows as TileScope has, times two panels or one, into rows of kPair.
void MultiplyTwo(const uint16_t* a, size_t lda, const uint32_t* panel, size_t panels, size_t pairs,
                 const float* bias, float* c) {
  constexpr size_t kPairs = kTileDepth / 2;
  const size_t whole = pairs / kPairs, left = pairs % kPairs;
  const uint16_t* b = reinterpret_cast<const uint16_t*>(panel);
  MultiplyTileRows({a, lda, b, 2 * pairs * kBrainColumns, c, bias, panels, whole});
  for (size_t i = 0; i < panels && left != 0; ++i) {
    alignas(64) uint32_t last[kPairs * kBrainColumns] = {};
    std::copy_n(panel + (i * pairs + whole * kPairs) * kBrainColumns, left * kBrainColumns, last);
    TileProduct p = {};
    p.a = a + whole * kTileDepth;
    p.lda = lda;
    p.b = reinterpret_cast<const uint16_t*>(last);
    p.ldb = 2 * kBrainColumns;
    p.c = c + i * kBrainColumns;
    p.ldc = kPair;
    p.row_tiles = p.depth_tiles = 1;
    p.column_tiles = kBrainColumns / kTileColumns;
    p.accumulate = true;
    MultiplyTiles(p);
  }
}

}  // namespace

void RunBrainRow(const BrainGemm& g, const uint16_t* a, const Threads& threads,
                 FunctionRef<void(const BrainBlock&)> store) {
  using RowFn = void (*)(const uint16_t*, size_t, const uint32_t*, float*);
  constexpr RowFn kRow[] = {MultiplyRow<1>, MultiplyRow<2>, MultiplyRow<3>, MultiplyRow<4>};
  const size_t pairs = (g.k + 1) / 2;
  ForRowPanels(g.k, g.n, threads, [&](size_t first, size_t end) {
    alignas(64) float c[kRowPanels * kBrainColumns];
    for (size_t p = first; p < end; p += kRowPanels) {
      const size_t count = std::min(kRowPanels, end - p), n0 = p * kBrainColumns;
      const size_t columns = std::min(count * kBrainColumns, g.n - n0);
      Begin(g, n0, count, c);
      kRow[count - 1](a, pairs, g.packed + p * pairs * kBrainColumns, c);
      store({0, 1, n0, columns, c, columns});
    }
  });
}

void RunBrainTileRows(const BrainGemm& g, const uint16_t* a, size_t lda, const Threads& threads,
                      FunctionRef<void(const BrainBlock&)> store) {
  const size_t pairs = (g.k + 1) / 2;
  ForRowPanels(g.k, g.n, threads, [&](size_t first, size_t end) {
    const TileScope scope(g.m);
    alignas(64) float c[kTileRows * kPair], from[kPair];
    for (size_t p = first; p < end; p += 2) {
      const size_t count = std::min<size_t>(2, end - p), n0 = p * kBrainColumns;
      Begin(g, n0, count, from);
      MultiplyTwo(a, lda, g.packed + p * pairs * kBrainColumns, count, pairs, from, c);
      store({0, g.m, n0, std::min(count * kBrainColumns, g.n - n0), c, kPair});
    }
  });
}

}  // namespace qnnrt

#endif
