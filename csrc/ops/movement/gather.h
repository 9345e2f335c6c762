#pragma once

#include "ops/op.h"

namespace qnnrt {

[[gnu::cold]] OpList ScatterOps();          // ScatterElements, ScatterNd: scatter.cc
[[gnu::cold]] OpDef OneHotOp();             // one_hot.cc
[[gnu::cold]] OpDef NonZeroOp();            // non_zero.cc
[[gnu::cold]] OpDef NonMaxSuppressionOp();  // detection/non_max_suppression.cc
[[gnu::cold]] OpDef GridSampleOp();         // resize/grid_sample.cc
[[gnu::cold]] OpDef RoiAlignOp();           // resize/roi_align.cc

}  // namespace qnnrt
