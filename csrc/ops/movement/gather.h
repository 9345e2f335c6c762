#pragma once

#include "ops/op.h"

namespace qnnrt {

OpList ScatterOps();   // ScatterElements, ScatterNd: scatter.cc
OpDef OneHotOp();      // one_hot.cc
OpDef GridSampleOp();  // resize/grid_sample.cc
OpDef RoiAlignOp();    // resize/roi_align.cc

}  // namespace qnnrt
