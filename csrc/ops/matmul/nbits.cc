#include "ops/matmul/nbits.h"

#include <array>
#include <atomic>
#include <vector>

#include "ops/gemm.h"
#include "ops/matmul/nbits_loops.h"
#include "ops/matmul/nbits_panels.h"
#include "ops/own_tiles.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

struct Geometry {
  size_t m, n, k, block, blocks;
  int bits;
};

Result<Geometry> Read(const Node& node) {
  const Tensor &in = *node.inputs[0], &codes = *node.inputs[kNBitsCodes];
  const Tensor& scales = *node.inputs[kNBitsScales];
  Geometry g;
  QNNRT_RETURN_IF_ERROR(CheckRange("block_size", node.Int("block_size"), 16, INT32_MAX));
  QNNRT_RETURN_IF_ERROR(CheckRange("bits", node.Int("bits"), 4, 8));
  g.bits = static_cast<int>(node.Int("bits"));
  g.block = static_cast<size_t>(node.Int("block_size"));
  g.k = in.shape.back();
  g.n = codes.shape[0];
  if ((g.bits != 4 && g.bits != 8) || !IsNBitsBlock(g.block))
    return Invalid("codes of %d bits in blocks of %zu", g.bits, g.block);
  if (g.k == 0 || g.n == 0) return Invalid("an input without elements");
  g.m = in.elements() / g.k;
  g.blocks = (g.k + g.block - 1) / g.block;
  const Shape grid = {static_cast<uint32_t>(g.n), static_cast<uint32_t>(g.blocks)};
  if (codes.shape[1] != NBitsRowBytes(g.k, static_cast<size_t>(g.bits)) || scales.shape != grid ||
      (node.HasInput(kNBitsZeros) && node.inputs[kNBitsZeros]->shape != grid)) {
    return Invalid("codes %s and scales %s for rows of %zu in blocks of %zu",
                   ShapeText(codes.shape).c_str(), ShapeText(scales.shape).c_str(), g.k, g.block);
  }
  QNNRT_RETURN_IF_ERROR(CheckShape(node, kNBitsBias, "bias", {static_cast<uint32_t>(g.n)}));
  return g;
}

