// Activations for results that are rounded to BFLOAT_16.
#pragma once

#include "ops/elementwise/activation.h"

namespace qnnrt {

// A loop over floats with relative errors below 2^-17, hundreds of times less than rounding to
// BFLOAT_16 adds. Null: there is none but the exact one.
UnaryLoop CoarseLoop(Activation activation);

}  // namespace qnnrt
