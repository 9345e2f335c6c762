// Scales and addends for each channel, from 8-bit codes to 8-bit codes: what is left of a product,
// a sum or a normalization with constants along the last axis.
#pragma once

#include "ops/op.h"
#include "support/threads.h"

namespace qnnrt::fixed {

struct Affine {
  double factor = 1, addend = 0;  // of real numbers
};

// A kernel that computes one multiply-add for each element of input number `input`. There is one
// where constants are found with which all 256 codes of every channel get the codes of the op,
// which `exact(channel, results)` writes; else, and where it does not pay, null.
Result<KernelPtr> MakeFixedAffine(const Node& node, size_t input,
                                  FunctionRef<Affine(size_t)> affine,
                                  FunctionRef<void(size_t, uint8_t*)> exact);

}  // namespace qnnrt::fixed
