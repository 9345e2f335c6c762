// What Lstm (lstm.cc) and Gru (gru.cc) share.
#include "ops/recurrent/recurrent.h"

#include <algorithm>
#include <cstring>

#include "ops/brain_rows.h"
#include "ops/isa.h"
#include "ops/rules.h"

namespace qnnrt {

Result<Sequence> ReadSequence(const Node& node) {
  const Shape& in = node.inputs[0]->shape;
  Sequence s;
  s.rank = in.size();
  s.time_major = s.rank == 2 || node.Bool("time_major");
  s.reverse = node.Int("direction") == 1;
  s.input = in.back();
  s.batch = s.rank == 2 ? in[0] : s.time_major ? in[1] : in[0];
  s.steps = s.rank == 2 ? 1 : s.time_major ? in[0] : in[1];
  return s;
}

GateWeights::GateWeights(const Node& node, std::vector<size_t> inputs, size_t rows, size_t by)
    : inputs_(std::move(inputs)), rows_(rows), by_(by) {
  const Shape& shape = node.inputs[inputs_[0]]->shape;
  units_ = shape[0];
  k_ = shape[1];
  n_ = units_ * inputs_.size();
}

bool GateWeights::Holds(size_t input) const {
  return packed_ && std::find(inputs_.begin(), inputs_.end(), input) != inputs_.end();
}

namespace {

constexpr size_t kBrainRows = 2;    // with more, widening them each time costs more than it saves
constexpr size_t kColumnTiles = 4;  // that a thread multiplies all rows by
constexpr size_t kTileWork = 1024 * 1024;  // products worth a thread
constexpr size_t kHalvesWork = 32 * 1024;  // products worth setting up tiles
constexpr size_t kCached =
    2048 * 1024;  // weights up to which vectors wait for products, not for them
constexpr size_t kHalvesThread = 2 * kTileWork;  // and a thread: one of a few rows waits for them

size_t TileElements(size_t k, size_t n) {
  return TilesOf(k, kTileDepth) * TilesOf(n, kTileColumns) * kTileElements;
}

void Stack(const std::vector<const float*>& gates, size_t floats, float* out) {
  for (const float* gate : gates) out = std::copy_n(gate, floats, out);
}

// Of floats that are BFLOAT_16's.
void ToBrains(const float* from, size_t count, uint16_t* to) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, from + i, sizeof(bits));
    to[i] = static_cast<uint16_t>(bits >> 16);
  }
}

// x = high + low but for 2^-17 of it. The upper bits of a float are its high part, which never
// becomes infinite so.
struct Halve {
  static void Run(const float* from, size_t count, uint16_t* high, uint16_t* low) {
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits, rest;
      std::memcpy(&bits, from + i, sizeof(bits));
      const bool finite = (bits & 0x7f800000) != 0x7f800000,
                 number = (bits & 0x7fffffff) <= 0x7f800000;
      const uint32_t upper = bits & 0xffff0000;
      float above;
      std::memcpy(&above, &upper, sizeof(above));
      const float left = from[i] - above;
      std::memcpy(&rest, &left, sizeof(rest));
      high[i] = static_cast<uint16_t>(upper >> 16 | (number ? 0 : 0x40));
      low[i] = static_cast<uint16_t>(finite ? (rest + 0x7fff + (rest >> 16 & 1)) >> 16 : 0);
    }
  }
};

}  // namespace

// By the node and the processor alone, so that a context binary's weights are found again.
GateWeights::Form GateWeights::FormOf(const KernelOptions& options) const {
  const auto is_brain = [&](size_t i) { return options.IsBrain(i); };
  if (!std::all_of(inputs_.begin(), inputs_.end(), is_brain)) return kFloats;
  const bool exact = options.IsBrain(by_), few = rows_ <= kBrainRows;
  if (n_ % kTileColumns == 0 && HasTileProducts()) {
    if (exact && !few) return kTiles;
    // By vectors both halves take as long as floats.
    if (!exact && rows_ * k_ * n_ >= kHalvesWork && HasTiles()) return kHalves;
  }
  return few ? kBrains : kFloats;
}

