#include "ops/gemm.h"

namespace qnnrt {

std::string PanelLayout(const std::string& op, size_t k, size_t n) {
  return op + " " + std::to_string(k) + "x" + std::to_string(n) + " in panels of " +
         std::to_string(Simd().columns);
}

size_t PackedPanels(size_t n) { return (n + Simd().columns - 1) / Simd().columns; }

size_t PackedFloats(size_t k, size_t n) { return PackedPanels(n) * Simd().columns * k; }

void PackPanels(const MatrixView& b, size_t k, size_t n, size_t first_panel, size_t last_panel,
                float* packed) {
  // A few rows of B at a time, across all panels: pages and cache lines are used up when visited.
  constexpr size_t kBlock = 16;
  const size_t nr = Simd().columns;
  for (size_t i0 = 0; i0 < k; i0 += kBlock) {
    const size_t i1 = std::min(k, i0 + kBlock);
    for (size_t p = first_panel; p < last_panel; ++p) {
      const size_t n0 = p * nr, columns = std::min(nr, n - n0);
      float* out = packed + (p * k + i0) * nr;
      const float* in = b.data + n0 * b.column_stride;
      if (b.column_stride == 1) {
        for (size_t i = i0; i < i1; ++i, out += nr) {
          std::memcpy(out, in + i * b.row_stride, columns * sizeof(float));
          for (size_t j = columns; j < nr; ++j) out[j] = 0.0f;
        }
        continue;
      }
      for (size_t j = 0; j < nr; ++j) {
        const float* column = in + (j < columns ? j : 0) * b.column_stride;
        for (size_t i = i0; i < i1; ++i) {
          out[(i - i0) * nr + j] = j < columns ? column[i * b.row_stride] : 0.0f;
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
  constexpr size_t kMostTiles = 16;  // rows of a unit: their outputs and a depth block stay in L2
  const size_t mr = Simd().rows, nr = Simd().columns;
  const size_t tiles = (shape.m + mr - 1) / mr;
  const size_t panels = PackedPanels(shape.n);
  const size_t k = std::max<size_t>(1, shape.taps * shape.depth);
  GemmUnits units{};
  units.row_units = (tiles + kMostTiles - 1) / kMostTiles;
  units.panel_units = panels == 0 ? 0 : 1;
  if (threads > 1 && tiles != 0 && panels != 0) {
    // A cut across the rows makes every part read all of B again, one across the columns all of A:
    // first cut what costs less, then the other.
    const size_t pieces = static_cast<size_t>(threads) * 4;
    if (shape.n > shape.m) {
      units.panel_units = std::min(panels, pieces);
      units.row_units = std::max(units.row_units, std::min(tiles, pieces / units.panel_units));
    } else {
      units.row_units = std::max(units.row_units, std::min(tiles, pieces));
      units.panel_units = std::min(panels, std::max<size_t>(1, pieces / units.row_units));
    }
  }
  const auto share = [](size_t all, size_t parts) {
    return parts == 0 ? 1 : (all + parts - 1) / parts;
  };
  const size_t tiles_per_unit = share(tiles, units.row_units);
  units.rows_per_unit = tiles_per_unit * mr;
  units.row_units = share(tiles, tiles_per_unit);
  units.panels_per_unit = share(panels, units.panel_units);
  units.panel_units = share(panels, units.panels_per_unit);
  // About 20 microseconds of one core are worth waking another for.
  constexpr double kWorthwhile = 512.0 * 1024.0;
  // With few rows, fetching B takes longer than multiplying by it.
  constexpr size_t kLeastRows = 8;
  const size_t rows = std::max(kLeastRows, std::min(shape.m, units.rows_per_unit));
  const double unit_work = static_cast<double>(rows) *
                           static_cast<double>(units.panels_per_unit * nr) * static_cast<double>(k);
  units.grain = static_cast<size_t>(std::clamp(kWorthwhile / std::max(1.0, unit_work), 1.0, 1e6));
  return units;
}

}  // namespace qnnrt
