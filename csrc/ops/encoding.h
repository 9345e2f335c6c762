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

// `count` elements, two in a byte, the first one in its low half.
void Unpack4(const uint8_t* packed, uint64_t count, bool is_signed, uint8_t* to);
// The data of a tensor with two elements in a byte in bytes; null: out of memory.
std::shared_ptr<AlignedBytes> Unpacked(const Tensor& tensor);
// Elements of 8 bits of which an encoding uses only the low `bits`: the rest is not looked at, as
// in the vendor's backend, and becomes what the number needs.
void KeepLowBits(uint32_t bits, uint64_t count, bool is_signed, uint8_t* elements);

}  // namespace qnnrt
