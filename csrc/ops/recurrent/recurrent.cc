// What Lstm (lstm.cc) and Gru (gru.cc) share.
#include "ops/recurrent/recurrent.h"

#include <algorithm>
#include <cstring>

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

}  // namespace

// By the node and the processor alone, so that a context binary's weights are found again.
GateWeights::Form GateWeights::FormOf(const KernelOptions& options) const {
  const auto brains = [&](size_t i) { return i < 64 && ((options.brain_inputs >> i) & 1) != 0; };
  if (!std::all_of(inputs_.begin(), inputs_.end(), brains)) return kFloats;
  if (rows_ <= kBrainRows) return kBrains;
  return brains(by_) && n_ % kTileColumns == 0 && HasTiles() ? kTiles : kFloats;
}

Status GateWeights::Prepare(const Node& node, const KernelOptions& options) {
  for (size_t i : inputs_) {
    if (!node.inputs[i]->is_static()) return Status::Ok();
  }
  form_ = FormOf(options);
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
      form_ == kTiles ? "gates " + std::to_string(k_) + "x" + std::to_string(n_) + " in tiles"
                      : PanelLayout(form_ == kBrains ? "gates in BFLOAT_16" : "gates", k_, n_);
  QNNRT_ASSIGN_OR_RETURN(packed_, PackWeights(options, inputs_[0], bytes, layout, pack));
  return Status::Ok();
}

size_t GateWeights::ScratchFloats() const {
  if (form_ == kTiles) return (RoomRows() * TilesOf(k_, kTileDepth) * kTileDepth + 1) / 2;
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
