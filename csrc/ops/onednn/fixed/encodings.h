// 8-bit products on oneDNN's integer kernels. Encodings are folded into one factor and one addend
// for each output channel, in steps of the output:
//   q_out = round(factor[c] x sum(q_in x w) + addend[c]),  w = q_weight + offset_weight
// so that no implementation needs zero points of its own, which cost up to half of the speed.
#pragma once

#include "ops/conv/conv.h"
#include "ops/fixed/codec.h"
#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <optional>

namespace qnnrt::onednn {

// Which output channel a weight belongs to, by its offset in memory: the channels of a group lie
// `inner` elements apart and start again after the last one; after `rows` such rounds comes the
// next group.
struct ChannelOrder {
  int64_t channels = 1;  // of all groups
  int32_t axis = 0;      // of the weights' shape: where an encoding per channel has its scales
  uint64_t inner = 1, rows = 1, groups = 1;

  // Calls fn(channel, begin, end) for runs of weights of one channel, in order, up to `count`.
  template <typename Fn>
  void ForRuns(uint64_t count, Fn fn) const {
    const uint64_t per_group = static_cast<uint64_t>(channels) / groups;
    uint64_t i = 0;
    for (uint64_t round = 0; i < count; ++round) {
      const uint64_t first = round / rows % groups * per_group;
      for (uint64_t c = first; c < first + per_group; ++c, i += inner) fn(c, i, i + inner);
    }
  }
};

// dnnl_u8 or dnnl_s8; undef for anything but 8 bits with one scale for the whole tensor.
dnnl_data_type_t WholeEncoding8(const Tensor& tensor);

// The code of a real zero, which may lie outside of the type; a pixel of such codes, for padding.
int64_t ZeroCode(const Tensor& tensor);
bool HoldsZero(const Tensor& tensor);
Result<SharedBytes> PixelOfZeros(const Tensor& tensor);

// Whether this processor has what multiplies 8-bit integers without saturating in between.
bool HasIntegerProducts();

// Whether sums of so many products, in steps of the output, may be computed as floats: their scales
// are not far from those of the output.
bool StepsFitFloats(const Node& node, const std::vector<float>& weight_scales, double products);

// Static weights as s8, by output channel: real = scale x (stored + shift + rest), where the first
// sum fits. There is a rest where the integers are unsigned and 0 does not stand in their middle.
struct SignedWeights {
  std::vector<float> scales;
  std::vector<int32_t> shifts, rests;

  bool has_rest() const {
    return std::any_of(rests.begin(), rests.end(), [](int32_t r) { return r != 0; });
  }
};
// Nothing where the encoding is none of 8 bits along the output channels.
std::optional<SignedWeights> AsSigned(const Tensor& weights, const ChannelOrder& order);

// Writes static weights with the shift of their channel added to each, or `shift` to all.
void WriteShifted(const Tensor& weights, const ChannelOrder& order,
                  const std::vector<int32_t>& shifts, int8_t* to);
std::function<Status(int8_t*)> ShiftedBy(const Tensor& weights, int32_t shift);

// Leaves the zero of an argument (DNNL_ARG_SRC, _WEIGHTS) to oneDNN.
Status KeepZero(int argument, int32_t offset, IntegerProblem* integers);

// For each output channel, in steps of the output: factor x sum + addend. The zero of the input is
// folded into the addends, or not.
struct FoldedSteps {
  std::vector<float> factors;
  SharedBytes addends;
};
Result<FoldedSteps> FoldSteps(const Node& node, const KernelOptions& options,
                              const ChannelOrder& order, const SignedWeights& weights,
                              bool fold_input);

// Fills in factors, addends and how weights are written, for a product with static weights.
// The zero of the input is folded into the addends unless it is kept.
Status FoldEncodings(const Node& node, const KernelOptions& options, const ChannelOrder& order,
                     const SignedWeights& weights, const Dims& bias_dims, int scales_mask,
                     IntegerProblem* integers);

// The same where both sides are computed, or differ from batch to batch: one factor, and oneDNN's
// zero points. `weights_offset` is that of the weights as s8.
Status KeepEncodings(const Node& node, const KernelOptions& options, int32_t weights_offset,
                     const Dims& bias_dims, IntegerProblem* integers);

// Keeps results within OutputRange().
void LimitOutput(const Node& node, IntegerProblem* integers);

// The sums of inputs that weights with a rest need, and the rounding: `inner` writes all but that
// to FLOAT_32, in steps of the output. `zero` is what the convolution is padded with.
Result<KernelPtr> MakeWithRest(KernelPtr inner, const Node& node, const ConvGeometry& geometry,
                               const SignedWeights& weights, int64_t zero);

// ThreadsFor, of integers: multiplying them is faster, moving them is not.
int ThreadsForIntegers(const Node& node, const KernelOptions& options, double multiply_adds);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
