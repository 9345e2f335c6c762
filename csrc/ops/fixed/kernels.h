// What rows of the op table have as OpDef::fixed, by family. Each takes a validated node with at
// least one fixed-point tensor, gives what MakeViaFloat would give, and returns null for what it
// leaves to that.
#pragma once

#include "ops/op.h"

namespace qnnrt {

Result<KernelPtr> MakeFixedBatchnorm(const Node& node, const KernelOptions&);
Result<KernelPtr> MakeFixedBinary(const Node& node, const KernelOptions&);
Result<KernelPtr> MakeFixedBuffer(const Node& node, const KernelOptions&);  // recurrent/buffer.cc
Result<KernelPtr> MakeFixedConvert(const Node& node, const KernelOptions&);
Result<KernelPtr> MakeFixedSoftmax(const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeFixedSelect(const Node& node, const KernelOptions&);
Result<KernelPtr> MakeFixedUnary(const Node& node, const KernelOptions& options);

// movement/fixed/move.cc: an op with OpDef::kMoves, and any op on the integers that fixed-point
// numbers are.
Result<KernelPtr> MakeFixedMove(const OpDef& def, const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeOnIntegers(const OpDef& def, const Node& node, const KernelOptions& options);
Result<KernelPtr> MakeFixedConcat(const Node& node,
                                  const KernelOptions&);  // movement/fixed/concat.cc
Result<KernelPtr> MakeFixedPoolAvg(const Node& node, const KernelOptions&);    // pool/fixed/sums.cc
Result<KernelPtr> MakeFixedReduceSum(const Node& node, const KernelOptions&);  // pool/fixed/sums.cc
Result<KernelPtr> MakeFixedResize(const Node& node,
                                  const KernelOptions& options);  // resize/fixed/resize.cc
Result<KernelPtr> MakeFixedRows(const Node& node, const KernelOptions& options);  // rows.cc

}  // namespace qnnrt
