#include "ops/matmul/nbits.h"

#include <array>
#include <atomic>
#include <vector>

#include "ops/constant_reader.h"
#include "ops/gemm.h"
#include "ops/isa.h"
#include "ops/matmul/nbits_loops.h"
#include "ops/matmul/nbits_panels.h"
#include "ops/own_tiles.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

// Which inputs a matrix has, 0 for what is left out, and its rows.
struct Matrix {
  size_t codes, scales, zeros, bias;
  size_t n;
  size_t first;  // of the tiles of all matrices: its first
  bool packed_zeros;
  size_t tiles() const { return (n + kNBitsTile - 1) / kNBitsTile; }
};

struct Geometry {
  size_t m, k, block, blocks;
  int bits;
  bool is_signed;
  std::vector<Matrix> matrices;  // an output each
  size_t tiles() const { return matrices.back().first + matrices.back().tiles(); }
};

Result<std::vector<Matrix>> MatricesOf(const Node& node) {
  std::vector<Matrix> found;
  if (node.type == kMatMulNBits) {
    const auto given = [&](size_t i) { return node.HasInput(i) ? i : 0; };
    found.push_back(
        {kNBitsCodes, kNBitsScales, given(kNBitsZeros), given(kNBitsBias), 0, 0, false});
    return found;
  }
  const size_t zeros = node.Bool("zeros") ? 1 : 0, bias = node.Bool("bias") ? 1 : 0;
  const size_t each = 2 + zeros + bias;
  if (node.inputs.size() != 1 + each * node.outputs.size())
    return Invalid("%zu inputs for %zu matrices", node.inputs.size(), node.outputs.size());
  for (size_t i = 1; i < node.inputs.size(); i += each)
    found.push_back({i, i + 1, zeros * (i + 2), bias * (i + 2 + zeros), 0, 0, false});
  return found;
}

Status Read(const Node& node, Matrix* matrix, const Geometry& g) {
  const Tensor &codes = *node.inputs[matrix->codes], &scales = *node.inputs[matrix->scales];
  matrix->n = codes.shape[0];
  if (matrix->n == 0) return Invalid("an input without elements");
  const Shape grid = {codes.shape[0], static_cast<uint32_t>(g.blocks)};
  const Tensor* zeros = matrix->zeros != 0 ? node.inputs[matrix->zeros] : nullptr;
  matrix->packed_zeros = zeros != nullptr && zeros->dtype == QNN_DATATYPE_UINT_8;
  if (matrix->packed_zeros && g.bits != 4) return Invalid("zero points of 4 bits for codes of 8");
  Shape zeros_grid = grid;
  if (matrix->packed_zeros) zeros_grid[1] = static_cast<uint32_t>(PackedZeroBytes(g.blocks));
  if (codes.shape != Shape{codes.shape[0], static_cast<uint32_t>(
                                               NBitsRowBytes(g.k, static_cast<size_t>(g.bits)))} ||
      scales.shape != grid || (zeros != nullptr && zeros->shape != zeros_grid)) {
    return Invalid("codes %s and scales %s for rows of %zu in blocks of %zu",
                   ShapeText(codes.shape).c_str(), ShapeText(scales.shape).c_str(), g.k, g.block);
  }
  if (matrix->bias == 0) return {};
  return CheckShape(node, matrix->bias, "bias", {codes.shape[0]});
}

Result<Geometry> Read(const Node& node) {
  const Tensor& in = *node.inputs[0];
  Geometry g;
  QNNRT_RETURN_IF_ERROR(CheckRange("block_size", node.Int("block_size"), 16, INT32_MAX));
  QNNRT_RETURN_IF_ERROR(CheckRange("bits", node.Int("bits"), 4, 8));
  g.bits = static_cast<int>(node.Int("bits"));
  g.block = static_cast<size_t>(node.Int("block_size"));
  g.k = in.shape.back();
  if ((g.bits != 4 && g.bits != 8) || !IsNBitsBlock(g.block))
    return Invalid("codes of %d bits in blocks of %zu", g.bits, g.block);
  if (g.k == 0) return Invalid("an input without elements");
  g.m = in.elements() / g.k;
  g.blocks = (g.k + g.block - 1) / g.block;
  QNNRT_ASSIGN_OR_RETURN(g.matrices, MatricesOf(node));
  g.is_signed = node.inputs[g.matrices[0].codes]->dtype == QNN_DATATYPE_INT_8;
  size_t tiles = 0;
  for (Matrix& matrix : g.matrices) {
    const Tensor& codes = *node.inputs[matrix.codes];
    if (codes.dtype != node.inputs[g.matrices[0].codes]->dtype)
      return Invalid("codes with and without a sign");
    QNNRT_RETURN_IF_ERROR(Read(node, &matrix, g));
    matrix.first = tiles;
    tiles += matrix.tiles();
  }
  return g;
}

