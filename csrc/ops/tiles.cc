#include "ops/tiles.h"

#include "ops/isa.h"

#ifdef QNNRT_TILES
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#endif

namespace qnnrt {

#ifdef QNNRT_TILES

namespace {

bool Tiles() {
  unsigned a, b, c, d;
  if (!CpuRoundsBrains() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d >> 22 & 1) == 0 || (d >> 24 & 1) == 0) return false;  // AMX-BF16, AMX-TILE
  // The state is large: Linux has a process ask for it.
  constexpr long kAskForState = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

#define QNNRT_AMX __attribute__((target("amx-tile,amx-bf16")))
#define QNNRT_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

__mmask32 First32(size_t count) {
  return count >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((uint32_t{1} << count) - 1);
}
__mmask16 First16(size_t count) {
  return count >= 16 ? static_cast<__mmask16>(0xffff)
                     : static_cast<__mmask16>((uint32_t{1} << count) - 1);
}

// Columns whose elements lie side by side: a tile is its 16 columns, as pairs, transposed. Each of
// four rounds interleaves the halves of the rows, which turns the bits of (row, column) by one.
QNNRT_AVX512 void PackColumns(const uint16_t* from, size_t stride, size_t depth, size_t columns,
                              uint16_t* to) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high =
      _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
  __m512i x[kTileColumns], y[kTileColumns];
  for (size_t n = 0; n < kTileColumns; ++n) {
    const size_t count = n < columns ? depth : 0;
    x[n] = _mm512_maskz_loadu_epi16(First32(count), from + (count == 0 ? 0 : n * stride));
  }
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < 8; ++i) {
      y[2 * i] = _mm512_permutex2var_epi32(x[i], low, x[i + 8]);
      y[2 * i + 1] = _mm512_permutex2var_epi32(x[i], high, x[i + 8]);
    }
    for (size_t i = 0; i < 16; ++i) x[i] = y[i];
  }
  for (size_t i = 0; i < 16; ++i) _mm512_storeu_si512(to + 32 * i, x[i]);
}

// Rows whose elements lie side by side.
QNNRT_AVX512 void PackRows(const uint16_t* from, size_t stride, size_t depth, size_t columns,
                           uint16_t* to) {
  const __mmask16 left = First16(columns);
  for (size_t k = 0; k < kTileDepth; k += 2, to += 2 * kTileColumns) {
    const __mmask16 even = k < depth ? left : __mmask16{0};
    const __mmask16 odd = k + 1 < depth ? left : __mmask16{0};
    const __m256i a = _mm256_maskz_loadu_epi16(even, from + (even == 0 ? 0 : k * stride));
    const __m256i b = _mm256_maskz_loadu_epi16(odd, from + (odd == 0 ? 0 : (k + 1) * stride));
    const __m512i wide = _mm512_maskz_slli_epi32(odd, _mm512_maskz_cvtepu16_epi32(odd, b), 16);
    _mm512_storeu_si512(to, _mm512_or_si512(wide, _mm512_maskz_cvtepu16_epi32(even, a)));
  }
}

void PackAny(const NarrowMatrix& b, size_t depth, size_t columns, uint16_t* to) {
  for (size_t k = 0; k < kTileDepth; ++k) {
    for (size_t n = 0; n < kTileColumns; ++n) {
      const bool inside = k < depth && n < columns;
      to[k / 2 * 2 * kTileColumns + 2 * n + k % 2] =
          inside ? b.data[k * b.row_stride + n * b.column_stride] : uint16_t{0};
    }
  }
}

// What the compiler knows of memory has to be true before tiles are read and after they are stored.
inline void MemoryBarrier() { asm volatile("" ::: "memory"); }

// The instructions take a tile's number as a constant.
#define QNNRT_LOAD_B(tile, from, stride)    \
  if constexpr (kPasses) {                  \
    _tile_stream_loadd(tile, from, stride); \
  } else {                                  \
    _tile_loadd(tile, from, stride);        \
  }

