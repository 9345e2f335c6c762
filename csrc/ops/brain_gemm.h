// Products of BFLOAT_16 with sums in FLOAT_32, of the weights that MultiplyBrainRow (gemm.h) reads
// for one row: a language model reads them token by token and in chunks, and holds them once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/threads.h"

namespace qnnrt {

// Whether this processor multiplies BFLOAT_16 (AVX512-BF16, AMX). QNNRT_ISA leaves it out.
bool HasBrainGemm();

// C[m, n] = A[m, k] x B[k, n] + bias[n]. Up to some hundred rows: all of A goes by for each few
// columns of B.
struct BrainGemm {
  size_t m, n, k;
  const uint16_t* a;
  const uint32_t* packed;  // PackBrains
  const float* bias;       // null: none
  bool tile_rows;  // up to kTileRows rows on as large tiles, if there are tiles, or with their sums
  bool own_cache;  // what a thread reads of the whole graph's weights stays in its core's own cache
};
// Some of C, `ldc` floats from row to row, which may be changed. No rows lie between others where
// `columns` is `ldc`.
struct BrainBlock {
  size_t m0, rows, n0, columns;
  float* c;
  size_t ldc;
};
size_t BrainGemmScratch(size_t m, size_t k, bool tile_rows);  // bytes; 0: A is read where it lies
// `store` is called for each block of C once, from several threads. Only where HasBrainGemm.
void RunBrainGemm(const BrainGemm& g, void* scratch, const Threads& threads,
                  FunctionRef<void(const BrainBlock&)> store);

}  // namespace qnnrt