class MatMulNBits final : public Kernel, public ConstantReader {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
    QNNRT_ASSIGN_OR_RETURN(const Geometry g, Read(node));
    return KernelPtr(new MatMulNBits(node, g, options));
  }

  Status Run(const ExecArgs& args) override { return few_ ? RunFew(args) : RunMany(args); }

  void FirstReads(size_t share, size_t shares, NextReads* to) const override {
    if (!few_) return;
    const size_t begin = share * g_.tiles() / shares;
    for (const Matrix& matrix : g_.matrices) {
      if (begin >= matrix.first + matrix.tiles()) continue;
      const NBitsWeights w = WeightsOf(in(), matrix);
      const auto add = [&](size_t first, size_t end) {
        for (const NextReads::Place& place : PlacesOf(w, first, end - first))
          to->Add(place.data, place.bytes);
      };
      if (begin <= matrix.first) {
        add(0, matrix.n);
      } else {
        loops_.Runs(
            NBitsProduct{w, matrix.n, nullptr, g_.m, 0, nullptr, nullptr, 0, StepOf(matrix)},
            begin - matrix.first, matrix.tiles(), add);
      }
    }
  }

  size_t ScratchBytes() const override {
    if (few_) return g_.m * row_bytes_;
    const size_t floats = slots_ * slot_floats_ * sizeof(float);
    if (panels_ == nullptr) return floats;
    return std::max(floats, TilesBytes() + panel_slots_ * NBitsPanels::kPanelBytes);
  }

 private:
  // Up to so many rows multiply the codes as they come; for more they are unpacked first, which is
  // worth it sooner where they become bytes.
  static constexpr size_t kFew = 8, kFewOfBytes = 5;
  static constexpr size_t kDepth = 256;    // floats of a row that are unpacked at a time
  static constexpr size_t kRowTiles = 22;  // whose digits a core's L2 cache holds

  MatMulNBits(const Node& node, const Geometry& g, const KernelOptions& options)
      : g_(g),
        loops_(NBitsFor(g.bits, Digits(node, options))),
        post_ops_(node),
        activated_(node.type == kJoinedNBits ? static_cast<size_t>(node.Int("activated")) : 0),
        activation_(ActivationOf(node, activated_)),
        few_(g.m <= (NBitsPanelsFor(g.bits, 3, false) != nullptr ? kFewOfBytes : kFew)),
        row_bytes_(loops_.RowBytes(g.k, g.blocks)) {
    // What a thread unpacks stays in its cache while all rows pass by.
    constexpr size_t kFloats = 128 * 1024;
    const size_t nr = Simd().columns, threads = std::max(options.threads, 1);
    const size_t panels = std::clamp<size_t>(kFloats / (nr * g.k), 1, 8);
    size_t most = 0;
    for (const Matrix& matrix : g.matrices) most = std::max(most, matrix.n);
    columns_ = std::min(panels, PackedPanels(most)) * nr;
    slots_ = std::min(threads, (most + columns_ - 1) / columns_);
    slot_floats_ = (PackedFloats(g.k, columns_) + nr * kDepth + 15) / 16 * 16;
    if (few_) return;
    panels_ = NBitsPanelsFor(g.bits, Digits(node, options), g.matrices[0].zeros != 0);
    const size_t all = (most + NBitsPanels::kColumns - 1) / NBitsPanels::kColumns;
    unit_panels_ = std::clamp<size_t>(all / (4 * threads), 1, 4);
    panel_slots_ = std::min(threads, (all + unit_panels_ - 1) / unit_panels_);
  }

  // As a post op.
  static PostOps ActivationOf(const Node& node, size_t activated) {
    Node behind;
    if (activated != 0) {
      behind.outputs = {node.outputs[activated - 1]};
      behind.post_ops.push_back({PostOp::Kind::kActivation,
                                 static_cast<Activation>(node.Int("activation")),
                                 node.Float("alpha"), node.Float("beta")});
    }
    return PostOps(behind);
  }

  // What comes behind a matrix.
  const PostOps& Behind(const Matrix& matrix) const {
    const size_t output = static_cast<size_t>(&matrix - g_.matrices.data());
    return output + 1 == activated_ ? activation_ : post_ops_;
  }

  // Of x, 8 bits each: as many as a float has, as a BFLOAT_16 has, or what bytes hold.
  static int Digits(const Node& node, const KernelOptions& options) {
    if (node.Int("activation_bits") == 8) return 1;
    return (options.brain_inputs & 1) != 0 ? 2 : 3;
  }

  NBitsWeights WeightsOf(const void* const* in, const Matrix& matrix) const {
    NBitsWeights w;
    w.codes = static_cast<const uint8_t*>(in[matrix.codes]);
    w.row_bytes = NBitsRowBytes(g_.k, static_cast<size_t>(g_.bits));
    w.is_signed = g_.is_signed;
    w.scales = static_cast<const float*>(in[matrix.scales]);
    w.zeros = matrix.zeros != 0 ? static_cast<const int8_t*>(in[matrix.zeros]) : nullptr;
    w.k = g_.k;
    w.block = g_.block;
    w.blocks = g_.blocks;
    w.packed_zeros = matrix.packed_zeros;
    return w;
  }

  size_t StepOf(const Matrix& matrix) const {
    const size_t row_bytes = NBitsRowBytes(g_.k, static_cast<size_t>(g_.bits));
    return CpuReadsInOrder() && row_bytes < kNBitsInOrder ? 0 : NBitsStep(matrix.n, row_bytes);
  }

  static const float* BiasOf(const ExecArgs& args, const Matrix& matrix) {
    return matrix.bias != 0 ? static_cast<const float*>(args.in[matrix.bias]) : nullptr;
  }
  float* OutOf(const ExecArgs& args, const Matrix& matrix) const {
    return static_cast<float*>(args.out[&matrix - g_.matrices.data()]);
  }

  Status RunFew(const ExecArgs& args) const {
    char* x = static_cast<char*>(args.scratch);
    const float* in = static_cast<const float*>(args.in[0]);
    std::array<bool, kFew> extreme{};
    for (size_t m = 0; m < g_.m; ++m) {
      extreme[m] = !loops_.arrange(in + m * g_.k, g_.k, g_.block, x + m * row_bytes_);
    }
    // About 10 microseconds are worth a thread.
    constexpr size_t kWorthwhile = 128 * 1024;
    const size_t grain = std::max<size_t>(1, kWorthwhile / (kNBitsTile * g_.k * g_.m));
    const BeforeReader before(next());
    args.threads.For(g_.tiles(), grain, [&](size_t begin, size_t end) {
      for (const Matrix& matrix : g_.matrices) {
        const size_t first = std::max(begin, matrix.first);
        const size_t last = std::min(end, matrix.first + matrix.tiles());
        if (first < last)
          MultiplyTiles(args, matrix, x, extreme, first - matrix.first, last - matrix.first);
      }
    });
    return Status::Ok();
  }

  void MultiplyTiles(const ExecArgs& args, const Matrix& matrix, const char* x,
                     const std::array<bool, kFew>& extreme, size_t begin, size_t end) const {
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = OutOf(args, matrix);
    const size_t n = matrix.n;
    const NBitsProduct product = {WeightsOf(args.in, matrix), n,   x, g_.m,          row_bytes_,
                                  BiasOf(args, matrix),       out, n, StepOf(matrix)};
    const PostOps& post_ops = Behind(matrix);
    loops_.dots(product, begin, end);
    loops_.Runs(product, begin, end, [&](size_t first, size_t last) {
      for (size_t m = 0; m < g_.m; ++m) {
        if (extreme[m]) PlainDots(product, in + m * g_.k, m, first, last);
        const size_t at = m * n + first;
        if (!post_ops.empty()) post_ops.Apply(args, out + at, at, last - first);
      }
    });
  }

  // Row m as the formula has it: each element meets a weight, and no zero point for itself.
  void PlainDots(const NBitsProduct& p, const float* x, size_t m, size_t first, size_t end) const {
    float row[kDepth];
    for (size_t n = first; n < end; ++n) {
      double sum = p.bias == nullptr ? 0.0f : p.bias[n];
      for (size_t k = 0; k < g_.k; k += kDepth) {
        const size_t depth = std::min(kDepth, g_.k - k);
        loops_.unpack(p.weights, n, k, depth, row);
        for (size_t i = 0; i < depth; ++i) sum += double{x[k + i]} * double{row[i]};
      }
      p.c[m * p.ldc + n] = static_cast<float>(sum);
    }
  }

  Status RunMany(const ExecArgs& args) const {
    if (panels_ == nullptr) return RunFloats(args, 0, g_.m);
    constexpr size_t kMost = kRowTiles * NBitsPanels::kRows;
    for (size_t m0 = 0; m0 < g_.m; m0 += kMost) {
      QNNRT_RETURN_IF_ERROR(RunPanels(args, m0, std::min(kMost, g_.m - m0)));
    }
    return Status::Ok();
  }

  size_t Chunk() const { return NBitsPanels::Chunk(g_.block); }
  size_t TilesBytes() const {
    const size_t tiles = (g_.m + NBitsPanels::kRows - 1) / NBitsPanels::kRows;
    return std::min(tiles, kRowTiles) * panels_->TileBytes(g_.k, Chunk());
  }

  // As integers, by panels of codes that each thread unpacks piece by piece.
  Status RunPanels(const ExecArgs& args, size_t m0, size_t rows) const {
    constexpr size_t kRows = NBitsPanels::kRows;
    const size_t tile_bytes = panels_->TileBytes(g_.k, Chunk());
    char* x = static_cast<char*>(args.scratch);
    const float* in = static_cast<const float*>(args.in[0]) + m0 * g_.k;
    const size_t grain = 1 + 16 * 1024 / (kRows * g_.k);
    std::atomic<bool> extreme{false};
    args.threads.For((rows + kRows - 1) / kRows, grain, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        if (!panels_->arrange(in + i * kRows * g_.k, std::min(kRows, rows - i * kRows), g_.k,
                              Chunk(), x + i * tile_bytes))
          extreme = true;
      }
    });
    if (extreme) return RunFloats(args, m0, rows);
    const size_t columns = unit_panels_ * NBitsPanels::kColumns;
    for (const Matrix& matrix : g_.matrices) {
      const size_t units = (matrix.n + columns - 1) / columns;
      QNNRT_RETURN_IF_ERROR(
          ForOwnTiles(args.threads, panel_slots_, units, [&](size_t unit, size_t slot) {
            const size_t first = unit * columns;
            MultiplyUnit(args, matrix, x, m0, rows, first, std::min(columns, matrix.n - first),
                         x + TilesBytes() + slot * NBitsPanels::kPanelBytes);
            return Status::Ok();
          }));
    }
    return Status::Ok();
  }

  // What so many rows of the weights have: codes, scales, zero points.
  static QNNRT_INLINE std::array<NextReads::Place, 3> PlacesOf(const NBitsWeights& w, size_t row,
                                                               size_t count) {
    const auto place = [&](const void* data, size_t bytes) {
      return NextReads::Place{static_cast<const char*>(data) + row * bytes, count * bytes};
    };
    return {place(w.codes, w.row_bytes), place(w.scales, w.blocks * sizeof(float)),
            place(w.zeros, w.zeros != nullptr ? w.zero_bytes() : 0)};
  }

  // A part of what `count` rows of the weights have, for a panel that is unpacked next: so it comes
  // from memory while rows of x pass by the one before. It may be another thread's, in whose cache
  // it is not, but no more in memory alone. Inline, since GCC takes calls that only fetch for calls
  // without effect.
  static QNNRT_INLINE void FetchPart(const NBitsWeights& w, size_t row, size_t count, size_t part,
                                     size_t parts) {
    for (const NextReads::Place& place : PlacesOf(w, row, count)) {
      const size_t end = place.bytes * (part + 1) / parts;
      for (size_t at = place.bytes * part / parts / 64 * 64; at < end; at += 64)
        __builtin_prefetch(place.data + at, 0, 2);
    }
  }

  // Rows [m0, m0 + rows) of the results, columns [first, first + count).
  void MultiplyUnit(const ExecArgs& args, const Matrix& matrix, const char* x, size_t m0,
                    size_t rows, size_t first, size_t count, char* panel) const {
    const NBitsWeights weights = WeightsOf(args.in, matrix);
    const float* bias = BiasOf(args, matrix);
    float* out = OutOf(args, matrix) + m0 * matrix.n;
    const size_t pieces = (g_.k + NBitsPanels::kDepth - 1) / NBitsPanels::kDepth;
    const size_t depth = ((g_.k + pieces - 1) / pieces + 127) / 128 * 128;  // about the same
    for (size_t n = first; n < first + count; n += NBitsPanels::kColumns) {
      const size_t columns = std::min(NBitsPanels::kColumns, first + count - n);
      for (size_t k = 0; k < g_.k; k += depth) {
        const size_t end = std::min(g_.k, k + depth), chunk = Chunk();
        panels_->unpack(weights, n, columns, k, end, chunk, panel);
        FetchPart(weights, n + columns, std::min(NBitsPanels::kColumns, matrix.n - n - columns),
                  k / depth, (g_.k + depth - 1) / depth);
        panels_->multiply({x + k / chunk * panels_->row_bytes, panels_->TileBytes(g_.k, chunk),
                           rows, panel, (end - k + chunk - 1) / chunk, chunk,
                           bias == nullptr ? nullptr : bias + n, k == 0, out + n, matrix.n,
                           columns});
      }
    }
    const PostOps& post_ops = Behind(matrix);
    if (post_ops.empty()) return;
    for (size_t m = 0; m < rows; ++m) {
      const size_t at = m * matrix.n + first;
      post_ops.Apply(args, out + at, m0 * matrix.n + at, count);
    }
  }

  // By panels of floats.
  Status RunFloats(const ExecArgs& args, size_t m0, size_t m) const {
    for (const Matrix& matrix : g_.matrices) QNNRT_RETURN_IF_ERROR(RunFloats(args, matrix, m0, m));
    return Status::Ok();
  }

  Status RunFloats(const ExecArgs& args, const Matrix& matrix, size_t m0, size_t m) const {
    const NBitsWeights weights = WeightsOf(args.in, matrix);
    float* scratch = static_cast<float*>(args.scratch);
    const size_t n = matrix.n, tiles = (n + columns_ - 1) / columns_;
    return ForOwnTiles(args.threads, slots_, tiles, [&](size_t tile, size_t slot) {
      float* packed = scratch + slot * slot_floats_;
      const size_t first = tile * columns_, count = std::min(columns_, n - first);
      UnpackColumns(weights, first, count, packed);
      GemmShape shape;
      shape.m = m;
      shape.n = count;
      shape.depth = g_.k;
      shape.packed = packed;
      const float* bias = BiasOf(args, matrix);
      shape.bias = bias == nullptr ? nullptr : bias + first;
      float* out = OutOf(args, matrix);
      const MatrixRows rows{static_cast<const float*>(args.in[0]) + m0 * g_.k, g_.k,
                            out + m0 * n + first, n};
      const FinishRows finish(Behind(matrix), args, out);
      shape.finish = finish.at_once();
      RunGemm(shape, Threads(1), rows, finish);
      return Status::Ok();
    });
  }

  // Rows [first, first + count) of the weights, as panels of columns.
  void UnpackColumns(const NBitsWeights& weights, size_t first, size_t count, float* packed) const {
    const size_t nr = Simd().columns;
    float* rows = packed + PackedFloats(g_.k, columns_);
    for (size_t n0 = 0; n0 < count; n0 += nr, packed += nr * g_.k) {
      const size_t columns = std::min(nr, count - n0);
      for (size_t k = 0; k < g_.k; k += kDepth) {
        const size_t depth = std::min(kDepth, g_.k - k);
        for (size_t n = 0; n < columns; ++n)
          loops_.unpack(weights, first + n0 + n, k, depth, rows + n * kDepth);
        PackPanels({rows, 1, kDepth}, depth, columns, 0, 1, packed + k * nr);
      }
    }
  }

  const Geometry g_;
  const NBitsLoops& loops_;
  const PostOps post_ops_;    // of the only matrix
  const size_t activated_;    // 1 + the number of one of several
  const PostOps activation_;  // of that one
  const bool few_;
  const size_t row_bytes_;                            // of x, arranged
  size_t columns_ = 0, slots_ = 1, slot_floats_ = 0;  // of floats
  const NBitsPanels* panels_ = nullptr;
  size_t unit_panels_ = 1, panel_slots_ = 1;
};