// Two tiles of columns, or one, of as many rows.
template <int kRowTiles, int kColumnTiles, bool kPasses>
QNNRT_AMX void Block(const TileProduct& p, const uint16_t* b, float* c) {
  const size_t lda = p.lda * sizeof(uint16_t), ldc = p.ldc * sizeof(float);
  const size_t pairs = p.ldb != 0 ? p.ldb : 2 * kTileColumns, ldb = pairs * sizeof(uint16_t);
  const size_t next = p.ldb != 0 ? 2 * kTileColumns : p.depth_tiles * kTileElements;  // column tile
  if (p.accumulate) {
    _tile_loadd(0, c, ldc);
    if constexpr (kColumnTiles > 1) _tile_loadd(1, c + kTileColumns, ldc);
    if constexpr (kRowTiles > 1) {
      _tile_loadd(2, c + kTileRows * p.ldc, ldc);
      if constexpr (kColumnTiles > 1) _tile_loadd(3, c + kTileRows * p.ldc + kTileColumns, ldc);
    }
  } else if (p.bias != nullptr) {
    const float* bias = p.bias + (c - p.c);
    _tile_loadd(0, bias, 0);  // one row, sixteen times
    if constexpr (kColumnTiles > 1) _tile_loadd(1, bias + kTileColumns, 0);
    if constexpr (kRowTiles > 1) {
      _tile_loadd(2, bias, 0);
      if constexpr (kColumnTiles > 1) _tile_loadd(3, bias + kTileColumns, 0);
    }
  } else {
    _tile_zero(0);
    if constexpr (kColumnTiles > 1) _tile_zero(1);
    if constexpr (kRowTiles > 1) _tile_zero(2);
    if constexpr (kRowTiles > 1 && kColumnTiles > 1) _tile_zero(3);
  }
  const uint16_t* a = p.a;
  const char* ahead = static_cast<const char*>(p.ahead);
  size_t piece = 0;
  for (size_t k = 0; k < p.depth_tiles; ++k, a += kTileDepth, b += kTileDepth / 2 * pairs) {
    _tile_loadd(4, a, lda);
    QNNRT_LOAD_B(6, b, ldb);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kRowTiles > 1) {
      _tile_loadd(5, a + kTileRows * p.lda, lda);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kColumnTiles > 1) {
      QNNRT_LOAD_B(7, b + next, ldb);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (kRowTiles > 1) _tile_dpbf16ps(3, 5, 7);
    }
    for (size_t i = 0; i < p.ahead_lines; ++i, ahead += kLine) _mm_prefetch(ahead, _MM_HINT_T1);
    if (piece < p.pieces && (k + 1) * p.pieces > piece * p.depth_tiles) (*p.meanwhile)(piece++);
  }
  _tile_stored(0, c, ldc);
  if constexpr (kColumnTiles > 1) _tile_stored(1, c + kTileColumns, ldc);
  if constexpr (kRowTiles > 1) {
    _tile_stored(2, c + kTileRows * p.ldc, ldc);
    if constexpr (kColumnTiles > 1) _tile_stored(3, c + kTileRows * p.ldc + kTileColumns, ldc);
  }
}

template <int kRowTiles, bool kPasses>
void Multiply(const TileProduct& p) {
  const size_t panel = p.ldb != 0 ? 2 * kTileColumns : p.depth_tiles * kTileElements;
  size_t j = 0;
  for (; j + 2 <= p.column_tiles; j += 2) {
    Block<kRowTiles, 2, kPasses>(p, p.b + j * panel, p.c + j * kTileColumns);
  }
  if (j < p.column_tiles) Block<kRowTiles, 1, kPasses>(p, p.b + j * panel, p.c + j * kTileColumns);
}

void MultiplyOnTiles(const TileProduct& p) {
  MemoryBarrier();
  if (p.b_passes) {
    p.row_tiles > 1 ? Multiply<2, true>(p) : Multiply<1, true>(p);
  } else {
    p.row_tiles > 1 ? Multiply<2, false>(p) : Multiply<1, false>(p);
  }
  MemoryBarrier();
}

// ---- the same with vectors: a register has the sums of a row in a tile of columns ----

#define QNNRT_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

// kR rows from `row` on by kV tiles of columns from `column` on.
template <size_t kR, size_t kV>
QNNRT_BF16 void VectorRows(const TileProduct& p, size_t row, size_t column) {
  const size_t pairs = p.ldb != 0 ? p.ldb : 2 * kTileColumns;
  const size_t panel = p.ldb != 0 ? 2 * kTileColumns : p.depth_tiles * kTileElements;
  float* const c = p.c + row * p.ldc + column * kTileColumns;
  __m512 sum[kR][kV];
#pragma GCC unroll 12
  for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) {
      if (p.accumulate) {
        sum[i][v] = _mm512_loadu_ps(c + i * p.ldc + v * kTileColumns);
      } else if (p.bias != nullptr) {
        sum[i][v] = _mm512_loadu_ps(p.bias + (column + v) * kTileColumns);
      } else {
        sum[i][v] = _mm512_setzero_ps();
      }
    }
  }
  const uint16_t* a[kR];
