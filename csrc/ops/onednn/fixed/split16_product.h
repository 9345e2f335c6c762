// Products of 16-bit activations in vectors (word_gemm.h), where a processor has no matrix units.
#pragma once

#include "ops/onednn/fixed/encodings.h"
#include "ops/onednn/fixed/split16_loops.h"
#include "ops/onednn/fixed/split16_tile.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {

// What joins the sums of a node.
struct Joining {
  SharedBytes constants;  // of each output channel, and then the factors
  Requantize to;
};

// Whether it is a product of all pixels, one by one, that this processor has the vectors for.
bool TakesWords(const Shape16& shape);
// `weights` are signed ones around 0.
Result<KernelPtr> MakeWordProduct(const Node& node, const KernelOptions& options,
                                  const Shape16& shape, const Tensor& weights, Joining joining);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
