// Convolutions of 16-bit activations in vectors (word_gemm.h): of windows and in groups, read from
// where the bytes of the pixels lie.
#pragma once

#include "ops/onednn/fixed/split16_product.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {

// Whether it is a convolution for which this is faster than the primitive on bytes.
bool TakesWordConv(const Shape16& shape);
// `node` has signed weights around 0. `zero`: the unsigned number that padding has.
Result<KernelPtr> MakeWordConv(const Node& node, const KernelOptions& options, const Shape16& shape,
                               int32_t zero, Joining joining);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