Status CheckActivation(const Node& node) {
  const int64_t outputs = static_cast<int64_t>(node.outputs.size());
  QNNRT_RETURN_IF_ERROR(CheckRange("activated", node.Int("activated"), 0, outputs));
  const int64_t last = static_cast<int64_t>(kLastActivation), activation = node.Int("activation");
  QNNRT_RETURN_IF_ERROR(CheckRange("activation", activation, 0, last));
  if (DefOf(static_cast<Activation>(activation)).fuses) return Status::Ok();
  return Invalid("activation %lld does not come behind others", static_cast<long long>(activation));
}

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  if (node.type == kJoinedNBits) QNNRT_RETURN_IF_ERROR(CheckActivation(node));
  QNNRT_ASSIGN_OR_RETURN(const Geometry g, Read(node));
  for (size_t i = 0; i < g.matrices.size(); ++i) {
    const size_t n = g.matrices[i].n;
    Shape shape = node.inputs[0]->shape;
    shape.back() = static_cast<uint32_t>(n);
    // A FullyConnected may take rows of any shape and write a matrix.
    if (node.HasOutput(i) && node.outputs[i]->elements() == g.m * n &&
        !node.outputs[i]->shape.empty() && node.outputs[i]->shape.back() == n) {
      shape = node.outputs[i]->shape;
    }
    (*outputs)[i] = std::move(shape);
  }
  return Status::Ok();
}

