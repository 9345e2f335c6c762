// Convolution geometry, shared by the kernels of the family. One and two dimensional forms are the
// three dimensional one with leading dimensions of 1.
#pragma once

#include <array>

#include "ops/op.h"
#include "ops/post_ops.h"
#include "ops/weights.h"

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
  bool has_strides() const { return stride != Dims{1, 1, 1}; }
  // Of single pixels, which may lie in any image.
  bool IsOfPixels() const {
    return taps() == 1 && !has_strides() && pad_before == Dims{} && pad_after == Dims{};
  }
};

// Reads and checks shapes and params of a convolution of any rank; fills everything.
Result<ConvGeometry> ReadConv(const Node& node);
// The same for TransposeConv2d and 3d.
Result<ConvGeometry> ReadTransposeConv(const Node& node);

// What the kernels over matrix products share. Static weights are packed once, others into scratch
// by each run.
class PackedConv : public Kernel {
 public:
  size_t ScratchBytes() const final { return packed_ ? 0 : PackedBytes(); }
  bool ReadsInput(size_t i) const final { return i != 1 || !packed_; }
  size_t WeightBytes() const final { return packed_ ? packed_->size() : 0; }

 protected:
  PackedConv(const Node& node, const ConvGeometry& g)
      : g_(g), post_ops_(node), has_bias_(node.HasInput(2)) {}
  Status Init(const Node& node, const KernelOptions& options);  // once group_floats_ is known

  // What the order of the packed floats depends on, in words.
  virtual std::string Layout() const = 0;
  virtual void Pack(const float* weights, float* packed, const Threads& threads) const = 0;
  const float* Packed(const ExecArgs& args) const;
  const float* BiasOf(const ExecArgs& args, size_t group) const;  // null when there is none
  // The channels of a pixel outside of the input.
  const float* zeros() const { return static_cast<const float*>(zeros_->data()); }

  const ConvGeometry g_;
  const PostOps post_ops_;
  size_t group_floats_ = 0;  // packed weights of one group

 private:
  size_t PackedBytes() const {
    return group_floats_ * static_cast<size_t>(g_.group) * sizeof(float);
  }

  const bool has_bias_;
  SharedBytes packed_;
  std::shared_ptr<AlignedBytes> zeros_;
};

// Static weights as FLOAT_32, in the order in which they come.
Result<SharedBytes> PackAsFloats(const Tensor& weights, const KernelOptions& options,
                                 const std::string& layout);
constexpr const char* kWidened = "as FLOAT_32";  // the layout of what was narrower

Result<KernelPtr> MakeConv(const Node& node, const KernelOptions& options);
// Depthwise, or static weights in groups of few channels that vectors take.
bool TakesByChannel(const Node& node, const ConvGeometry& geometry);
// Of BFLOAT_16 with static weights, a bias of FLOAT_32 if any, and results of either type.
bool MultipliesBrains(const Node& node);
// The BFLOAT_16 ones of them by 3x3 taps, which are faster than oneDNN's.
bool TakesBrainWindow(const Node& node, const ConvGeometry& geometry);
Result<KernelPtr> MakeByChannel(const Node& node, const ConvGeometry& geometry,
                                const KernelOptions& options);
// Depthwise with AVX-512, by 3, 5 or 7 columns, in FLOAT_32, or in BFLOAT_16 with static weights.
bool TakesWindow(const Node& node, const ConvGeometry& geometry);
Result<KernelPtr> MakeWindow(const Node& node, const ConvGeometry& geometry,
                             const KernelOptions& options);
// Static weights of FLOAT_32 over one to three channels: some first convolutions of images.
bool TakesFewChannels(const Node& node, const ConvGeometry& geometry);
// In BFLOAT_16, 1x1 where few pixels pass by many weights, on a processor's matrix tiles: the
// product of a chunk of rows, which fetches weights ahead.
bool TakesFewPixels(const Node& node, const ConvGeometry& geometry);
// In BFLOAT_16, static weights in groups of a few channels, on a processor's matrix tiles.
bool TakesGroupTiles(const Node& node, const ConvGeometry& geometry);
Result<KernelPtr> MakeGroupTiles(const Node& node, const ConvGeometry& geometry,
                                 const KernelOptions& options);
// 3x3 in FLOAT_32, without strides or groups, of as many channels and pixels as make it faster.
bool TakesWinograd(const Node& node, const ConvGeometry& geometry);
Result<KernelPtr> MakeWinograd(const Node& node, const ConvGeometry& geometry,
                               const KernelOptions& options);
Result<KernelPtr> MakeTransposeConv(const Node& node, const KernelOptions& options);

}  // namespace qnnrt
