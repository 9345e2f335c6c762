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

// Some panels. kFetches: their weights are fetched into the first cache. kHalves: by a row that is
// the sum of two, one behind the other.
template <size_t kPanels, bool kFetches, bool kHalves>
QNNRT_BF16 void MultiplyRow(const uint16_t* a, size_t pairs, const uint32_t* b, float* c) {
  constexpr size_t kAhead = 4;    // pairs of rows
  constexpr size_t kBlock = 128;  // pairs with a sum of their own: fewer roundings of a large one
  const size_t panel = pairs * kBrainColumns;
  __m512 total[kPanels][2] = {};
  for (size_t k0 = 0; k0 < pairs; k0 += kBlock) {
    __m512 sum[kPanels][2] = {}, low[kPanels][2] = {};
    const size_t end = std::min(pairs, k0 + kBlock);
    for (size_t k = k0; k < end; ++k, b += kBrainColumns) {
      int x;
      std::memcpy(&x, a + 2 * k, sizeof(x));
      const __m512bh both = (__m512bh)_mm512_set1_epi32(x);
      if constexpr (kHalves) std::memcpy(&x, a + 2 * (pairs + k), sizeof(x));
      const __m512bh both_low = (__m512bh)_mm512_set1_epi32(x);
      if constexpr (kFetches) {
        // What comes behind the end of a panel is that of the next ones.
        const size_t past = k + kAhead < pairs ? 0 : (kPanels - 1) * panel;
        const char* next = reinterpret_cast<const char*>(b + past + kAhead * kBrainColumns);
#pragma GCC unroll 4
        for (size_t p = 0; p < kPanels; ++p) {
          _mm_prefetch(next + p * panel * sizeof(*b), _MM_HINT_T0);
          _mm_prefetch(next + p * panel * sizeof(*b) + kLine, _MM_HINT_T0);
        }
      }
#pragma GCC unroll 4
      for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 2
        for (size_t v = 0; v < 2; ++v) {
          const __m512bh row = (__m512bh)_mm512_loadu_si512(b + p * panel + v * kHalf);
          sum[p][v] = _mm512_dpbf16_ps(sum[p][v], both, row);
          if constexpr (kHalves) low[p][v] = _mm512_dpbf16_ps(low[p][v], both_low, row);
        }
      }
    }
#pragma GCC unroll 4
    for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 2
      for (size_t v = 0; v < 2; ++v) {
        if constexpr (kHalves) sum[p][v] = _mm512_add_ps(sum[p][v], low[p][v]);
        total[p][v] = _mm512_add_ps(total[p][v], sum[p][v]);
      }
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

QNNRT_BF16 inline __m512 Even(__m512i pairs) {
  return _mm512_castsi512_ps((__m512i)((__v16su)pairs << 16));
}
QNNRT_BF16 inline __m512 Odd(__m512i pairs) {
  return _mm512_castsi512_ps((__m512i)((__v16su)pairs & 0xffff0000u));
}

// The same with the sums of tiles to the last bit: of a tile's depth the even and the odd products
// have a sum each, and tiles take what is denormal for zero.
template <size_t kPanels>
QNNRT_BF16 void MultiplyRowAsTiles(const uint16_t* a, size_t pairs, const uint32_t* b, float* c) {
  constexpr size_t kAhead = 4, kPairs = kTileDepth / 2;
  constexpr unsigned kNearestWithoutDenormals = 0x9fc0;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(kNearestWithoutDenormals);
  const size_t panel = pairs * kBrainColumns;
  __m512 total[kPanels][2];
#pragma GCC unroll 4
  for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      total[p][v] = _mm512_loadu_ps(c + p * kBrainColumns + v * kHalf);
    }
  }
  for (size_t k0 = 0; k0 < pairs; k0 += kPairs) {
    __m512 even[kPanels][2] = {}, odd[kPanels][2] = {};
    const size_t end = std::min(pairs, k0 + kPairs);
    for (size_t k = k0; k < end; ++k, b += kBrainColumns) {
      int x;
      std::memcpy(&x, a + 2 * k, sizeof(x));
      const __m512i both = _mm512_set1_epi32(x);
      const __m512 first = Even(both), second = Odd(both);
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
          const __m512i row = _mm512_loadu_si512(b + p * panel + v * kHalf);
          even[p][v] = _mm512_fmadd_ps(first, Even(row), even[p][v]);
          odd[p][v] = _mm512_fmadd_ps(second, Odd(row), odd[p][v]);
        }
      }
    }
#pragma GCC unroll 4
    for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 2
      for (size_t v = 0; v < 2; ++v) {
        total[p][v] = _mm512_add_ps(total[p][v], _mm512_add_ps(even[p][v], odd[p][v]));
      }
    }
  }
#pragma GCC unroll 4
  for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      _mm512_storeu_ps(c + p * kBrainColumns + v * kHalf, total[p][v]);
    }
  }
  _mm_setcsr(before);
}

// What the sums of the panels from column n0 on begin with.
void Begin(const BrainGemm& g, size_t n0, size_t panels, float* from) {
  std::fill_n(from, panels * kBrainColumns, 0.0f);
  if (g.bias != nullptr) std::copy_n(g.bias + n0, std::min(panels * kBrainColumns, g.n - n0), from);
}

