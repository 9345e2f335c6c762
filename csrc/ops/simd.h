// The inner loops that the portable kernels share, compiled once for each vector width and picked
// when the library is loaded. Everything here is float32, unless it is said to be BFLOAT_16,
// unaligned, without side effects.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qnnrt {

constexpr size_t kMaxTileRows = 12;     // the most rows of a tile on any machine
constexpr size_t kMaxTileColumns = 32;  // and columns
constexpr size_t kMaxTaps = 64;         // the most taps in one call: what fits the caller's stack
constexpr size_t kPixels = 4;           // output pixels of one depthwise call
constexpr size_t kGroupedPixels = 8;    // and of one call for groups of channels

constexpr size_t kRowPanels = 4;

// A tile of fewer rows has no loads to spare for fetching what is read later: two and three rows do
// so where `ahead` is set, one never.
constexpr size_t kFetchingRows = 4;

// At least low, at most high; what is no number stays none.
struct GemmLimits {
  float low, high;
};

// What follows the sums of a tile, where they are whole: `first` limits them, then `add` is added,
// and `last` limits that.
struct GemmEnd {
  const float* const* add;  // `rows` row starts, like C's; null: nothing is added
  GemmLimits first, last;
};

// C[rows, columns] = bias + sum over taps of A_tap[rows, depth] x B_tap[depth, columns].
// A's rows are pointers (tap-major, `a_stride` to a tap), so that a convolution reads its input
// where it lies. B is a panel of Simd().columns columns, one tap after the other.
struct GemmTile {
  const float* const* a;
  size_t a_stride;
  size_t taps, depth;
  const float* b;
  size_t ldb;         // from one row of B to the next
  const float* bias;  // Simd().columns values; null adds to what C holds
  float* const* c;    // `rows` row starts
  size_t c_offset;    // first column
  size_t rows;        // 1 to Simd().rows
  size_t columns;     // 1 to Simd().columns
  // What is read after this tile, if anything, fetched into the second cache meanwhile:
  // `ahead_step` bytes with each row of B.
  const void* ahead = nullptr;
  size_t ahead_step = 0;
  const GemmEnd* end = nullptr;
};

// out[p][c] = bias[c] + sum over taps of in[tap][p][c] * weights[tap][c], for kPixels pixels.
struct DepthwisePixels {
  const float* const* in;  // [taps][kPixels]
  const float* weights;    // [taps][channels], `ldw` apart
  size_t ldw;
  const float* bias;  // null adds to what out holds
  float* const* out;  // [pixels]
  size_t pixels;      // 1 to kPixels; `in` is valid for all kPixels
  size_t taps;
  size_t channels;
};

// A line of a depthwise convolution of BFLOAT_16 by 3x3 taps that lie side by side, each column of
// the input loaded once for all that see it: out[x][c] = the sum of lines[kh][first + x * stride +
// kw][c] * weights[kh * 3 + kw][c], with a bias, at least low, at most high.
struct BrainWindow {
  const uint16_t* lines[3];  // null: outside of the input
  size_t columns;            // of them; those left and right of them are zeros
  int64_t first;
  size_t stride;  // 1 or 2
  const float* weights;
  const float* bias;
  float low, high;
  uint16_t* narrow;  // null: `wide` is written
  float* wide;
  size_t pixels, channels;  // of the output; kWidth channels or more
};

// The same where a channel sees all `group` channels of its group, i of them in order:
// out[p][c] = bias[c] + sum over taps and i of in[tap][p][c / group * group + i] *
// weights[tap][i][c]. For the groups that TakesGroups() names.
struct GroupedPixels {
  const float* const* in;  // [taps][kGroupedPixels]
  const float* weights;    // as PackGroups() leaves them
  const float* bias;
  float* const* out;  // [pixels]
  size_t pixels;      // 1 to kGroupedPixels; `in` is valid for all kGroupedPixels
  size_t taps, channels, group;
};

// Of a 3x3 convolution by F(2x2, 3x3) of Winograd and Lavin: the 4x4 pixels under a square of 2x2
// outputs as the 16 values whose products with the weights' are summed over the channels.
struct WinogradIn {
  const float* const* in;  // [4][4] pixels
  float* out;              // [16], `stride` apart
  size_t stride;
  size_t channels;  // kWinogradLeast or more
};
// And back: the 2x2 outputs, with a bias and limits.
struct WinogradOut {
  const float* in;  // [16], `stride` apart, readable up to a whole vector
  size_t stride;
  const float* bias;  // `channels` values or null
  float low, high;
  float* const* out;  // [2][2] pixels; null: one that there is not
  size_t channels;
};
constexpr size_t kWinogradValues = 16;
constexpr size_t kWinogradLeast = 16;  // channels: a vector of any machine

// Of two vectors, of a vector and one value, of one value and a vector; out may be a.
struct BrainLoops {
  using Fn = void (*)(const void* a, const void* b, void* out, size_t count);
  Fn vv, vs, sv;
};

struct Half {  // FLOAT_16
  uint16_t bits;
};