Status GateWeights::Prepare(const Node& node, const KernelOptions& options) {
  for (size_t i : inputs_) {
    if (!node.inputs[i]->is_static()) return Status::Ok();
  }
  form_ = FormOf(options);
  splits_rows_ = form_ == kBrains && !options.IsBrain(by_) && HasBrainGemm() &&
                 rows_ * k_ * n_ >= kHalvesWork && k_ * n_ <= kCached;
  const auto pack = [&](void* packed) -> Status {
    if (form_ == kFloats && units_ % Simd().columns == 0) {  // the panels of each gate
      float* panels = static_cast<float*>(packed);
      for (size_t i : inputs_) {
        const std::optional<LyingElements> unread = node.inputs[i]->data->Unread();
        const float* gate = unread && unread->strides.empty()
                                ? reinterpret_cast<const float*>(unread->data)
                                : node.inputs[i]->data_as<float>();
        PackAll({gate, 1, k_}, k_, units_, panels, Threads(options.threads));
        panels += PackedFloats(k_, units_);
      }
      return Status::Ok();
    }
    std::vector<const float*> gates;
    for (size_t i : inputs_) gates.push_back(node.inputs[i]->data_as<float>());
    auto stacked = AlignedBytes::Make(n_ * k_ * sizeof(float));
    if (!stacked) return OutOfMemory();
    float* rows = static_cast<float*>(stacked->data());
    Stack(gates, units_ * k_, rows);
    if (form_ == kFloats) {
      PackAll({rows, 1, k_}, k_, n_, static_cast<float*>(packed), Threads(1));
      return Status::Ok();
    }
    uint16_t* narrow = reinterpret_cast<uint16_t*>(rows);
    ToBrains(rows, n_ * k_, narrow);
    const NarrowMatrix matrix = {narrow, 1, k_};
    if (form_ == kBrains) {
      PackBrains(matrix, k_, n_, static_cast<uint32_t*>(packed));
    } else {
      PackTiles(matrix, k_, n_, TilesOf(k_, kTileDepth), TilesOf(n_, kTileColumns),
                static_cast<uint16_t*>(packed));
    }
    return Status::Ok();
  };
  const size_t bytes = form_ == kFloats   ? PackedFloats(k_, n_) * sizeof(float)
                       : form_ == kBrains ? PackedBrainBytes(k_, n_)
                                          : TileElements(k_, n_) * sizeof(uint16_t);
  const std::string layout =
      tiled() ? "gates " + std::to_string(k_) + "x" + std::to_string(n_) + " in tiles"
              : PanelLayout(form_ == kBrains ? "gates in BFLOAT_16" : "gates", k_, n_);
  QNNRT_ASSIGN_OR_RETURN(packed_, PackWeights(options, inputs_[0], bytes, layout, pack));
  return Status::Ok();
}

size_t GateWeights::ScratchFloats() const {
  if (tiled()) return TiledRows() * TilesOf(k_, kTileDepth) * kTileDepth / 2;
  if (splits_rows_) return 2 * ((k_ + 1) / 2);
  return packed_ ? 0 : PackedFloats(k_, n_) + n_ * k_ + 16;
}

const float* GateWeights::Get(const ExecArgs& args, float* scratch) const {
  if (packed_) return static_cast<const float*>(packed_->data());
  float* rows = scratch + (PackedFloats(k_, n_) + 15) / 16 * 16;
  float* out = rows;
  for (size_t i : inputs_) {
    out = std::copy_n(static_cast<const float*>(args.in[i]), units_ * k_, out);
  }
  PackAll({rows, 1, k_}, k_, n_, scratch, args.threads);
  return scratch;
}

void GateWeights::MultiplyOnTiles(const float* packed, float* scratch, const float* bias,
                                  const float* a, size_t lda, float* c,
                                  const Threads& threads) const {
  const size_t depth_tiles = TilesOf(k_, kTileDepth), wide = depth_tiles * kTileDepth;
  const size_t row_tiles = RoomRows() / kTileRows, column_tiles = n_ / kTileColumns;
  uint16_t* const narrow = reinterpret_cast<uint16_t*>(scratch);
  threads.For(RoomRows(), kTileRows, [&](size_t begin, size_t end) {
    std::memset(narrow + begin * wide, 0, (end - begin) * wide * sizeof(uint16_t));
    for (size_t i = begin; i < std::min(end, rows_); ++i)
      ToBrains(a + i * lda, k_, narrow + i * wide);
  });
  const size_t work = rows_ * k_ * kColumnTiles * kTileColumns;
  threads.For(TilesOf(column_tiles, kColumnTiles), std::max<size_t>(1, kTileWork / work),
              [&](size_t begin, size_t end) {
                const TileScope tiles;
                for (size_t j = begin * kColumnTiles;
                     j < std::min(column_tiles, end * kColumnTiles); j += kColumnTiles) {
                  TileProduct p{};
                  p.lda = wide;
                  p.b = reinterpret_cast<const uint16_t*>(packed) + j * depth_tiles * kTileElements;
                  p.ldc = n_;
                  p.depth_tiles = depth_tiles;
                  p.column_tiles = std::min(kColumnTiles, column_tiles - j);
                  for (size_t i = 0; i < row_tiles; i += 2) {
                    p.row_tiles = std::min<size_t>(2, row_tiles - i);
                    p.a = narrow + i * kTileRows * wide;
                    p.c = c + i * kTileRows * n_ + j * kTileColumns;
                    MultiplyTiles(p);
                  }
                  for (size_t i = 0; bias != nullptr && i < rows_; ++i) {
                    Simd().add(c + i * n_ + j * kTileColumns, bias + j * kTileColumns,
                               p.column_tiles * kTileColumns);
                  }
                }
              });
}

