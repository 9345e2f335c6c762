// Convolutions and products cut along their pixels or rows, of which each thread has a part from
// its first step to its last; in BFLOAT_16, with activations behind few terms, in strips.
#pragma once

#include "ops/onednn/shapes.h"

#ifdef QNNRT_ONEDNN_HEADERS

namespace qnnrt::onednn {

// Makes the kernel of a part, which is a convolution on one thread.
using MakePart = Result<KernelPtr> (*)(const Node&, const KernelOptions&);

// The convolution in parts, where that is the better way for so many threads; else null.
Result<KernelPtr> MakeParts(const Node& node, const KernelOptions& options, const ConvShape& c,
                            int threads, MakePart make);

// A product of rows, which lie one after the other, by constant weights in parts of rows, in the
// same way. `pixels`: `make` makes convolutions of them (IsFasterAsConv).
Result<KernelPtr> MakeRowParts(const Node& node, const KernelOptions& options, int threads,
                               bool pixels, MakePart make);

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
