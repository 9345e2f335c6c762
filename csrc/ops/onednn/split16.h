// 16-bit activations as two planes of bytes, for 8-bit matrix units.
#pragma once

#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {

// Null when the node's input 0 is not of 16-bit fixed point, and where float is faster.
Result<KernelPtr> MakeSplit16(const Node& node, const KernelOptions& options);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
