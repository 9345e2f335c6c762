// Products of 8-bit rows, and of windows over a line of pixels, by few constant weights in the
// vectors of AVX512-VNNI: one loop for all of them, where oneDNN has code and descriptions for
// each.
#pragma once

#include "ops/onednn/fixed/encodings.h"
#include "ops/onednn/shapes.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {

// Rows of a matrix are windows of one tap.
struct ByteLine {
  size_t images = 1;
  size_t in = 1, out = 1;  // pixels of an image
  size_t groups = 1;
  size_t cin = 1, cout = 1, taps = 1;            // channels: of all groups
  int64_t stride = 1, distance = 1, before = 0;  // distance: from tap to tap
  bool columns_outside = false;  // of the weights: [cout, cin] instead of [.., cin, cout]

  // Windows are bytes in one piece or, where their taps lie apart or outside, as many as taps.
  bool whole() const;
  size_t runs() const { return whole() ? 1 : taps; }
  size_t run() const { return (whole() ? taps : 1) * cin / groups; }
};
// Nothing where it is of another form.
std::optional<ByteLine> ByteLineOf(const ConvShape& shape, const Node& node);
std::optional<ByteLine> ByteLineOf(const MatMulShape& shape, bool columns_outside);

// Whether this processor has the vectors, and they are mostly filled.
bool TakesByteLine(const Node& node, const ByteLine& line, const SignedWeights& weights);
Result<KernelPtr> MakeByteRows(const Node& node, const KernelOptions& options, const ByteLine& line,
                               const ChannelOrder& order, const SignedWeights& weights);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
