// What Lstm and Gru share: a sequence's layout, and weights that come as one matrix for each gate.
#pragma once

#include <vector>

#include "ops/gemm.h"
#include "ops/op.h"
#include "ops/tiles.h"
#include "ops/weights.h"
#include "support/threads.h"

namespace qnnrt {

// Input [T, N, I] when time-major, else [N, T, I]; [N, I] is one step.
struct Sequence {
  size_t steps = 1, batch = 0, input = 0;
  bool time_major = true, reverse = false;
  size_t rank = 3;

  size_t rows() const { return steps * batch; }
  // The row of [T, N, ...] or [N, T, ...] that holds a step of a batch entry.
  size_t Row(size_t step, size_t n) const {
    return time_major ? step * batch + n : n * steps + step;
  }
  Shape OutputShape(const Shape& in, uint32_t width) const {
    Shape shape = in;
    shape.back() = width;
    return shape;
  }
};
Result<Sequence> ReadSequence(const Node& node);

// Matrices [units, k] of several gates, stacked and packed into one [k, gates x units].
class GateWeights {
 public:
  // `inputs` are the node's input numbers, in the order of the gates; `rows` are multiplied by them
  // at once, of input `by` or of values that no tensor has.
  static constexpr size_t kNoInput = 64;
  GateWeights(const Node& node, std::vector<size_t> inputs, size_t rows, size_t by = kNoInput);
  // Packs now when all are static.
  Status Prepare(const Node& node, const KernelOptions& options);
  bool packed() const { return packed_ != nullptr; }
  bool Holds(size_t input) const;  // a static input that is not read any more
  size_t k() const { return k_; }
  size_t n() const { return n_; }
  size_t ScratchFloats() const;
  size_t WeightBytes() const { return packed_ ? packed_->size() : 0; }
  // Rows that results need room for.
  size_t RoomRows() const { return form_ == kTiles ? TiledRows() : rows_; }
  // The packed form: kept, or made in `scratch` from this run's inputs.
  const float* Get(const ExecArgs& args, float* scratch) const;

  // C rows [n0, n0 + n()) (+)= A x weights. Row i of A is at a + i * lda, of C at c(i); those of C
  // for values of `by` lie one behind the other. `packed` is from Get, with the same scratch. Every
  // other step goes `backwards`: weights that are more than a core's own cache are in it still
  // where the step before ended, and never where it began.
  template <typename RowOf>
  void Multiply(const float* packed, float* scratch, const float* bias, bool accumulate,
                const float* a, size_t lda, const RowOf& c, const Threads& threads,
                bool backwards = false) const;

 private:
  // Values that come from BFLOAT_16 are kept so, in half of the bytes, where they are fetched for a
  // row or two, and where the processor multiplies them in tiles: by such values as they are
  // (kTiles), by floats as sums of two of them (kHalves).
  enum Form : uint8_t { kFloats, kBrains, kTiles, kHalves };
  Form FormOf(const KernelOptions& options) const;
  bool tiled() const { return form_ == kTiles || form_ == kHalves; }
  // Rows of operands on tiles.
  size_t TiledRows() const {
    return TilesOf(form_ == kHalves ? 2 * rows_ : rows_, kTileRows) * kTileRows;
  }
  void MultiplyOnTiles(const float* packed, float* scratch, const float* bias, const float* a,
                       size_t lda, float* c, const Threads& threads) const;
  void MultiplyHalves(const float* packed, float* scratch, const float* bias, bool accumulate,
                      const float* a, size_t lda, FunctionRef<float*(size_t)> c,
                      const Threads& threads) const;
  void MultiplySplitRows(const float* packed, float* scratch, const float* bias, bool accumulate,
                         const float* a, size_t lda, FunctionRef<float*(size_t)> c,
                         const Threads& threads) const;