// The two halves of a row of A are two rows of a tile.
void GateWeights::MultiplyHalves(const float* packed, float* scratch, const float* bias,
                                 bool accumulate, const float* a, size_t lda,
                                 FunctionRef<float*(size_t)> c, const Threads& threads) const {
  static const auto halve = PickIsa<Halve>();
  constexpr size_t kColumns = kColumnTiles * kTileColumns, kBlockRows = kTileRows;  // two tiles
  const size_t depth_tiles = TilesOf(k_, kTileDepth), wide = depth_tiles * kTileDepth;
  const size_t row_tiles = TiledRows() / kTileRows;
  uint16_t* const narrow = reinterpret_cast<uint16_t*>(scratch);
  threads.For(rows_, kTileRows, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      uint16_t *high = narrow + 2 * i * wide, *low = high + wide;
      halve(a + i * lda, k_, high, low);
      std::fill(high + k_, high + wide, uint16_t{0});
      std::fill(low + k_, low + wide, uint16_t{0});
    }
  });
  const size_t work = TiledRows() * k_ * kColumns;
  threads.For(TilesOf(n_, kColumns), std::max<size_t>(1, kHalvesThread / work),
              [&](size_t begin, size_t end) {
                const TileScope tiles;
                alignas(kLine) float sums[2 * kTileRows * kColumns];
                for (size_t j = begin * kColumns; j < std::min(n_, end * kColumns); j += kColumns) {
                  const size_t columns = std::min(kColumns, n_ - j);
                  TileProduct p{};
                  p.lda = wide;
                  p.b = reinterpret_cast<const uint16_t*>(packed) + j * wide;
                  p.c = sums;
                  p.ldc = kColumns;
                  p.depth_tiles = depth_tiles;
                  p.column_tiles = columns / kTileColumns;
                  for (size_t i = 0; i < rows_; i += kBlockRows) {
                    p.row_tiles = std::min<size_t>(2, row_tiles - i / kBlockRows * 2);
                    p.a = narrow + 2 * i * wide;
                    MultiplyTiles(p);
                    for (size_t row = i; row < std::min(rows_, i + kBlockRows); ++row) {
                      float* const to = c(row) + j;
                      const float* from = sums + 2 * (row - i) * kColumns;
                      if (!accumulate && bias != nullptr) std::copy_n(bias + j, columns, to);
                      if (!accumulate && bias == nullptr) std::fill_n(to, columns, 0.0f);
                      Simd().add(to, from, columns);
                      Simd().add(to, from + kColumns, columns);
                    }
                  }
                }
              });
}

// One row at a time, by vectors, which multiply pairs as they are: widened ones take as many
// products, and two instructions more.
void GateWeights::MultiplySplitRows(const float* packed, float* scratch, const float* bias,
                                    bool accumulate, const float* a, size_t lda,
                                    FunctionRef<float*(size_t)> c, const Threads& threads) const {
  static const auto halve = PickIsa<Halve>();
  const size_t wide = (k_ + 1) / 2 * 2;
  uint16_t *const high = reinterpret_cast<uint16_t*>(scratch), *const low = high + wide;
  for (size_t i = 0; i < rows_; ++i) {
    halve(a + i * lda, k_, high, low);
    std::fill(high + k_, high + wide, uint16_t{0});
    std::fill(low + k_, low + wide, uint16_t{0});
    float* const row = c(i);
    BrainGemm g{};
    g.m = 1;
    g.n = n_;
    g.k = k_;
    g.packed = reinterpret_cast<const uint32_t*>(packed);
    g.bias = accumulate ? row : bias;
    RunBrainHalves(g, high, threads,
                   [&](const BrainBlock& b) { std::copy_n(b.c, b.columns, row + b.n0); });
  }
}

PortSpec ResetPort() { return {"reset", types::kBool, PortSpec::kOptional, -1, 0, 1}; }

Status CheckReset(const Node& node, size_t reset_input) {
  if (!node.HasInput(reset_input) || node.inputs[reset_input]->elements() == 1) return Status::Ok();
  return Invalid("input %zu, reset, must be one value, got %s", reset_input,
                 ShapeText(node.inputs[reset_input]->shape).c_str());
}

OpList RecurrentOps() {
  OpList ops;
  ops.push_back(LstmOp());
  ops.push_back(GruOp());
  return ops;
}

}  // namespace qnnrt