class MatMulNBits final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const KernelOptions& options) {
    QNNRT_ASSIGN_OR_RETURN(const Geometry g, Read(node));
    return KernelPtr(new MatMulNBits(node, g, options));
  }

  Status Run(const ExecArgs& args) override { return few_ ? RunFew(args) : RunMany(args); }

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
        is_signed_(node.inputs[kNBitsCodes]->dtype == QNN_DATATYPE_INT_8),
        has_zeros_(node.HasInput(kNBitsZeros)),
        has_bias_(node.HasInput(kNBitsBias)),
        few_(g.m <= (NBitsPanelsFor(g.bits, 3, false) != nullptr ? kFewOfBytes : kFew)),
        row_bytes_(loops_.RowBytes(g.k, g.blocks)) {
    // What a thread unpacks stays in its cache while all rows pass by.
    constexpr size_t kFloats = 128 * 1024;
    const size_t nr = Simd().columns, threads = std::max(options.threads, 1);
    const size_t panels = std::clamp<size_t>(kFloats / (nr * g.k), 1, 8);
    columns_ = std::min(panels, PackedPanels(g.n)) * nr;
    slots_ = std::min(threads, (g.n + columns_ - 1) / columns_);
    slot_floats_ = (PackedFloats(g.k, columns_) + nr * kDepth + 15) / 16 * 16;
    if (few_) return;
    panels_ = NBitsPanelsFor(g.bits, Digits(node, options), has_zeros_);
    const size_t all = (g.n + NBitsPanels::kColumns - 1) / NBitsPanels::kColumns;
    unit_panels_ = std::clamp<size_t>(all / (4 * threads), 1, 4);
    panel_slots_ = std::min(threads, (all + unit_panels_ - 1) / unit_panels_);
  }

  // Of x, 8 bits each: as many as a float has, as a BFLOAT_16 has, or what bytes hold.
  static int Digits(const Node& node, const KernelOptions& options) {
    if (node.Int("activation_bits") == 8) return 1;
    return (options.brain_inputs & 1) != 0 ? 2 : 3;
  }

  NBitsWeights WeightsOf(const ExecArgs& args) const {
    NBitsWeights w;
    w.codes = static_cast<const uint8_t*>(args.in[kNBitsCodes]);
    w.row_bytes = NBitsRowBytes(g_.k, static_cast<size_t>(g_.bits));
    w.is_signed = is_signed_;
    w.scales = static_cast<const float*>(args.in[kNBitsScales]);
    w.zeros = has_zeros_ ? static_cast<const int8_t*>(args.in[kNBitsZeros]) : nullptr;
    w.k = g_.k;
    w.block = g_.block;
    w.blocks = g_.blocks;
    return w;
  }

  const float* BiasOf(const ExecArgs& args) const {
    return has_bias_ ? static_cast<const float*>(args.in[kNBitsBias]) : nullptr;
  }

  Status RunFew(const ExecArgs& args) const {
    char* x = static_cast<char*>(args.scratch);
    const float* in = static_cast<const float*>(args.in[0]);
    std::array<bool, kFew> extreme{};
    for (size_t m = 0; m < g_.m; ++m) {
      extreme[m] = !loops_.arrange(in + m * g_.k, g_.k, g_.block, x + m * row_bytes_);
    }
    float* out = static_cast<float*>(args.out[0]);
    const NBitsProduct product = {WeightsOf(args), g_.n,         x,   g_.m,
                                  row_bytes_,      BiasOf(args), out, g_.n};
    // About 10 microseconds are worth a thread.
    constexpr size_t kWorthwhile = 128 * 1024;
    const size_t grain = std::max<size_t>(1, kWorthwhile / (kNBitsTile * g_.k * g_.m));
    args.threads.For((g_.n + kNBitsTile - 1) / kNBitsTile, grain, [&](size_t begin, size_t end) {
      loops_.dots(product, begin, end);
      loops_.Runs(g_.m, g_.n, begin, end, [&](size_t first, size_t last) {
        for (size_t m = 0; m < g_.m; ++m) {
          if (extreme[m]) PlainDots(product, in + m * g_.k, m, first, last);
          const size_t at = m * g_.n + first;
          if (!post_ops_.empty()) post_ops_.Apply(args, out + at, at, last - first);
        }
      });
    });
    return Status::Ok();
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
    return ForOwnTiles(
        args.threads, panel_slots_, (g_.n + columns - 1) / columns, [&](size_t unit, size_t slot) {
          MultiplyUnit(args, x, m0, rows, unit * columns, std::min(columns, g_.n - unit * columns),
                       x + TilesBytes() + slot * NBitsPanels::kPanelBytes);
          return Status::Ok();
        });
  }

  // Rows [m0, m0 + rows) of the results, columns [first, first + count).
  void MultiplyUnit(const ExecArgs& args, const char* x, size_t m0, size_t rows, size_t first,
                    size_t count, char* panel) const {
    const NBitsWeights weights = WeightsOf(args);
    const float* bias = BiasOf(args);
    float* out = static_cast<float*>(args.out[0]) + m0 * g_.n;
    const size_t pieces = (g_.k + NBitsPanels::kDepth - 1) / NBitsPanels::kDepth;
    const size_t depth = ((g_.k + pieces - 1) / pieces + 127) / 128 * 128;  // about the same
    for (size_t n = first; n < first + count; n += NBitsPanels::kColumns) {
      const size_t columns = std::min(NBitsPanels::kColumns, first + count - n);
      for (size_t k = 0; k < g_.k; k += depth) {
        const size_t end = std::min(g_.k, k + depth), chunk = Chunk();
        panels_->unpack(weights, n, columns, k, end, chunk, panel);
        panels_->multiply({x + k / chunk * panels_->row_bytes, panels_->TileBytes(g_.k, chunk),
                           rows, panel, (end - k + chunk - 1) / chunk, chunk,
                           bias == nullptr ? nullptr : bias + n, k == 0, out + n, g_.n, columns});
      }
    }
    if (post_ops_.empty()) return;
    for (size_t m = 0; m < rows; ++m) {
      const size_t at = m * g_.n + first;
      post_ops_.Apply(args, out + at, m0 * g_.n + at, count);
    }
  }

  // By panels of floats.
  Status RunFloats(const ExecArgs& args, size_t m0, size_t m) const {
    const NBitsWeights weights = WeightsOf(args);
    float* scratch = static_cast<float*>(args.scratch);
    const size_t tiles = (g_.n + columns_ - 1) / columns_;
    return ForOwnTiles(args.threads, slots_, tiles, [&](size_t tile, size_t slot) {
      float* packed = scratch + slot * slot_floats_;
      const size_t first = tile * columns_, count = std::min(columns_, g_.n - first);
      UnpackColumns(weights, first, count, packed);
      GemmShape shape;
      shape.m = m;
      shape.n = count;
      shape.depth = g_.k;
      shape.packed = packed;
      const float* bias = BiasOf(args);
      shape.bias = bias == nullptr ? nullptr : bias + first;
      float* out = static_cast<float*>(args.out[0]);
      const MatrixRows rows{static_cast<const float*>(args.in[0]) + m0 * g_.k, g_.k,
                            out + m0 * g_.n + first, g_.n};
      const FinishRows finish(post_ops_, args, out);
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
  const PostOps post_ops_;
  const bool is_signed_, has_zeros_, has_bias_, few_;
  const size_t row_bytes_;                            // of x, arranged
  size_t columns_ = 0, slots_ = 1, slot_floats_ = 0;  // of floats
  const NBitsPanels* panels_ = nullptr;
  size_t unit_panels_ = 1, panel_slots_ = 1;
};

Status Infer(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const Geometry g, Read(node));
  Shape shape = node.inputs[0]->shape;
  shape.back() = static_cast<uint32_t>(g.n);
  // A FullyConnected may take rows of any shape and write a matrix.
  if (node.HasOutput(0) && node.outputs[0]->elements() == g.m * g.n &&
      !node.outputs[0]->shape.empty() && node.outputs[0]->shape.back() == g.n) {
    shape = node.outputs[0]->shape;
  }
  (*outputs)[0] = std::move(shape);
  return Status::Ok();
}

}  // namespace

OpDef MatMulNBitsOp() {
  OpDef def;
  def.type = kMatMulNBits;
  def.inputs = {{"in", types::kFloat, PortSpec::kOne, -1, 1, 8},
                {"codes", types::kI8 | types::kU8, PortSpec::kOne, -1, 2, 2},
                {"scales", types::kF32, PortSpec::kOne, -1, 2, 2},
                {"zeros", types::kI8, PortSpec::kOptional, -1, 2, 2},
                {"bias", types::kF32, PortSpec::kOptional, -1, 1, 1}};
  def.outputs = {{"out", types::kFloat, PortSpec::kOne, 0, 1, 8}};
  def.params = {{"bits", ParamSpec::kInt, Required(), "4 or 8"},
                {"block_size", ParamSpec::kInt, Required(), "elements that share a scale"},
                {"activation_bits", ParamSpec::kInt, Default(32), "8: x may be rounded to bytes"}};
  def.infer = Infer;
  def.portable = MatMulNBits::Make;
  def.flags = OpDef::kPostOps | OpDef::kInternal | OpDef::kSumsInside;
  return def;
}

}  // namespace qnnrt
