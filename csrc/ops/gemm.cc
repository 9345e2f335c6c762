#include "ops/gemm.h"

namespace qnnrt {

size_t PackedPanels(size_t n) { return (n + Simd().columns - 1) / Simd().columns; }

size_t PackedFloats(size_t k, size_t n) { return PackedPanels(n) * Simd().columns * k; }

void PackPanels(const MatrixView& b, size_t k, size_t n, size_t first_panel, size_t last_panel,
                float* packed) {
  const size_t nr = Simd().columns;
  for (size_t p = first_panel; p < last_panel; ++p) {
    const size_t n0 = p * nr, columns = std::min(nr, n - n0);
    float* out = packed + p * nr * k;
    const float* in = b.data + n0 * b.column_stride;
    if (b.column_stride == 1) {
      for (size_t i = 0; i < k; ++i, out += nr) {
        std::memcpy(out, in + i * b.row_stride, columns * sizeof(float));
        for (size_t j = columns; j < nr; ++j) out[j] = 0.0f;
      }
    } else {
      // Blocks of k, so that the columns' cache lines are still there for their next values.
      constexpr size_t kBlock = 16;
      for (size_t i0 = 0; i0 < k; i0 += kBlock) {
        const size_t i1 = std::min(k, i0 + kBlock);
        for (size_t j = 0; j < nr; ++j) {
          const float* column = in + (j < columns ? j : 0) * b.column_stride;
          for (size_t i = i0; i < i1; ++i) {
            out[i * nr + j] = j < columns ? column[i * b.row_stride] : 0.0f;
          }
        }
      }
    }
  }
}

void PackAll(const MatrixView& b, size_t k, size_t n, float* packed, const Threads& threads) {
  const size_t floats = k * Simd().columns;
  const size_t grain = std::max<size_t>(1, 16384 / std::max<size_t>(1, floats));
  threads.For(PackedPanels(n), grain,
              [&](size_t begin, size_t end) { PackPanels(b, k, n, begin, end, packed); });
}

GemmUnits CutGemm(const GemmShape& shape, int threads) {
  const size_t mr = Simd().rows, nr = Simd().columns;
  const size_t tiles = (shape.m + mr - 1) / mr;
  const size_t panels = PackedPanels(shape.n);
  const size_t k = std::max<size_t>(1, shape.taps * shape.depth);
  // Rows stay in L2 with their output while all panels pass by.
  constexpr size_t kCacheFloats = 96 * 1024;
  size_t tiles_per_unit = std::clamp<size_t>(kCacheFloats / (mr * (k + shape.n)), 1, 16);
  size_t panels_per_unit = panels;
  const size_t pieces = threads > 1 ? static_cast<size_t>(threads) * 4 : 1;
  tiles_per_unit = std::min(tiles_per_unit, std::max<size_t>(1, tiles / pieces));
  size_t row_units = (tiles + tiles_per_unit - 1) / tiles_per_unit;
  if (threads > 1 && row_units < pieces && panels > 1) {
    const size_t wanted =
        std::min(panels, (pieces + row_units - 1) / std::max<size_t>(1, row_units));
    panels_per_unit = (panels + wanted - 1) / wanted;
  }
  GemmUnits units{};
  units.rows_per_unit = tiles_per_unit * mr;
  units.panels_per_unit = std::max<size_t>(1, panels_per_unit);
  units.row_units = row_units;
  units.panel_units = (panels + units.panels_per_unit - 1) / units.panels_per_unit;
  // About 20 microseconds of one core are worth waking another for.
  constexpr double kWorthwhile = 512.0 * 1024.0;
  const double unit_work = static_cast<double>(std::min(shape.m, units.rows_per_unit)) *
                           static_cast<double>(units.panels_per_unit * nr) * static_cast<double>(k);
  units.grain = static_cast<size_t>(std::clamp(kWorthwhile / std::max(1.0, unit_work), 1.0, 1e6));
  return units;
}

}  // namespace qnnrt
