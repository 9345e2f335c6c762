// Products of 16-bit activations and 8-bit weights in the vectors of AVX512-VNNI. A number is two
// bytes, x = 256 * high + low; the sums of both are put together and rounded as they leave the
// registers: of all sums no more than a tile's are ever in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/onednn/fixed/split16_loops.h"
#include "ops/onednn/fixed/word_vectors.h"
#include "support/threads.h"

namespace qnnrt::onednn {

// Whether this processor has the instructions, and no matrix tiles, which are faster. QNNRT_ISA
// leaves them out.
bool HasWordGemm();

// B[k, n] = data[k * row_stride + n * column_stride]
struct ByteMatrix {
  const int8_t* data;
  size_t row_stride, column_stride;
};
size_t PackedWordBytes(size_t k, size_t n);
void PackWordWeights(const ByteMatrix& b, size_t k, size_t n, int8_t* packed);

// out[m, n] = code of (A[m, k] x B[k, n] + constants[n]) * factors[n], exact up to the product with
// the factor, rounded half to even. k up to 65,000: a sum of bytes fits 32 bits.
struct WordGemm {
  size_t n, k;
  const uint16_t* a;
  uint16_t flip;         // 0x8000: A is signed, and the constants are for numbers 32768 higher
  const int8_t* packed;  // PackWordWeights
  const double *constants, *factors;
  const WordJoins* joins;  // the same for codes of 16 bits
  Requantize to;
  void* out;         // codes
  size_t out_bytes;  // of a code, 1 or 2
};
// Bytes, on a boundary of 64.
size_t WordGemmScratch(size_t rows, size_t k);
// Rows [first, first + rows) of the result; `threads` share its columns.
void RunWordGemm(const WordGemm& g, size_t first, size_t rows, void* scratch,
                 const Threads& threads);

}  // namespace qnnrt::onednn
