// Convolution geometry, shared by the kernels of the family. One and two dimensional forms are the
// three dimensional one with leading dimensions of 1.
#pragma once

#include <array>

#include "ops/op.h"

namespace qnnrt {

struct ConvGeometry {
  using Dims = std::array<int64_t, 3>;  // depth, height, width
  int64_t batch = 0, cin = 0, cout = 0, group = 1;
  Dims in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  Dims stride{1, 1, 1}, dilation{1, 1, 1}, pad_before{0, 0, 0}, pad_after{0, 0, 0};

  int64_t cin_per_group() const { return cin / group; }
  int64_t cout_per_group() const { return cout / group; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t out_pixels() const { return batch * out[0] * out[1] * out[2]; }
};

// Reads and checks shapes and params of a convolution of any rank; fills everything.
Result<ConvGeometry> ReadConv(const Node& node);
// The same for TransposeConv2d.
Result<ConvGeometry> ReadTransposeConv(const Node& node);

Result<KernelPtr> MakeConv(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeDepthwise(const Node& node, const ConvGeometry& geometry);
Result<KernelPtr> MakeTransposeConv(const Node& node, const KernelOptions& options);

}  // namespace qnnrt
