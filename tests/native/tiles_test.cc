// The products on matrix tiles, with tiles in plain C++: on any x86 processor. Those with vectors
// where there are such.
#if defined(__x86_64__)
#include "tile_emulation.h"

#define qnnrt emulated_tiles  // beside the library's own
#include "ops/tiles.cc"
#undef qnnrt

#include <vector>

#include "check.h"

namespace {

using namespace emulated_tiles;

// Small integers: sums in any order are equal.
uint16_t Brain(int value) {
  const float f = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}
int At(size_t i, size_t j, int seed) {
  return static_cast<int>((i * 7 + j * 13 + static_cast<size_t>(seed)) % 9) - 4;
}
// A[m, k] x B[k, n] of the two, for one element.
float Sum(size_t m, size_t n, size_t depth) {
  int sum = 0;
  for (size_t k = 0; k < depth; ++k) sum += At(m, k, 1) * At(k, n, 5);
  return static_cast<float>(sum);
}

void ColumnsBesideEachOtherAndOneBehindTheOther(void (*multiply)(const TileProduct&)) {
  constexpr size_t kDepth = 96, kColumns = 48;
  for (const bool beside : {false, true}) {
    for (size_t row_tiles = 1; row_tiles <= 2; ++row_tiles) {
      for (size_t column_tiles = 1; column_tiles <= 3; ++column_tiles) {
        std::vector<uint16_t> a(row_tiles * kTileRows * kDepth), b(kDepth * kColumns);
        for (size_t m = 0; m < row_tiles * kTileRows; ++m) {
          for (size_t k = 0; k < kDepth; ++k) a[m * kDepth + k] = Brain(At(m, k, 1));
        }
        for (size_t k = 0; k < kDepth; ++k) {
          for (size_t n = 0; n < kColumns; ++n) {
            const size_t one_row = k / 2 * 2 * kColumns + 2 * n + k % 2;
            const size_t tile = n / kTileColumns * (kDepth / kTileDepth) + k / kTileDepth;
            const size_t in_tile =
                k % kTileDepth / 2 * 2 * kTileColumns + 2 * (n % kTileColumns) + k % 2;
            b[beside ? one_row : tile * kTileElements + in_tile] = Brain(At(k, n, 5));
          }
        }
        std::vector<float> c(row_tiles * kTileRows * kColumns, 1.0f), bias(kColumns);
        for (size_t n = 0; n < kColumns; ++n) bias[n] = static_cast<float>(n);
        TileProduct p = {};
        p.a = a.data();
        p.lda = kDepth;
        p.b = b.data();
        p.ldb = beside ? 2 * kColumns : 0;
        p.c = c.data();
        p.ldc = kColumns;
        p.row_tiles = row_tiles;
        p.column_tiles = column_tiles;
        p.depth_tiles = kDepth / kTileDepth;
        multiply(p);
        p.accumulate = p.b_passes = true;  // twice the product then
        multiply(p);
        std::vector<float> biased(c.size(), 1.0f);
        p.c = biased.data();
        p.accumulate = false;
        p.bias = bias.data();
        multiply(p);
        for (size_t m = 0; m < row_tiles * kTileRows; ++m) {
          for (size_t n = 0; n < kColumns; ++n) {
            const bool computed = n < column_tiles * kTileColumns;
            const float sum = Sum(m, n, kDepth);
            CHECK_EQ(c[m * kColumns + n], computed ? 2 * sum : 1.0f);
            CHECK_EQ(biased[m * kColumns + n], computed ? bias[n] + sum : 1.0f);
          }
        }
      }
    }
  }
}

TEST(ColumnsOnTiles) { ColumnsBesideEachOtherAndOneBehindTheOther(MultiplyOnTiles); }
TEST(ColumnsInVectors) {
  if (HasTileProducts()) ColumnsBesideEachOtherAndOneBehindTheOther(MultiplyVectors);
}

TEST(Taps) {
  constexpr size_t kTaps = 3, kDepth = 32;
  std::vector<uint16_t> a(kMostTapRows * kTileRows * kTaps * kDepth), b(kTaps * kTileElements);
  for (size_t m = 0; m < kMostTapRows * kTileRows; ++m) {
    for (size_t k = 0; k < kTaps * kDepth; ++k) a[m * kTaps * kDepth + k] = Brain(At(m, k, 1));
  }
  for (size_t k = 0; k < kTaps * kDepth; ++k) {
    for (size_t n = 0; n < kTileColumns; ++n)
      b[k / 2 * 2 * kTileColumns + 2 * n + k % 2] = Brain(At(k, n, 5));
  }
  std::vector<float> bias(kTileColumns);
  for (size_t n = 0; n < kTileColumns; ++n) bias[n] = static_cast<float>(n);
  const uint16_t* taps[kTaps] = {a.data(), a.data() + kDepth, a.data() + 2 * kDepth};
  for (size_t tiles = 1; tiles <= kMostTapRows; ++tiles) {
    std::vector<float> c(kMostTapRows * kTileRows * kTileColumns, -1.0f);
    MultiplyTaps(
        {taps, kTaps * kDepth, b.data(), kTaps, 1, bias.data(), c.data(), kTileColumns, tiles});
    for (size_t m = 0; m < kMostTapRows * kTileRows; ++m) {
      for (size_t n = 0; n < kTileColumns; ++n) {
        const float wanted = m < tiles * kTileRows ? bias[n] + Sum(m, n, kTaps * kDepth) : -1.0f;
        CHECK_EQ(c[m * kTileColumns + n], wanted);
      }
    }
  }
}

}  // namespace
#else
#include "check.h"
#endif

CHECK_MAIN("tiles_test")
