// What the encoding of a fixed-point tensor must keep to.
#pragma once

#include "ir/tensor.h"
#include "support/status.h"

namespace qnnrt {

// The least and the greatest integer of a fixed-point tensor; bitwidth 0: all bits of the type.
struct FixedRange {
  int64_t low, high;
};
FixedRange RangeOf(Qnn_DataType_t type, uint32_t bitwidth);

// Whether the elements of `a`, in their order, are those of `b` as they are stored: two tensors of
// one type that have one encoding, or the same scales along an axis that the shape of each has at
// the same position.
bool SameStored(const Tensor& a, const Tensor& b);

// The rules: an encoding is there; every scale is positive and finite; every offset has its zero
// point (-offset) among the integers of the type; the bit width is one of the type; the axis is
// one of the tensor's, with a scale for each of its indices; blocks cover a static tensor evenly.
// Types that are not fixed-point have no rules. Errors: 7004, with the tensor's name and the rule.
Status CheckEncoding(const Tensor& tensor);

}  // namespace qnnrt
