// The kernels that compute on fixed-point numbers as they are, by family. Each takes a validated
// node with at least one fixed-point tensor, gives what MakeViaFloat would give, and returns null
// for what it leaves to that.
#pragma once

#include "ops/op.h"

namespace qnnrt {

Result<KernelPtr> MakeFixedConvert(const Node& node, const KernelOptions&);  // fixed_convert.cc

}  // namespace qnnrt
