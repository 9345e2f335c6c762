// Products of BFLOAT_16 with sums in FLOAT_32 on a processor's matrix tiles (AMX), some of them
// with vectors, too (AVX512-BF16), for kernels that hold what lies between two products in a cache.
// Single products are oneDNN's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/threads.h"

// Compilers that know the instructions: gcc 11, clang 12.
#if defined(__x86_64__) && defined(__linux__) && \
    (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define QNNRT_TILES 1
#endif

namespace qnnrt {

// Whether this processor has tiles and the system lets this process use them. QNNRT_ISA in the
// environment, with whatever set (isa.h), leaves them out.
bool HasTiles();
// Whether PackTiles and MultiplyTiles are there: on tiles, or as large products of vectors.
bool HasTileProducts();

constexpr size_t kTileRows = 16;                          // of operands A and of results
constexpr size_t kTileColumns = 16;                       // of operands B and of results
constexpr size_t kTileDepth = 32;                         // of operands
constexpr size_t kTileElements = kTileRows * kTileDepth;  // of an operand, 1 KiB

constexpr size_t kLine = 64;  // bytes of a cache's line

inline size_t TilesOf(size_t count, size_t size) { return (count + size - 1) / size; }

// While it lives, the thread's tiles are set up for MultiplyTiles, those of A and of results with
// so many rows. Nothing is done without tiles.
class TileScope {
 public:
  explicit TileScope(size_t rows = kTileRows);
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

// B[k, n] = data[k * row_stride + n * column_stride]
struct NarrowMatrix {
  const uint16_t* data;
  size_t row_stride, column_stride;
};

// B[depth, columns] as MultiplyTiles takes it: for each 16 columns the tiles of 32 rows, each with
// two rows side by side, filled up with zeros: `tiles` of them.
void PackTiles(const NarrowMatrix& b, size_t depth, size_t columns, size_t depth_tiles,
               size_t column_tiles, uint16_t* packed);

// C = A x B, in whole tiles. Only where HasTileProducts.
struct TileProduct {
  const uint16_t* a;
  size_t lda;
  const uint16_t* b;  // PackTiles, or as `ldb` says
  float* c;
  size_t ldc;
  size_t row_tiles;  // 1 or 2
  size_t column_tiles, depth_tiles;
  // From two rows of B, side by side, to the next two: the tiles of columns lie beside each other
  // then. 0: one behind the other.
  size_t ldb = 0;
  // What is read next, fetched into the second cache meanwhile: so many lines for each tile of the
  // depth.
  const void* ahead = nullptr;
  size_t ahead_lines = 0;
  // B comes by once before A is read again: it leaves A its place in the first cache.
  bool b_passes = false;
  bool accumulate = false;      // add to what C holds
  const float* bias = nullptr;  // else what the sums begin with, a value for each column; null: 0
  // Called with 0, 1, ... while tiles are multiplied, `pieces` times, at most depth_tiles: what is
  // to be done with earlier results, in instructions that the tiles leave free.
  const FunctionRef<void(size_t)>* meanwhile = nullptr;
  size_t pieces = 0;
};
void MultiplyTiles(const TileProduct& p);

// Up to kTileRows rows, as TileScope has them, times two panels of two tiles of columns. Only where
// HasTiles, as the next one.
struct TileRows {
  const uint16_t* a;
  size_t lda;
  const uint16_t* b;  // as TileProduct has it with `ldb` of two tiles of columns
  size_t panel;       // elements from one panel to the next
  float* c;           // four tiles of columns from row to row
  const float* bias;  // of as many columns
  size_t panels, depth_tiles;
};
void MultiplyTileRows(const TileRows& p);

// C = bias + the sum over taps of A_tap x B_tap, of one tile of columns.
struct TileTaps {
  const uint16_t* const* a;  // of each tap, its first row
  size_t lda;
  const uint16_t* b;  // PackTiles of each tap, one behind the other
  size_t taps, depth_tiles;
  const float* bias;  // kTileColumns values
  float* c;
  size_t ldc;
  size_t row_tiles;  // 1 to kMostTapRows
};
constexpr size_t kMostTapRows = 4;
void MultiplyTaps(const TileTaps& p);

}  // namespace qnnrt
