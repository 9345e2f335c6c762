#include "ops/gemm.h"

#include "ops/isa.h"
#include "ops/strided_loops.h"

namespace qnnrt {

std::string PanelLayout(const std::string& op, size_t k, size_t n) {
  return op + " " + std::to_string(k) + "x" + std::to_string(n) + " in panels of " +
         std::to_string(Simd().columns);
}

namespace {

// In pieces of a known size, which need no call.
void CopyFloats(const float* from, size_t count, float* to) {
  constexpr size_t kPiece = 16;
  size_t i = 0;
  for (; i + kPiece <= count; i += kPiece) std::memcpy(to + i, from + i, kPiece * sizeof(float));
  for (; i < count; ++i) std::memcpy(to + i, from + i, sizeof(float));
}

// A panel of columns of which each lies in one piece, as weights [N, K] do.
void PackColumns(const MatrixView& b, size_t k, size_t n0, size_t columns, float* out) {
  static const auto transpose = PickIsa<TransposeBand<uint32_t>>();
  const size_t nr = Simd().columns;
  const auto bytes = [](size_t floats) { return static_cast<ptrdiff_t>(floats * sizeof(float)); };
  const float* in = b.data + n0 * b.column_stride;
  if (columns < nr) std::fill(out, out + k * nr, 0.0f);
  for (size_t i = 0; i < k; i += kTile) {
    transpose(reinterpret_cast<const char*>(in + i), bytes(b.column_stride),
              reinterpret_cast<char*>(out + i * nr), bytes(nr), columns, std::min(kTile, k - i));
  }
}

}  // namespace

size_t PackedPanels(size_t n) { return (n + Simd().columns - 1) / Simd().columns; }

size_t PackedFloats(size_t k, size_t n) { return PackedPanels(n) * Simd().columns * k; }

void PackPanels(const MatrixView& b, size_t k, size_t n, size_t first_panel, size_t last_panel,
                float* packed) {
  const size_t nr = Simd().columns;
  if (b.row_stride == 1 && b.column_stride != 1) {
    for (size_t p = first_panel; p < last_panel; ++p) {
      PackColumns(b, k, p * nr, std::min(nr, n - p * nr), packed + p * k * nr);
    }
    return;
  }
  // A few rows of B at a time, across all panels: pages and cache lines are used up when visited.
  constexpr size_t kBlock = 16;
  for (size_t i0 = 0; i0 < k; i0 += kBlock) {
    const size_t i1 = std::min(k, i0 + kBlock);
    for (size_t p = first_panel; p < last_panel; ++p) {
      const size_t n0 = p * nr, columns = std::min(nr, n - n0);
      float* out = packed + (p * k + i0) * nr;
      const float* in = b.data + n0 * b.column_stride + i0 * b.row_stride;
      for (size_t i = i0; i < i1; ++i, in += b.row_stride, out += nr) {
        if (b.column_stride == 1) {
          CopyFloats(in, columns, out);
        } else {
          for (size_t j = 0; j < columns; ++j)
            std::memcpy(out + j, in + j * b.column_stride, sizeof(float));
        }
        std::fill(out + columns, out + nr, 0.0f);
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

size_t PackedBrainBytes(size_t k, size_t n) {
  return PackedPanels(n) * Simd().columns * ((k + 1) / 2) * sizeof(uint32_t);
}

void PackBrains(const NarrowMatrix& b, size_t k, size_t n, uint32_t* packed) {
  // Two rows side by side lie in every column so already.
  if (b.row_stride == 1 && k % 2 == 0 && b.column_stride % 2 == 0 &&
      reinterpret_cast<uintptr_t>(b.data) % alignof(float) == 0) {
    PackPanels({reinterpret_cast<const float*>(b.data), 1, b.column_stride / 2}, k / 2, n, 0,
               PackedPanels(n), reinterpret_cast<float*>(packed));
    return;
  }
  const size_t nr = Simd().columns;
  for (size_t n0 = 0; n0 < n; n0 += nr) {
    const size_t columns = std::min(nr, n - n0);
    for (size_t i = 0; i < k; i += 2, packed += nr) {
      const uint16_t* even = b.data + i * b.row_stride + n0 * b.column_stride;
      const uint16_t* odd = even + b.row_stride;
      std::fill(packed + columns, packed + nr, 0u);
      for (size_t j = 0; j < columns; ++j) {
        const uint32_t high = i + 1 < k ? odd[j * b.column_stride] : 0u;
        packed[j] = even[j * b.column_stride] | high << 16;
      }
    }
  }
}

namespace {

// One row times the panels [first, end), each of `panel` elements; `row` is a kernel of Simd().
template <typename B>
void RunPanels(void (*row)(const float*, size_t, const B*, size_t, const float*, float*),
               const float* a, size_t k, size_t n, const B* packed, size_t panel, size_t first,
               size_t end, const float* from, float* c) {
  const size_t nr = Simd().columns, full = std::min(end, n / nr);
  for (size_t p = first; p < full; p += kRowPanels) {
    row(a, k, packed + p * panel, std::min(kRowPanels, full - p),
        from == nullptr ? nullptr : from + p * nr, c + p * nr);
  }
  const size_t n0 = full * nr;
  if (full == end || n0 >= n) return;
  float start[kMaxTileColumns] = {}, columns[kMaxTileColumns];
  if (from != nullptr) std::copy(from + n0, from + n, start);
  row(a, k, packed + full * panel, 1, start, columns);
  std::copy(columns, columns + (n - n0), c + n0);
}

}  // namespace

namespace {

// One row times all panels, each of `panel` elements.
template <typename B>
void RunAllPanels(void (*row)(const float*, size_t, const B*, size_t, const float*, float*),
                  const float* a, size_t k, size_t n, const B* packed, size_t panel,
                  const float* from, float* c, const Threads& threads) {
  ForRowPanels(k, n, threads, [&](size_t first, size_t end) {
    RunPanels(row, a, k, n, packed, panel, first, end, from, c);
  });
}

}  // namespace

void ForRowPanels(size_t k, size_t n, const Threads& threads,
                  FunctionRef<void(size_t, size_t)> run) {
  const size_t nr = Simd().columns, panels = PackedPanels(n);
  constexpr size_t kWorthwhile = 128 * 1024;  // products worth a thread, about 10 microseconds
  const size_t grain = std::max<size_t>(1, kWorthwhile / std::max<size_t>(1, kRowPanels * nr * k));
  // As many for each thread: of 18 panels nine each, by threes, and not twelve and six.
  const size_t all = std::max<size_t>(1, static_cast<size_t>(threads.limit()));
  const size_t units = std::min(panels, (panels + kRowPanels * all - 1) / (kRowPanels * all) * all);
  threads.For(units, grain, [&](size_t begin, size_t end) {
    for (size_t unit = begin; unit < end; ++unit) {
      run(unit * panels / units, (unit + 1) * panels / units);
    }
  });
}

void MultiplyBrainRow(const float* a, size_t k, size_t n, const uint32_t* packed, const float* from,
                      float* c, const Threads& threads) {
  RunAllPanels(Simd().brain_row, a, k, n, packed, (k + 1) / 2 * Simd().columns, from, c, threads);
}

size_t PackedHalfBytes(size_t k, size_t n) { return PackedFloats(k, n) * sizeof(Half); }

void PackHalves(const NarrowMatrix& b, size_t k, size_t n, Half* packed) {
  const size_t nr = Simd().columns;
  for (size_t n0 = 0; n0 < n; n0 += nr) {
    const size_t columns = std::min(nr, n - n0);
    for (size_t i = 0; i < k; ++i, packed += nr) {
      const uint16_t* row = b.data + i * b.row_stride + n0 * b.column_stride;
      for (size_t j = 0; j < columns; ++j) packed[j].bits = row[j * b.column_stride];
      std::fill(packed + columns, packed + nr, Half{0});
    }
  }
}

void MultiplyHalfRow(const float* a, size_t k, size_t n, const Half* packed, const float* from,
                     float* c, const Threads& threads) {
  RunAllPanels(Simd().half_row, a, k, n, packed, k * Simd().columns, from, c, threads);
}

void MultiplyRows(GemmTile tile, const float* a, size_t lda, size_t rows, float* c, size_t ldc,
                  const NextPanel& next) {
  const SimdKernels& simd = Simd();
  const float* from[kMaxTileRows];
  float* to[kMaxTileRows];
  tile.a = from;
  tile.a_stride = kMaxTileRows;
  tile.taps = 1;
  tile.c = to;
  const size_t tiles = FetchingTiles(rows);
  for (size_t m = 0; m < rows; m += simd.rows) {
    tile.rows = std::min(simd.rows, rows - m);
    for (size_t i = 0; i < tile.rows; ++i) {
      from[i] = a + (m + i) * lda;
      to[i] = c + (m + i) * ldc;
    }
    if (next.data != nullptr) FetchShare(next, m / simd.rows, tiles, &tile);
    simd.gemm(tile);
  }
}

namespace {

// Two rows side by side as two rows of `columns` floats.
struct WidenPairs {
  static QNNRT_INLINE void Run(const uint32_t* pairs, size_t count, size_t columns, float* to) {
    for (size_t i = 0; i < count; ++i, pairs += columns, to += 2 * columns) {
      uint32_t* even = reinterpret_cast<uint32_t*>(to);
      uint32_t* odd = even + columns;
      QNNRT_SIMD
      for (size_t j = 0; j < columns; ++j) {
        even[j] = pairs[j] << 16;
        odd[j] = pairs[j] & 0xffff0000;
      }
    }
  }
};

// Of a panel of 16-bit floats whose rows [k0, k0 + depth) widen(k0, depth, to) makes floats; k0 is
// even. What it widens next is fetched meanwhile, also from the panel behind this one.
template <typename Widen>
void MultiplyWidened(const float* a, size_t rows, size_t k, const void* panel, float* c, size_t ldc,
                     const Widen& widen) {
  constexpr size_t kDepthBlock = 128;  // 16 KiB of floats: they stay in L1 while the rows pass by
  const size_t nr = Simd().columns;
  alignas(64) float wide[kDepthBlock * kMaxTileColumns];
  const float zeros[kMaxTileColumns] = {};
  GemmTile tile{};
  tile.b = wide;
  tile.ldb = nr;
  tile.columns = nr;
  for (size_t k0 = 0; k0 == 0 || k0 < k; k0 += kDepthBlock) {
    tile.depth = std::min(kDepthBlock, k - k0);
    widen(k0, tile.depth, wide);
    tile.bias = k0 == 0 ? zeros : nullptr;
    const size_t row_bytes = nr * sizeof(uint16_t);
    const char* next = static_cast<const char*>(panel) + (k0 + tile.depth) * row_bytes;
    MultiplyRows(tile, a + k0, k, rows, c, ldc, {next, row_bytes});
  }
}

}  // namespace

void MultiplyHalfPanel(const float* a, size_t rows, size_t k, const Half* panel, float* c,
                       size_t ldc) {
  static const NarrowFloat& half = *NarrowFloatOf(QNN_DATATYPE_FLOAT_16);
  const size_t nr = Simd().columns;
  MultiplyWidened(a, rows, k, panel, c, ldc, [&](size_t k0, size_t depth, float* to) {
    half.widen(&panel[k0 * nr].bits, to, depth * nr);
  });
}

void MultiplyBrainPanel(const float* a, size_t rows, size_t k, const uint32_t* panel, float* c,
                        size_t ldc) {
  static const auto widen = PickIsa<WidenPairs>();
  const size_t nr = Simd().columns;
  MultiplyWidened(a, rows, k, panel, c, ldc, [&](size_t k0, size_t depth, float* to) {
    widen(panel + k0 / 2 * nr, (depth + 1) / 2, nr, to);
  });
}

void RunRow(const GemmShape& shape, size_t first, size_t end, const float* a, float* c) {
  RunPanels(Simd().row, a, shape.depth, shape.n, shape.packed, shape.depth * Simd().columns, first,
            end, shape.bias, c);
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
  if (units.count() == 0) return units;
  if (threads > 1) {
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
  // About 20 microseconds of one core are worth waking another for, half of that one that is awake.
  const double worthwhile = (shape.repeated ? 256.0 : 512.0) * 1024.0;
  // With few rows, fetching B takes longer than multiplying by it.
  constexpr size_t kLeastRows = 8;
  const auto share = [](size_t all, size_t parts) { return (all + parts - 1) / parts; };
  const size_t unit_rows = mr * share(tiles, units.row_units);
  const size_t unit_panels = share(panels, units.panel_units);
  const size_t rows = std::max(kLeastRows, std::min(shape.m, unit_rows));
  const double unit_work =
      static_cast<double>(rows) * static_cast<double>(unit_panels * nr) * static_cast<double>(k);
  units.grain = static_cast<size_t>(std::clamp(worthwhile / std::max(1.0, unit_work), 1.0, 1e6));
  return units;
}

}  // namespace qnnrt
