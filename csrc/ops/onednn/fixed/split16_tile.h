// The 8-bit primitive that split16.cc runs for each tile of output rows.
#pragma once

#include "ops/onednn/fixed/encodings.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {

// The problem as images of rows of pixels. A matrix product has one image with pixels for rows.
struct Shape16 {
  int64_t images = 1, in_rows, out_rows, in_width = 1, out_width = 1, cin, cout, group = 1;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t top = 0, left = 0, padded_width = 1;  // with both sides
  int64_t planes = 2;                           // of bytes, which is how many an activation has
  dnnl_data_type_t bytes = dnnl_u8;             // what they are
  bool product = false;
  bool columns = false;  // pixels lie inmost in the input, not channels
  bool padded = false;
  ChannelOrder order;                // of the weights
  Dims weight_dims, weight_strides;  // in oneDNN's order

  int64_t tile = 1;  // output rows
  int64_t TileIn() const { return (tile - 1) * stride_h + (kernel_h - 1) * dilation_h + 1; }
  int64_t depth() const { return kernel_h * kernel_w * (cin / group); }
  int64_t in_row() const { return in_width * cin; }  // elements
  int64_t padded_row() const { return padded_width * cin; }
  // Whether the primitive can read the input as it lies.
  bool Direct() const { return planes == 1 && !columns && !padded && padded_width == in_width; }
  int64_t out_row() const { return out_width * cout; }
};

// Nothing for other ops, and for products with more than one matrix of weights.
Result<std::optional<Shape16>> ReadShape16(const Node& node);

// Planes of bytes to 32-bit sums, for one tile. The weights of `node` are signed ones around 0.
Result<KernelPtr> MakeTileKernel(const Node& node, const KernelOptions& options,
                                 const Shape16& shape);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
