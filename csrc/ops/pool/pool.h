// The windows of a pool over a channel-last image or volume.
#pragma once

#include <array>
#include <cstdint>

#include "ops/op.h"

namespace qnnrt {

// Two-dimensional pools are three-dimensional ones with a depth of 1.
struct PoolGeometry {
  using Dims = std::array<int64_t, 3>;
  int64_t batch = 0, channels = 0;
  Dims in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1};
  Dims pad_before{0, 0, 0}, pad_after{0, 0, 0};
  bool count_pads = false;
};

// From the params and the input's shape. Errors: those of the op's rule.
Result<PoolGeometry> ReadPool(const Node& node);

// The part of a window that lies inside the input, in one dimension.
struct PoolSpan {
  int64_t begin, end;
  int64_t padded;  // its length when the padding counts, though not what hangs over the padding
  int64_t size() const { return end - begin; }
};
PoolSpan SpanOf(const PoolGeometry& g, size_t dim, int64_t index);

// That part of a window in memory; strides in elements.
struct PoolWindow {
  size_t planes, rows, columns;
  size_t plane_stride, row_stride, column_stride;
  size_t taps() const { return planes * rows * columns; }
};
inline PoolWindow WindowOf(const PoolGeometry& g, const PoolSpan& d, const PoolSpan& h,
                           const PoolSpan& w) {
  const size_t column = static_cast<size_t>(g.channels);
  const size_t row = column * static_cast<size_t>(g.in[2]);
  return {static_cast<size_t>(d.size()),
          static_cast<size_t>(h.size()),
          static_cast<size_t>(w.size()),
          row * static_cast<size_t>(g.in[1]),
          row,
          column};
}
// Its first element, behind the start of its image.
inline size_t WindowStart(const PoolGeometry& g, const PoolSpan& d, const PoolSpan& h,
                          const PoolSpan& w) {
  return static_cast<size_t>(((d.begin * g.in[1] + h.begin) * g.in[2] + w.begin) * g.channels);
}

// Of the output, by what their windows see.
size_t LinesWorthAThread(const PoolGeometry& g);

// Whether ours of maxima is faster than oneDNN's.
bool TakesMaxPool(const Node& node);
Result<KernelPtr> MakeMaxPool(const Node& node, const KernelOptions& options);
// An average of FLOAT_32 or BFLOAT_16 over one window that has the whole image in it.
bool IsImageMean(const Node& node, const PoolGeometry& g);
Result<KernelPtr> MakeImageMean(const Node& node, const PoolGeometry& g);
// Whether images of one channel of FLOAT_32 are pooled line by line, so that others whose channels
// come first are not transposed for it; null where not.
bool PoolsPlanes(const PoolGeometry& g);
KernelPtr MakePlanePool(const PoolGeometry& g, bool mean, int threads);

}  // namespace qnnrt
