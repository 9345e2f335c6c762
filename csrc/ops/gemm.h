// The blocked matrix product under convolution, MatMul, FullyConnected and the recurrent ops.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "ops/post_ops.h"
#include "ops/simd.h"
#include "ops/tiles.h"
#include "support/threads.h"

namespace qnnrt {

// B[k, n] = data[k * row_stride + n * column_stride], as it lies in a tensor, or in the file that
// it comes from: on any boundary.
struct MatrixView {
  const float* data;
  size_t row_stride, column_stride;
};

// How floats packed for this machine's tiles lie, for WeightStore: "MatMul 64x1000 in panels of
// 32".
std::string PanelLayout(const std::string& op, size_t k, size_t n);

// B packed into panels of Simd().columns columns, the last one padded with zeros.
size_t PackedPanels(size_t n);
size_t PackedFloats(size_t k, size_t n);
void PackPanels(const MatrixView& b, size_t k, size_t n, size_t first_panel, size_t last_panel,
                float* packed);
void PackAll(const MatrixView& b, size_t k, size_t n, float* packed, const Threads& threads);

// The same of BFLOAT_16, for MultiplyBrainRow: for each column two rows side by side, the last
// filled up with zeros.
size_t PackedBrainBytes(size_t k, size_t n);
void PackBrains(const NarrowMatrix& b, size_t k, size_t n, uint32_t* packed);
// run(first, end) for some panels at a time, so that a row times each B[k, n] is shared by threads.
void ForRowPanels(size_t k, size_t n, const Threads& threads,
                  FunctionRef<void(size_t, size_t)> run);
// c[n] = from + a[k] x B; `from` may be c itself, or null: zeros.
void MultiplyBrainRow(const float* a, size_t k, size_t n, const uint32_t* packed, const float* from,
                      float* c, const Threads& threads);

// The same of FLOAT_16, in panels as PackPanels leaves floats, whose rows follow each other.
size_t PackedHalfBytes(size_t k, size_t n);
void PackHalves(const NarrowMatrix& b, size_t k, size_t n, Half* packed);
void MultiplyHalfRow(const float* a, size_t k, size_t n, const Half* packed, const float* from,
                     float* c, const Threads& threads);
// c[rows, columns of the panel] = a[rows, k] x that panel, which is widened piece by piece; rows of
// c are `ldc` apart.
void MultiplyHalfPanel(const float* a, size_t rows, size_t k, const Half* panel, float* c,
                       size_t ldc);
void MultiplyBrainPanel(const float* a, size_t rows, size_t k, const uint32_t* panel, float* c,
                        size_t ldc);

// What the tiles of a product do at once with finished outputs, which would be read again for it.
struct GemmFinish {
  const float* output;  // the whole tensor that C is part of
  const float* add;     // a tensor of that shape, or null
  GemmLimits first, last;
};

// C[m, n] = A[m, k] x B[k, n] + bias, k = taps x depth.
struct GemmShape {
  size_t m = 0, n = 0;
  size_t taps = 1, depth = 0;
  const float* packed = nullptr;  // PackedFloats(taps * depth, n)
  const float* bias = nullptr;    // n values or null
  bool accumulate = false;        // add to what C holds (bias is not used then)
  bool repeated = false;          // one of many that follow each other: workers are awake
  bool backwards = false;         // on one thread the last panels first
  // When set, the full panels are read from here (column_stride 1) and `packed` holds the last,
  // partial panel alone: cheaper than packing when there are few rows.
  const float* in_place = nullptr;
  size_t in_place_stride = 0;
  const GemmFinish* finish = nullptr;
};

// How the product is cut into units that threads take: its rows, in whole tiles, and its panels,
// each as evenly as they can be.
struct GemmUnits {
  size_t row_units = 1, panel_units = 1;
  size_t grain = 1;  // units worth a thread
  size_t count() const { return row_units * panel_units; }
};
GemmUnits CutGemm(const GemmShape& shape, int threads);
// A step of many, of some 50 microseconds on one thread at the most.
inline bool IsShort(const GemmShape& shape) {
  constexpr size_t kShort = 2048 * 1024;
  return shape.repeated && shape.m * shape.n * shape.taps * shape.depth <= kShort;
}

// One row times the panels [first, end), some at a time. Every column is summed in one order: equal
// columns have equal results.
void RunRow(const GemmShape& shape, size_t first, size_t end, const float* a, float* c);

// Of so many rows, the tiles that fetch a share of what is read next.
inline size_t FetchingTiles(size_t rows) {
  const size_t whole = rows / Simd().rows, rest = rows % Simd().rows;
  return std::max<size_t>(1, whole + (rest >= kFetchingRows ? 1 : 0));
}

// What is fetched during a product: a panel with as many rows as its own, of so many bytes each.
struct NextPanel {
  const void* data = nullptr;
  size_t row_bytes = Simd().columns * sizeof(float);
};

// Has the tile fetch its share, the `index`-th of `tiles`.
inline void FetchShare(const NextPanel& next, size_t index, size_t tiles, GemmTile* tile) {
  tile->ahead_step = (next.row_bytes + tiles - 1) / tiles;
  tile->ahead =
      static_cast<const char*>(next.data) + index * tile->taps * tile->depth * tile->ahead_step;
}

// Rows of A and of C at equal distances, for a tile whose b, ldb, depth, columns and bias are set;
// one tap. Fetches the panel `next`, if there is one, meanwhile.
void MultiplyRows(GemmTile tile, const float* a, size_t lda, size_t rows, float* c, size_t ldc,
                  const NextPanel& next = {});

// Of the taps of a tile, those that are more than zeros for some row.
struct TapRange {
  size_t first, end;
};

// One unit. `rows(m, count, tap, taps, a, c)` writes for rows [m, m + count) the start of each
// tap's row to a[t * kMaxTileRows + i] and of the output row to c[i], and returns the taps that
// count. `finish(c, rows, n0, columns)` is called for finished rows, unless the shape has a finish
// that the tiles see to.
template <typename Rows, typename Finish>
void RunGemmUnit(const GemmShape& shape, const GemmUnits& units, size_t unit, const Rows& rows,
                 const Finish& finish) {
  constexpr size_t kDepthBlock = 1024;
  // Of B: they stay in L2 while the rows pass by, beside the next ones, which are fetched
  // meanwhile.
  constexpr size_t kSlabFloats = 32 * 1024;
  const SimdKernels& simd = Simd();
  const size_t nr = simd.columns, mr = simd.rows, panels = PackedPanels(shape.n);
  const size_t row_tiles = (shape.m + mr - 1) / mr;
  const size_t row_unit = unit / units.panel_units, panel_unit = unit % units.panel_units;
  const size_t m0 = row_unit * row_tiles / units.row_units * mr;
  const size_t m1 = std::min(shape.m, (row_unit + 1) * row_tiles / units.row_units * mr);
  const size_t p0 = panel_unit * panels / units.panel_units;
  const size_t p1 = (panel_unit + 1) * panels / units.panel_units;
  const float* a[kMaxTaps * kMaxTileRows];
  float* c[kMaxTileRows];
  if (shape.m == 1 && shape.taps == 1 && !shape.accumulate && shape.in_place == nullptr) {
    rows(0, 1, 0, 1, a, c);
    RunRow(shape, p0, p1, a[0], c[0]);
    finish(c, 1, p0 * nr, std::min(shape.n, p1 * nr) - p0 * nr);
    return;
  }

  const size_t k = shape.taps * shape.depth;
  const size_t depth_step = std::min(shape.depth, kDepthBlock);
  const size_t tap_step =
      shape.depth == 0 ? kMaxTaps : std::clamp<size_t>(kDepthBlock / shape.depth, 1, kMaxTaps);
  const size_t slab =
      std::max<size_t>(1, kSlabFloats / std::max<size_t>(1, tap_step * depth_step * nr));
  const size_t full_panels = shape.n / nr;
  const bool backwards = shape.backwards && units.panel_units == 1;
  // Each tile of rows fetches a share of the next slab. Of weights that a core's own cache holds
  // few rows fetch none.
  constexpr size_t kOwnCache = 512 * 1024;  // floats
  const size_t tiles = FetchingTiles(m1 - m0);
  const bool fetches =
      shape.in_place == nullptr && (m1 - m0 >= kFetchingRows || k * shape.n > kOwnCache);

  float bias[kMaxTileColumns];
  const float* add[kMaxTileRows];
  const GemmFinish* const at_once = shape.finish;
  GemmEnd end{};
  if (at_once != nullptr) {
    end = {at_once->add != nullptr ? add : nullptr, at_once->first, at_once->last};
  }
  GemmTile tile{};
  tile.a_stride = kMaxTileRows;
  tile.c = c;
  for (size_t tap = 0; tap < shape.taps; tap += tap_step) {
    const size_t taps = std::min(tap_step, shape.taps - tap);
    for (size_t d = 0; d == 0 || d < shape.depth; d += depth_step) {
      tile.depth = std::min(depth_step, shape.depth - d);
      const size_t k0 = tap * shape.depth + d;
      const bool first = k0 == 0 && !shape.accumulate;
      const bool last = k0 + taps * tile.depth == k;
      tile.end = last && at_once != nullptr ? &end : nullptr;
      for (size_t done = 0; done < p1 - p0; done += slab) {
        const size_t count = std::min(slab, p1 - p0 - done);
        const size_t slab0 = backwards ? p1 - done - count : p0 + done, slab1 = slab0 + count;
        for (size_t m = m0; m < m1; m += mr) {
          tile.rows = std::min(mr, m1 - m);
          const TapRange range = rows(m, tile.rows, tap, taps, a, c);
          if (d != 0) {  // then there is one tap
            for (size_t i = 0; i < tile.rows; ++i) a[i] += d;
          }
          tile.a = a + range.first * kMaxTileRows;
          tile.taps = range.end - range.first;
          const size_t skipped = range.first * tile.depth;
          if (tile.end != nullptr && end.add != nullptr) {
            for (size_t i = 0; i < tile.rows; ++i) add[i] = at_once->add + (c[i] - at_once->output);
          }
          for (size_t p = slab0; p < slab1; ++p) {
            const size_t n0 = p * nr;
            tile.columns = std::min(nr, shape.n - n0);
            if (shape.in_place != nullptr && p < full_panels) {
              tile.b = shape.in_place + n0 + (k0 + skipped) * shape.in_place_stride;
              tile.ldb = shape.in_place_stride;
            } else {
              const size_t panel = shape.in_place != nullptr ? 0 : p;
              tile.b = shape.packed + (panel * k + k0 + skipped) * nr;
              tile.ldb = nr;
            }
            if (!first) {
              tile.bias = nullptr;
            } else if (shape.bias != nullptr && tile.columns == nr) {
              tile.bias = shape.bias + n0;
            } else {
              for (size_t j = 0; j < nr; ++j) {
                bias[j] = shape.bias != nullptr && j < tile.columns ? shape.bias[n0 + j] : 0.0f;
              }
              tile.bias = bias;
            }
            tile.ahead = nullptr;
            tile.ahead_step = 0;
            if (fetches) {
              const float* next = nullptr;  // where this panel is in what comes after the slab
              if (backwards) {
                if (p >= p0 + slab) next = shape.packed + ((p - slab) * k + k0) * nr;
              } else if (p + slab < (last ? panels : p1)) {
                next = shape.packed + ((p + slab) * k + k0) * nr;
              } else if (!last) {
                next = shape.packed + ((p0 + p - slab0) * k + k0 + taps * tile.depth) * nr;
              }
              if (next != nullptr) FetchShare({next}, (m - m0) / mr, tiles, &tile);
            }
            tile.c_offset = n0;
            simd.gemm(tile);
          }
          if (last && at_once == nullptr) {
            finish(c, tile.rows, slab0 * nr, std::min(shape.n, slab1 * nr) - slab0 * nr);
          }
        }
      }
      if (depth_step == 0) break;
    }
  }
}

template <typename Rows, typename Finish>
void RunGemm(const GemmShape& shape, const Threads& threads, const Rows& rows,
             const Finish& finish) {
  const GemmUnits units = CutGemm(shape, threads.limit());
  const auto run = [&](size_t begin, size_t end) {
    for (size_t unit = begin; unit < end; ++unit) RunGemmUnit(shape, units, unit, rows, finish);
  };
  threads.For(units.count(), units.grain, run, {IsShort(shape), shape.backwards});
}

// What `finish` is for a node's output: its post ops.
class FinishRows {
 public:
  FinishRows(const PostOps& post_ops, const ExecArgs& args, const float* output)
      : post_ops_(post_ops), args_(args), output_(output) {
    const std::optional<PostOps::Simple>& simple = post_ops.simple();
    if (!simple) return;
    const void* add = simple->add ? args.in[*simple->add] : nullptr;
    at_once_ = {output,
                static_cast<const float*>(add),
                {simple->first.low, simple->first.high},
                {simple->last.low, simple->last.high}};
  }
  // For GemmShape::finish: null where tiles cannot do it.
  const GemmFinish* at_once() const { return post_ops_.simple() ? &at_once_ : nullptr; }
  void operator()(float* const* c, size_t rows, size_t n0, size_t columns) const {
    if (post_ops_.empty()) return;
    for (size_t i = 0; i < rows;) {  // those at equal distances at a time
      const size_t ld = i + 1 < rows ? static_cast<size_t>(c[i + 1] - c[i]) : columns;
      size_t end = i + 1;
      while (end < rows && static_cast<size_t>(c[end] - c[end - 1]) == ld) ++end;
      float* values = c[i] + n0;
      const size_t offset = static_cast<size_t>(values - output_);
      post_ops_.Apply(args_, {values, ld, end - i, columns, offset, ld});
      i = end;
    }
  }

 private:
  const PostOps& post_ops_;
  const ExecArgs& args_;
  const float* output_;
  GemmFinish at_once_{};
};

// `rows` of a plain matrix: A[m, depth] with `lda`, C[m, n] with `ldc`.
struct MatrixRows {
  const float* a;
  size_t lda;
  float* c;
  size_t ldc;
  TapRange operator()(size_t m, size_t count, size_t, size_t, const float** rows,
                      float** out) const {
    for (size_t i = 0; i < count; ++i) {
      rows[i] = a + (m + i) * lda;
      out[i] = c + (m + i) * ldc;
    }
    return {0, 1};
  }
};

}  // namespace qnnrt
