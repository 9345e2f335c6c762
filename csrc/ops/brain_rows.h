// Few rows of BFLOAT_16 times weights that lie in a cache, where they are multiplied at its speed.
#pragma once

#include "ops/brain_gemm.h"

namespace qnnrt {

constexpr size_t kBrainColumns = 32;  // of a panel on a processor with AVX-512

// One row, read in whole pairs.
void RunBrainRow(const BrainGemm& g, const uint16_t* a, const Threads& threads,
                 FunctionRef<void(const BrainBlock&)> store);
// One row that is the sum of two, the second one behind the pairs of the first one.
void RunBrainHalves(const BrainGemm& g, const uint16_t* a, const Threads& threads,
                    FunctionRef<void(const BrainBlock&)> store);
// Up to kTileRows rows on matrix tiles, read in whole tiles of the depth; or one, with their sums,
// read in whole pairs.
void RunBrainTileRows(const BrainGemm& g, const uint16_t* a, size_t lda, const Threads& threads,
                      FunctionRef<void(const BrainBlock&)> store);

}  // namespace qnnrt