// As many rows as TileScope has, times two panels or one, into rows of kPair.
void MultiplyTwo(const uint16_t* a, size_t lda, size_t rows, const uint32_t* panel, size_t panels,
                 size_t pairs, const float* bias, float* c) {
  constexpr size_t kPairs = kTileDepth / 2;
  const size_t whole = pairs / kPairs, left = pairs % kPairs;
  const uint16_t* b = reinterpret_cast<const uint16_t*>(panel);
  MultiplyTileRows({a, lda, b, 2 * pairs * kBrainColumns, c, bias, panels, whole});
  for (size_t i = 0; i < panels && left != 0; ++i) {
    const uint32_t* rest = panel + (i * pairs + whole * kPairs) * kBrainColumns;
    if (rows == 1) {
      MultiplyRowAsTiles<1>(a + whole * kTileDepth, left, rest, c + i * kBrainColumns);
      continue;
    }
    alignas(64) uint32_t last[kPairs * kBrainColumns] = {};
    std::copy_n(rest, left * kBrainColumns, last);
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

// run(first, end) for some panels at a time. In as many pieces as threads where each has its part
// of the weights in its core's cache: from another one's they take longer than to wait for it.
void ForPanels(const BrainGemm& g, const Threads& threads, FunctionRef<void(size_t, size_t)> run) {
  constexpr size_t kWorthwhile = 48 * 1024;  // weights worth a thread
  if (!g.tile_rows || !g.own_cache) return ForRowPanels(g.k, g.n, threads, run);
  const size_t panels = PackedPanels(g.n), limit = static_cast<size_t>(threads.limit());
  const size_t most = std::min({limit, panels, g.n * g.k / kWorthwhile});
  const size_t pieces = std::max<size_t>(1, most);
  threads.For(pieces, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) run(i * panels / pieces, (i + 1) * panels / pieces);
  });
}

// For one panel to kRowPanels.
using RowFn = void (*)(const uint16_t*, size_t, const uint32_t*, float*);
template <bool kFetches, bool kHalves>
constexpr RowFn kRowLoops[] = {MultiplyRow<1, kFetches, kHalves>, MultiplyRow<2, kFetches, kHalves>,
                               MultiplyRow<3, kFetches, kHalves>,
                               MultiplyRow<4, kFetches, kHalves>};
constexpr RowFn kRowAsTiles[] = {MultiplyRowAsTiles<1>, MultiplyRowAsTiles<2>,
                                 MultiplyRowAsTiles<3>, MultiplyRowAsTiles<4>};

void RunRow(const BrainGemm& g, const uint16_t* a, const RowFn* row, const Threads& threads,
            FunctionRef<void(const BrainBlock&)> store) {
  const size_t pairs = (g.k + 1) / 2;
  ForPanels(g, threads, [&](size_t first, size_t end) {
    alignas(64) float c[kRowPanels * kBrainColumns];
    for (size_t p = first; p < end; p += kRowPanels) {
      const size_t count = std::min(kRowPanels, end - p), n0 = p * kBrainColumns;
      const size_t columns = std::min(count * kBrainColumns, g.n - n0);
      Begin(g, n0, count, c);
      row[count - 1](a, pairs, g.packed + p * pairs * kBrainColumns, c);
      store({0, 1, n0, columns, c, columns});
    }
  });
}

}  // namespace

void RunBrainRow(const BrainGemm& g, const uint16_t* a, const Threads& threads,
                 FunctionRef<void(const BrainBlock&)> store) {
  RunRow(g, a, FetchesStreams() ? kRowLoops<true, false> : kRowLoops<false, false>, threads, store);
}

void RunBrainHalves(const BrainGemm& g, const uint16_t* a, const Threads& threads,
                    FunctionRef<void(const BrainBlock&)> store) {
  RunRow(g, a, FetchesStreams() ? kRowLoops<true, true> : kRowLoops<false, true>, threads, store);
}

void RunBrainTileRows(const BrainGemm& g, const uint16_t* a, size_t lda, const Threads& threads,
                      FunctionRef<void(const BrainBlock&)> store) {
  if (g.m == 1 && !g.own_cache) return RunRow(g, a, kRowAsTiles, threads, store);
  const size_t pairs = (g.k + 1) / 2;
  // A core's own cache is read fastest front to back, one further away at two places.
  const size_t at_once = g.own_cache ? 1 : 2;
  ForPanels(g, threads, [&](size_t first, size_t end) {
    const TileScope scope(g.m);
    alignas(64) float c[kTileRows * kPair], from[kPair];
    for (size_t p = first; p < end; p += 2) {
      const size_t count = std::min<size_t>(2, end - p), n0 = p * kBrainColumns;
      Begin(g, n0, count, from);
      for (size_t i = 0; i < count; i += at_once) {
        const uint32_t* panel = g.packed + (p + i) * pairs * kBrainColumns;
        const size_t n = i * kBrainColumns;
        MultiplyTwo(a, lda, g.m, panel, std::min(at_once, count - i), pairs, from + n, c + n);
      }
      store({0, g.m, n0, std::min(count * kBrainColumns, g.n - n0), c, kPair});
    }
  });
}

}  // namespace qnnrt

#else

namespace qnnrt {

void RunBrainHalves(const BrainGemm&, const uint16_t*, const Threads&,
                    FunctionRef<void(const BrainBlock&)>) {}

}  // namespace qnnrt

#endif
