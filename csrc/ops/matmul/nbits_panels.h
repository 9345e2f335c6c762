// MatMulNBits for many rows with AVX512-VNNI: products of bytes, four at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/matmul/nbits_loops.h"

namespace qnnrt {

// C[rows, columns] of a panel of weights.
struct NBitsPanelProduct {
  const char* x;  // tiles of rows, as `arrange` leaves them, from the first chunk of this piece on
  size_t tile_bytes;  // from one tile of rows to the next
  size_t rows;
  const char* panel;
  size_t chunks, chunk;  // of the panel, and elements of each
  const float* bias;     // of each column, or null
  bool first;            // else what C holds is added to
  float* c;
  size_t ldc, columns;
};

// A row of x is cut into chunks, each an integer for each element and what an integer of 1 stands
// for. An integer has some digits of 8 bits.
struct NBitsPanels {
  static constexpr size_t kRows = 6, kColumns = 32;
  static constexpr size_t kDepth = 384;  // elements of a piece: with x's they stay in the L1 cache
  static constexpr size_t kPanelBytes = kDepth / 16 * 1408;

  size_t row_bytes;  // of a chunk of a tile of rows
  // 1 to kRows rows of `k` elements. False where one has something beyond kNBitsLargest.
  bool (*arrange)(const float* x, size_t rows, size_t k, size_t chunk, char* to);
  // Elements [begin, end) of `count` rows of the weights from `first` on; begin is a multiple of
  // 128.
  void (*unpack)(const NBitsWeights& weights, size_t first, size_t count, size_t begin, size_t end,
                 size_t chunk, char* to);
  void (*multiply)(const NBitsPanelProduct& product);

  static size_t Chunk(size_t block) { return block < 32 ? 16 : 32; }
  size_t TileBytes(size_t k, size_t chunk) const { return (k + chunk - 1) / chunk * row_bytes; }
};

// With 1 to 3 digits; null where the machine has no such products.
const NBitsPanels* NBitsPanelsFor(int bits, int digits, bool zeros);

}  // namespace qnnrt
