// The inner loops of MatMulNBits, compiled once for each vector width.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace qnnrt {

// The bits of the largest float, 2^100, in x that loops take. Sums of it times codes and zero
// points, which they subtract from each other, would not be finite with much larger ones.
constexpr uint32_t kNBitsLargest = 0x71800000;

// Where block b has its zero point of 4 bits (NBitsWeights).
struct PackedZero {
  explicit PackedZero(size_t b)
      : byte(b / 16 * 8 + b % 2 * 4 + b % 16 / 4), shift(static_cast<int>(b / 2 % 2 * 4)) {}
  size_t byte;
  int shift;
};
constexpr size_t PackedZeroBytes(size_t blocks) { return (blocks + 15) / 16 * 8; }

// Weights as they lie, row by row.
struct NBitsWeights {
  const uint8_t* codes;
  size_t row_bytes;
  bool is_signed;
  const float* scales;  // [n, blocks]
  const int8_t* zeros;  // as many, or null
  size_t k, block, blocks;
  // Or zero points of 4 bits that count from -8, 16 in 8 bytes: those of even blocks in the lower
  // half, of odd ones in the upper one. So a vector has the one of each lane at its right end when
  // it has moved all lanes of some words by constants.
  bool packed_zeros;

  size_t zero_bytes() const { return packed_zeros ? PackedZeroBytes(blocks) : blocks; }  // of a row
  int Zero(size_t row, size_t b) const {
    if (zeros == nullptr) return 0;
    const int8_t* const from = zeros + row * zero_bytes();
    if (!packed_zeros) return from[b];
    const PackedZero at(b);
    return (static_cast<uint8_t>(from[at.byte]) >> at.shift & 15) - 8;
  }
};

// Rows of the weights that loops take at a time.
constexpr size_t kNBitsTile = 8;

struct NBitsProduct {
  NBitsWeights weights;
  size_t n;       // rows of the weights
  const char* x;  // rows of `stride` bytes, as NBitsLoops::arrange leaves them
  size_t m, stride;
  const float* bias;  // of each n, or null
  float* c;           // [m, ldc]
  size_t ldc;
  size_t step;  // with one row of x: NBitsStep, or 0 where rows are read in order
};

// Rows of fewer bytes of codes may be read in the order of addresses: a tile of them fits the L1
// cache beside those that are fetched. From here on it is slower.
constexpr size_t kNBitsInOrder = 2048;

// From one to the next of the kNBitsTile rows that loops for one row of x may take together, which
// are then as far apart as they can be. Not a multiple of 4 KiB, in bytes of codes: each set of the
// L1 cache would have to hold lines of all of them. Rows behind the last whole step are taken as
// neighbours.
constexpr size_t NBitsStep(size_t n, size_t row_bytes) {
  const size_t step = n / kNBitsTile;
  return step > 1 && step * row_bytes % 4096 == 0 && row_bytes % 4096 != 0 ? step - 1 : step;
}

struct NBitsLoops {
  // A row of x is put into the order in which a vector of words has the codes, a chunk of words
  // after the other, each with what is needed of it beside its elements.
  size_t chunk, chunk_bytes;  // elements, and bytes that they take
  bool one_row_apart;         // they heed NBitsProduct::step
  // False where x has something beyond kNBitsLargest.
  bool (*arrange)(const float* x, size_t k, size_t block, char* to);
  // Tiles [first, end) of the weights' rows, of which the last one may have fewer.
  void (*dots)(const NBitsProduct& product, size_t first, size_t end);
  // Elements [begin, begin + count) of a row as floats; begin is a multiple of 128.
  void (*unpack)(const NBitsWeights& weights, size_t row, size_t begin, size_t count, float* to);

  // use(first, end) for the rows of the weights that these tiles have: neighbours, or, for one row
  // of x where there is a step, kNBitsTile runs of them that are equally far apart.
  template <typename Use>
  void Runs(const NBitsProduct& p, size_t first, size_t end, const Use& use) const {
    const size_t step = one_row_apart && p.m == 1 ? p.step : 0;
    const size_t last = std::min(end, step), behind = std::max(first, step);
    for (size_t i = 0; first < last && i < kNBitsTile; ++i) use(i * step + first, i * step + last);
    if (behind < end) use(behind * kNBitsTile, std::min(p.n, end * kNBitsTile));
  }

  size_t RowBytes(size_t k, size_t blocks) const {
    const size_t sums = (blocks * sizeof(float) + 63) / 64 * 64;  // of blocks of x
    return (k + chunk - 1) / chunk * chunk_bytes + sums;
  }
};

// Whether this machine has AVX512-VNNI, and it may be used.
bool CpuHasVnni();

// Whether one core reads fastest in the order of addresses (Zen 5 and what comes after it), not at
// some places at a time.
bool CpuReadsInOrder();

// Of 4 or 8 bits, for this machine, and of x with 1 to 3 digits of 8 bits where loops make it
// integers.
const NBitsLoops& NBitsFor(int bits, int digits);

}  // namespace qnnrt