std::vector<ParamSpec> Params() {
  return {{"bits", ParamSpec::kInt, Required(), "4 or 8"},
          {"block_size", ParamSpec::kInt, Required(), "elements that share a scale"},
          {"activation_bits", ParamSpec::kInt, Default(32), "8: x may be rounded to bytes"}};
}

}  // namespace

OpDef MatMulNBitsOp() {
  OpDef def;
  def.type = kMatMulNBits;
  def.inputs = {{"in", types::kFloat, PortSpec::kOne, -1, 1, 8},
                {"codes", types::kI8 | types::kU8, PortSpec::kOne, -1, 2, 2},
                {"scales", types::kF32, PortSpec::kOne, -1, 2, 2},
                {"zeros", types::kI8 | types::kU8, PortSpec::kOptional, -1, 2, 2},
                {"bias", types::kF32, PortSpec::kOptional, -1, 1, 1}};
  def.outputs = {{"out", types::kFloat, PortSpec::kOne, 0, 1, 8}};
  def.params = Params();
  def.infer = Infer;
  def.portable = MatMulNBits::Make;
  def.flags = OpDef::kPostOps | OpDef::kInternal | OpDef::kSumsInside;
  return def;
}

OpDef JoinedNBitsOp() {
  OpDef def;
  def.type = kJoinedNBits;
  def.inputs = {{"in", types::kFloat, PortSpec::kOne, -1, 1, 8},
                {"codes, scales, zeros, bias, ...", types::kI8 | types::kU8 | types::kF32,
                 PortSpec::kVariadic, -1, 1, 2}};
  def.outputs = {{"out[0..m]", types::kFloat, PortSpec::kVariadic, 0, 1, 8}};
  def.params = Params();
  def.params.push_back({"zeros", ParamSpec::kBool, Required(), "each matrix has zero points"});
  def.params.push_back({"bias", ParamSpec::kBool, Required(), "each matrix has a bias"});
  def.params.push_back({"activated", ParamSpec::kInt, Default(0),
                        "which output has an activation behind it, from 1 on; 0: none"});
  def.params.push_back({"activation", ParamSpec::kInt, Default(0), "its number"});
  def.params.push_back({"alpha", ParamSpec::kFloat, Default(0.0), "of the activation"});
  def.params.push_back({"beta", ParamSpec::kFloat, Default(0.0), "of the activation"});
  def.infer = Infer;
  def.portable = MatMulNBits::Make;
  def.flags = OpDef::kInternal | OpDef::kSumsInside;
  return def;
}

}  // namespace qnnrt