  const std::vector<size_t> inputs_;
  const size_t rows_, by_;
  size_t units_ = 0, k_ = 0, n_ = 0;
  Form form_ = kFloats;
  bool splits_rows_ = false;  // of kBrains: each row is multiplied as the sum of two BFLOAT_16
  SharedBytes packed_;
};

template <typename RowOf>
void GateWeights::Multiply(const float* packed, float* scratch, const float* bias, bool accumulate,
                           const float* a, size_t lda, const RowOf& c, const Threads& threads,
                           bool backwards) const {
  if (form_ == kTiles) return MultiplyOnTiles(packed, scratch, bias, a, lda, c(0), threads);
  if (form_ == kHalves)
    return MultiplyHalves(packed, scratch, bias, accumulate, a, lda, c, threads);
  if (splits_rows_) return MultiplySplitRows(packed, scratch, bias, accumulate, a, lda, c, threads);
  if (form_ == kBrains) {
    for (size_t i = 0; i < rows_; ++i) {
      float* row = c(i);
      MultiplyBrainRow(a + i * lda, k_, n_, reinterpret_cast<const uint32_t*>(packed),
                       accumulate ? row : bias, row, threads);
    }
    return;
  }
  GemmShape shape;
  shape.m = rows_;
  shape.n = n_;
  shape.depth = k_;
  shape.packed = packed;
  shape.bias = bias;
  shape.accumulate = accumulate;
  shape.repeated = true;  // from step to step
  shape.backwards = backwards;
  const auto row_pointers = [&](size_t m, size_t count, size_t, size_t, const float** in,
                                float** out) {
    for (size_t i = 0; i < count; ++i) {
      in[i] = a + (m + i) * lda;
      out[i] = c(m + i);
    }
    return TapRange{0, 1};
  };
  RunGemm(shape, threads, row_pointers, [](float* const*, size_t, size_t, size_t) {});
}

// Room in scratch, handed out piece by piece, each on a cache line of its own.
class ScratchPlan {
 public:
  size_t Take(size_t floats) {
    const size_t at = floats_;
    floats_ += (floats + 15) / 16 * 16;
    return at;
  }
  size_t bytes() const { return floats_ * sizeof(float); }

 private:
  size_t floats_ = 0;
};

// The values that a node with an input `reset` carries from run to run, in args.persistent. Zeros
// there, as after a reset of the whole graph, mean that there was no run yet.
class CarriedState {
 public:
  CarriedState(const Node& node, size_t reset_input)
      : reset_(reset_input), kept_(node.HasInput(reset_input)) {}
  bool kept() const { return kept_; }
  // Room for one more vector of the state, here or, when nothing is kept, in scratch.
  size_t Take(size_t floats, ScratchPlan* scratch) {
    return kept_ ? plan_.Take(floats) : scratch->Take(floats);
  }
  size_t Bytes() const { return kept_ ? sizeof(Header) + plan_.bytes() : 0; }
  float* At(size_t at, const ExecArgs& args) const {
    char* base = static_cast<char*>(args.persistent) + sizeof(Header);
    return (kept_ ? reinterpret_cast<float*>(base) : static_cast<float*>(args.scratch)) + at;
  }
  // Whether this run begins with the initial state rather than with what the last one left.
  bool Begin(const ExecArgs& args) const {
    if (!kept_) return true;
    Header* header = static_cast<Header*>(args.persistent);
    const bool begins = !header->carries || *static_cast<const uint8_t*>(args.in[reset_]) != 0;
    header->carries = true;
    return begins;
  }

 private:
  struct alignas(64) Header {
    bool carries;
  };
  const size_t reset_;
  const bool kept_;
  ScratchPlan plan_;
};
// The port of such an input, and its rule: one truth value.
PortSpec ResetPort();
Status CheckReset(const Node& node, size_t reset_input);

[[gnu::cold]] OpDef LstmOp();
[[gnu::cold]] OpDef GruOp();

}  // namespace qnnrt