struct SimdKernels {
  const char* name;
  size_t rows, columns;  // of a tile
  void (*gemm)(const GemmTile&);
  // c = from + a[depth] x `panels` (1 to kRowPanels) whole panels of B, of `depth` rows each; from
  // may be c itself, or null: zeros. From memory, several streams at a time come faster than one.
  void (*row)(const float* a, size_t depth, const float* b, size_t panels, const float* from,
              float* c);
  // The same of B in BFLOAT_16: for each column two rows side by side, the last filled up with a
  // zero.
  void (*brain_row)(const float* a, size_t depth, const uint32_t* b, size_t panels,
                    const float* from, float* c);
  // Of B in FLOAT_16, row by row.
  void (*half_row)(const float* a, size_t depth, const Half* b, size_t panels, const float* from,
                   float* c);
  void (*depthwise)(const DepthwisePixels&);
  void (*brain_window)(const BrainWindow&);
  void (*grouped)(const GroupedPixels&);
  void (*winograd_in)(const WinogradIn&);
  void (*winograd_out)(const WinogradOut&);
  float (*sum)(const float* x, size_t count);
  float (*sum_squares)(const float* x, size_t count, float shift);  // of x - shift
  float (*dot)(const float* x, const float* y, size_t count);
  void (*add)(float* out, const float* x, size_t count);                           // out += x
  void (*add_squares)(float* out, const float* x, size_t count);                   // out += x * x
  void (*multiply_add)(float* out, const float* x, const float* y, size_t count);  // out += x * y
  void (*max)(float* out, const float* x, size_t count);                           // out = max
  void (*add_scaled)(float* out, const float* x, float s, size_t count);           // out += s * x
  // out += sum over `rows` (1 to 8) of factors[r] * (row r of x, `ldx` apart)
  void (*add_rows)(float* out, const float* x, size_t ldx, const float* factors, size_t rows,
                   size_t count);
  // c += x, in `rows` of `columns`; their rows are `ldc` and `ldx` apart
  void (*add_block)(float* c, size_t ldc, const float* x, size_t ldx, size_t rows, size_t columns);
  // out = c, in rows as well
  void (*store_block)(float* out, size_t ldo, const float* c, size_t ldc, size_t rows,
                      size_t columns);
  void (*scale)(float* out, const float* x, float s, size_t count);  // out = s * x
  // out = x * w + b
  void (*affine)(float* out, const float* x, const float* w, const float* b, size_t count);
  // out = (x - shift) * factor * w + b; w or b may be null
  void (*normalize)(float* out, const float* x, float shift, float factor, const float* w,
                    const float* b, size_t count);
  // out[c] = the sum over `rows` of x[row][c], or of (x[row][c] - shift[c])^2; `ldx` from row to
  // row
  void (*column_sums)(float* out, const float* x, size_t ldx, size_t rows, size_t count);
  void (*column_squares)(float* out, const float* x, size_t ldx, size_t rows, const float* shift,
                         size_t count);
  // out = (x - shift) * w + b, all of them vectors
  void (*shifted_affine)(float* out, const float* x, const float* shift, const float* w,
                         const float* b, size_t count);
  // Of x in BFLOAT_16.
  struct {
    float (*sum)(const uint16_t* x, size_t count);
    float (*sum_squares)(const uint16_t* x, size_t count, float shift);
    // out = x * w + b, at least low, at most high, in rows of `count`; x's are `ldx` apart
    void (*clamped_affine)(uint16_t* out, const uint16_t* x, const float* w, const float* b,
                           float low, float high, size_t ldx, size_t rows, size_t count);
    void (*normalize)(uint16_t* out, const uint16_t* x, float shift, float factor, const float* w,
                      const float* b, size_t count);
    void (*column_sums)(float* out, const uint16_t* x, size_t ldx, size_t rows, size_t count);
    void (*column_squares)(float* out, const uint16_t* x, size_t ldx, size_t rows,
                           const float* shift, size_t count);
    void (*shifted_affine)(float* out, const uint16_t* x, const float* shift, const float* w,
                           const float* b, size_t count);
    void (*rounded_affine)(uint16_t* out, const uint16_t* x, const float* shift, const float* w,
                           const float* b, size_t count);  // the same, rounded
    void (*clamp)(uint16_t* out, const uint16_t* x, float low, float high, size_t count);
    void (*add_block)(float* c, size_t ldc, const uint16_t* x, size_t ldx, size_t rows,
                      size_t columns);
    // out = c, rounded
    void (*store_block)(uint16_t* out, size_t ldo, const float* c, size_t ldc, size_t rows,
                        size_t columns);
    // out = a op b: [0] of b in BFLOAT_16, [1] of b in FLOAT_32
    BrainLoops add[2], subtract[2], multiply[2], divide[2];
  } brain;
};

const SimdKernels& Simd();

// Channels of a vector of `grouped`.
size_t GroupWidth();
// Whether a vector's channels are whole groups of 2, 4 or 8, or of one group, and there is a vector
// of them.
bool TakesGroups(size_t channels, size_t group);
// Weights [rows][channels], a row for each channel of a group and tap, as one vector of channels
// after the other; the last vector overlaps the one before.
size_t GroupsFloats(size_t rows, size_t channels);
void PackGroups(const float* weights, size_t rows, size_t channels, float* packed);

}  // namespace qnnrt
