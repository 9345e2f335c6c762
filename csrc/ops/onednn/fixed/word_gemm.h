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

constexpr size_t kWordColumns = 32;  // of a panel of packed weights

// B[k, n] = data[k * row_stride + n * column_stride]
struct ByteMatrix {
  const int8_t* data;
  size_t row_stride, column_stride;
};
// Of `runs` times k rows: where numbers of A lie in so many runs of k.
size_t PackedWordBytes(size_t runs, size_t k, size_t n);
void PackWordWeights(const ByteMatrix& b, size_t runs, size_t k, size_t n, int8_t* packed);

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

// The steps of it, for what is not a matrix but windows of pixels.

// n numbers to n high bytes, and to low ones `low` behind them. Writes up to 31 bytes more.
void SplitWordRow(const uint16_t* in, uint8_t* high, size_t n, size_t low, uint16_t flip);
// Rows of A in bytes, of which four are multiplied in a step.
struct WordRows {
  const uint8_t* high;  // of the first row
  size_t row, low;      // from a row to the next one, and from high bytes to low ones
  const size_t* steps;  // where those of each step begin; null: beside each other
  size_t step_count;
};
size_t WordSteps(size_t k);  // of k numbers
struct WordPanel {
  const int8_t* weights;
  size_t column, columns;  // in constants, factors and joins; a multiple of kWordColumns
  const int8_t* ahead;     // fetched meanwhile, with so many bytes a step
  size_t ahead_step;
};
// `rows` rows of a panel; `out`: the first one's codes, with g.n from row to row.
void RunWordPanel(const WordGemm& g, const WordRows& a, const WordPanel& panel, size_t rows,
                  void* out);
// Tiles that `rows` rows are computed in; the step with which so many fetch a panel.
size_t WordTilesOf(size_t rows);
size_t WordAhead(size_t tiles);

}  // namespace qnnrt::onednn
