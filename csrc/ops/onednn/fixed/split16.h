// 16-bit activations, or 8-bit ones with 16-bit results, on 8-bit matrix units.
#pragma once

#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {

// Null for nodes of 8 bits alone, except for products of transposed inputs; and where float is
// faster.
Result<KernelPtr> MakeSplit16(const Node& node, const KernelOptions& options);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
