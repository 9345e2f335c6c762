// Depthwise convolutions of 8-bit activations in the vectors of AVX512-VNNI, whose instructions add
// up products of bytes in fours: the taps of four rows at a time.
#pragma once

#include "ops/onednn/fixed/encodings.h"
#include "ops/onednn/shapes.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {

// Whether it is of one input channel for each output channel, in sizes that this processor has the
// vectors for.
bool TakesByteChannels(const Node& node, const ConvShape& shape, const SignedWeights& weights);
Result<KernelPtr> MakeByteChannels(const Node& node, const KernelOptions& options,
                                   const ConvShape& shape, const ChannelOrder& order,
                                   const SignedWeights& weights);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
