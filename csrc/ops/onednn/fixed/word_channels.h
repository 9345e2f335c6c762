// Depthwise convolutions of 16-bit activations in the vectors of AVX512-VNNI, whose instructions
// add up products of 16 bits in pairs: two taps at a time, of the numbers as they lie.
#pragma once

#include "ops/onednn/fixed/split16_product.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {

// Whether it is of one input channel for each output channel, in types and sizes that this
// processor has the vectors for. `offset`: the input's, of unsigned numbers.
bool TakesWordChannels(const Node& node, const Shape16& shape, const SignedWeights& weights,
                       int32_t offset);
// `node` has signed weights around 0, but for the rests of `weights`.
Result<KernelPtr> MakeWordChannels(const Node& node, const KernelOptions& options,
                                   const Shape16& shape, const SignedWeights& weights,
                                   int32_t offset, const Joining& joining);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