#pragma GCC unroll 12
  for (size_t i = 0; i < kR; ++i) a[i] = p.a + (row + i) * p.lda;
  const uint16_t* b = p.b + column * panel;
  for (size_t k = 0; k < p.depth_tiles * kTileDepth; k += 2, b += pairs) {
    __m512bh two[kV];
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) two[v] = (__m512bh)_mm512_loadu_si512(b + v * panel);
#pragma GCC unroll 12
    for (size_t i = 0; i < kR; ++i) {
      int x;
      __builtin_memcpy(&x, a[i] + k, sizeof(x));
      const __m512bh both = (__m512bh)_mm512_set1_epi32(x);
#pragma GCC unroll 2
      for (size_t v = 0; v < kV; ++v) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], both, two[v]);
    }
  }
#pragma GCC unroll 12
  for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kV; ++v) _mm512_storeu_ps(c + i * p.ldc + v * kTileColumns, sum[i][v]);
  }
}

// Two tiles of rows are 11, 11 and 10 rows, one is twice 8: their sums by two tiles of columns fit
// the registers.
template <size_t kV>
void VectorBlock(const TileProduct& p, size_t column) {
  if (p.row_tiles > 1) {
    VectorRows<11, kV>(p, 0, column);
    VectorRows<11, kV>(p, 11, column);
    VectorRows<10, kV>(p, 22, column);
  } else {
    VectorRows<8, kV>(p, 0, column);
    VectorRows<8, kV>(p, 8, column);
  }
}

void MultiplyVectors(const TileProduct& p) {
  size_t j = 0;
  for (; j + 2 <= p.column_tiles; j += 2) VectorBlock<2>(p, j);
  if (j < p.column_tiles) VectorBlock<1>(p, j);
  for (size_t piece = 0; piece < p.pieces; ++piece) (*p.meanwhile)(piece);
}

template <int kRowTiles>
QNNRT_AMX void Taps(const TileTaps& p) {
  const size_t lda = p.lda * sizeof(uint16_t), ldc = p.ldc * sizeof(float);
  _tile_loadd(0, p.bias, 0);  // one row, sixteen times
  if constexpr (kRowTiles > 1) _tile_loadd(1, p.bias, 0);
  if constexpr (kRowTiles > 2) _tile_loadd(2, p.bias, 0);
  if constexpr (kRowTiles > 3) _tile_loadd(3, p.bias, 0);
  const size_t tile = kTileRows * p.lda;
  const uint16_t* b = p.b;
  for (size_t tap = 0; tap < p.taps; ++tap) {
    for (size_t k = 0; k < p.depth_tiles; ++k, b += kTileElements) {
      const uint16_t* a = p.a[tap] + k * kTileDepth;
      _tile_loadd(6, b, 64);
      _tile_loadd(4, a, lda);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (kRowTiles > 1) {
        _tile_loadd(5, a + tile, lda);
        _tile_dpbf16ps(1, 5, 6);
      }
      if constexpr (kRowTiles > 2) {
        _tile_loadd(4, a + 2 * tile, lda);
        _tile_dpbf16ps(2, 4, 6);
      }
      if constexpr (kRowTiles > 3) {
        _tile_loadd(5, a + 3 * tile, lda);
        _tile_dpbf16ps(3, 5, 6);
      }
    }
  }
  _tile_stored(0, p.c, ldc);
  if constexpr (kRowTiles > 1) _tile_stored(1, p.c + kTileRows * p.ldc, ldc);
  if constexpr (kRowTiles > 2) _tile_stored(2, p.c + 2 * kTileRows * p.ldc, ldc);
  if constexpr (kRowTiles > 3) _tile_stored(3, p.c + 3 * kTileRows * p.ldc, ldc);
}

// Without fetching ahead: from a second cache that takes longer. B, which comes by once, leaves A
// its place in the first one.
template <int kPanels>
QNNRT_AMX void Rows(const TileRows& p) {
  constexpr size_t kLdb = 4 * kTileColumns * sizeof(uint16_t),
                   kLdc = 4 * kTileColumns * sizeof(float);
  const size_t lda = p.lda * sizeof(uint16_t);
  _tile_loadd(0, p.bias, 0);
  _tile_loadd(1, p.bias + kTileColumns, 0);
  if constexpr (kPanels > 1) {
    _tile_loadd(2, p.bias + 2 * kTileColumns, 0);
    _tile_loadd(3, p.bias + 3 * kTileColumns, 0);
  }
  const uint16_t *a = p.a, *b = p.b;
  for (size_t k = 0; k < p.depth_tiles; ++k, a += kTileDepth, b += 2 * kTileElements) {
    _tile_loadd(4, a, lda);
    _tile_stream_loadd(6, b, kLdb);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stream_loadd(7, b + 2 * kTileColumns, kLdb);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kPanels > 1) {
      _tile_stream_loadd(6, b + p.panel, kLdb);
      _tile_dpbf16ps(2, 4, 6);
      _tile_stream_loadd(7, b + p.panel + 2 * kTileColumns, kLdb);
      _tile_dpbf16ps(3, 4, 7);
    }
  }
  _tile_stored(0, p.c, kLdc);
  _tile_stored(1, p.c + kTileColumns, kLdc);
  if constexpr (kPanels > 1) {
    _tile_stored(2, p.c + 2 * kTileColumns, kLdc);
    _tile_stored(3, p.c + 3 * kTileColumns, kLdc);
  }
}

QNNRT_AMX void Configure(size_t rows) {
  TileConfig config;
  for (size_t i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = static_cast<uint8_t>(i < 6 ? rows : kTileRows);
  }
  MemoryBarrier();
  _tile_loadconfig(&config);
}
QNNRT_AMX void Release() { _tile_release(); }

}  // namespace

bool HasTiles() {
  static const bool has = Tiles();
  return has;
}

bool HasTileProducts() { return CpuRoundsBrains(); }

TileScope::TileScope(size_t rows) {
  if (HasTiles()) Configure(rows);
}
TileScope::~TileScope() {
  if (HasTiles()) Release();
}

void PackTiles(const NarrowMatrix& b, size_t depth, size_t columns, size_t depth_tiles,
               size_t column_tiles, uint16_t* packed) {
  for (size_t j = 0; j < column_tiles; ++j) {
    const size_t n = std::min(columns, j * kTileColumns);
    for (size_t i = 0; i < depth_tiles; ++i, packed += kTileElements) {
      const size_t k = std::min(depth, i * kTileDepth);
      const NarrowMatrix tile = {b.data + k * b.row_stride + n * b.column_stride, b.row_stride,
                                 b.column_stride};
      const size_t rows = std::min(kTileDepth, depth - k);
      const size_t wide = rows == 0 ? 0 : std::min(kTileColumns, columns - n);
      if (b.row_stride == 1) {
        PackColumns(tile.data, b.column_stride, rows, wide, packed);
      } else if (b.column_stride == 1) {
        PackRows(tile.data, b.row_stride, rows, wide, packed);
      } else {
        PackAny(tile, rows, wide, packed);
      }
    }
  }
}

void MultiplyTiles(const TileProduct& p) { HasTiles() ? MultiplyOnTiles(p) : MultiplyVectors(p); }

void MultiplyTileRows(const TileRows& p) {
  MemoryBarrier();
  p.panels > 1 ? Rows<2>(p) : Rows<1>(p);
  MemoryBarrier();
}

void MultiplyTaps(const TileTaps& p) {
  MemoryBarrier();
  switch (p.row_tiles) {
    case 1:
      Taps<1>(p);
      break;
    case 2:
      Taps<2>(p);
      break;
    case 3:
      Taps<3>(p);
      break;
    default:
      Taps<4>(p);
  }
  MemoryBarrier();
}

#else

bool HasTiles() { return false; }
bool HasTileProducts() { return false; }
TileScope::TileScope(size_t) {}
TileScope::~TileScope() {}
void PackTiles(const NarrowMatrix&, size_t, size_t, size_t, size_t, uint16_t*) {}
void MultiplyTiles(const TileProduct&) {}
void MultiplyTileRows(const TileRows&) {}
void MultiplyTaps(const TileTaps&) {}

#endif

}  // namespace qnnrt
