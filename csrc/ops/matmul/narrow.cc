// MatMul and FullyConnected of BFLOAT_16 or FLOAT_16 with constant weights, which stay as they are.
#include <algorithm>

#include "ops/brain_gemm.h"
#include "ops/constant_reader.h"
#include "ops/gemm.h"
#include "ops/isa.h"
#include "ops/matmul/matmul.h"
#include "ops/stored_floats.h"
#include "ops/weights.h"

namespace qnnrt {
namespace {

// FLOAT_16 that a decoder reads token by token, and in chunks before: no cache holds all of its
// weights, and one form of them is enough for up to so many rows. Else products in FLOAT_32 of
// weights that were widened once take less time.
constexpr size_t kOneOfMany = 512 << 10, kChunk = 128;  // a thread's rows, too

// Whether one row is multiplied on tiles, or with the sums of tiles where a thread reads more than
// its core's own cache holds: that takes several products 1.1 times as long as vectors' own sums.
bool OnTiles(const MatMulGeometry& g, uint64_t weight_bytes) {
  constexpr uint64_t kMost = uint64_t{5} << 19;
  const bool only = g.k * g.n * sizeof(uint16_t) > weight_bytes / 2;
  return weight_bytes <= (only ? kMost : KernelOptions::kOwnCache);
}

// Rows of BFLOAT_16 are multiplied by instructions for it where there are such. On Intel's one row
// only where its weights are likely to be in a cache: from memory it takes as long or longer than
// in FLOAT_32 (on Zen 5 0.75 to 0.85 of that). Else one row is multiplied in FLOAT_32, more by
// panels of the weights that are widened for all.
class NarrowMatMul final : public Kernel, public ConstantReader {
 public:
  NarrowMatMul(const Node& node, const MatMulGeometry& g, const KernelOptions& options)
      : g_(g),
        cached_(options.weights_in_cache()),
        tile_rows_(cached_ && (g.m > 1 || OnTiles(g, options.weight_bytes))),
        own_cache_(options.weight_bytes / static_cast<unsigned>(std::max(1, options.threads)) <=
                   KernelOptions::kOwnCache),
        half_(node.inputs[1]->dtype == QNN_DATATYPE_FLOAT_16),
        post_ops_(node),
        a_(*node.inputs[0]),
        out_(*node.outputs[0]),
        has_bias_(node.HasInput(2)),
        bias_(*node.inputs[has_bias_ ? 2 : 1]) {}

  Status Pack(const Node& node, const KernelOptions& options) {
    const auto pack = [&](void* to) {
      const uint16_t* b = node.inputs[1]->data_as<uint16_t>();
      const NarrowMatrix matrix =
          g_.transpose_b ? NarrowMatrix{b, 1, g_.k} : NarrowMatrix{b, g_.n, 1};
      if (half_) {
        PackHalves(matrix, g_.k, g_.n, static_cast<Half*>(to));
      } else {
        PackBrains(matrix, g_.k, g_.n, static_cast<uint32_t*>(to));
      }
      return Status::Ok();
    };
    const size_t size = half_ ? PackedHalfBytes(g_.k, g_.n) : PackedBrainBytes(g_.k, g_.n);
    const char* what = half_ ? "MatMul of FLOAT_16" : "MatMul of BFLOAT_16";
    QNNRT_ASSIGN_OR_RETURN(packed_,
                           PackWeights(options, 1, size, PanelLayout(what, g_.k, g_.n), pack));
    return {};
  }

  Status Run(const ExecArgs& args) override {
    const BeforeReader before(next());
    if (!multiplies_brains()) {
      g_.m == 1 ? RunRow(args) : RunWidened(args);
      return {};
    }
    char* scratch = static_cast<char*>(args.scratch);
    const float* bias = nullptr;
    if (has_bias_) {
      bias = bias_.Read(args.in[2], 0, g_.n, reinterpret_cast<float*>(scratch + BrainScratch()));
    }
    const BrainGemm gemm = {g_.m,     g_.n, g_.k,       static_cast<const uint16_t*>(args.in[0]),
                            brains(), bias, tile_rows_, own_cache_};
    RunBrainGemm(gemm, scratch, args.threads, [&](const BrainBlock& block) { Store(args, block); });
    return {};
  }

  void FirstReads(size_t share, size_t shares, NextReads* to) const override {
    if (g_.m != 1) return;
    const size_t rows = half_ ? g_.k : (g_.k + 1) / 2 * 2;
    const size_t panel = rows * Simd().columns * sizeof(uint16_t);
    AddPanels(packed_->data(), panel, PackedPanels(g_.n), share, shares, to);
  }

  size_t ScratchBytes() const override {
    if (multiplies_brains()) return BrainScratch() + (widens_bias() ? RowRoom(g_.n) : 0);
    if (g_.m > 1) return a_.narrow() ? RowRoom(g_.m * g_.k) : 0;
    return (a_.narrow() ? RowRoom(g_.k) : 0) + (widens_bias() ? RowRoom(g_.n) : 0) +
           (out_.narrow() ? RowRoom(g_.n) : 0);
  }
  bool ReadsInput(size_t i) const override { return i != 1; }
  size_t WeightBytes() const override { return packed_->size(); }

 private:
  bool multiplies_brains() const {
    return !half_ && HasBrainGemm() && (g_.m > 1 || (a_.narrow() && (cached_ || !CpuIsIntel())));
  }
  size_t BrainScratch() const { return BrainGemmScratch(g_.m, g_.k, tile_rows_); }
  bool widens_bias() const { return has_bias_ && bias_.narrow(); }
  static constexpr size_t kMostColumns = 4 * kMaxTileColumns;  // of a block
  static size_t RowRoom(size_t floats) { return ScratchRoom(floats * sizeof(float)); }

  void RunRow(const ExecArgs& args) const {
    char* scratch = static_cast<char*>(args.scratch);
    const auto take = [&](bool needed, size_t floats) {
      float* room = reinterpret_cast<float*>(scratch);
      scratch += needed ? RowRoom(floats) : 0;
      return room;
    };
    const float* a = a_.Read(args.in[0], 0, g_.k, take(a_.narrow(), g_.k));
    const float* bias = nullptr;
    float* room = take(widens_bias(), g_.n);
    if (has_bias_) bias = bias_.Read(args.in[2], 0, g_.n, room);
    float* out = out_.Place(args.out[0], 0, take(out_.narrow(), g_.n));
    if (half_) {
      MultiplyHalfRow(a, g_.k, g_.n, halves(), bias, out, args.threads);
    } else {
      MultiplyBrainRow(a, g_.k, g_.n, brains(), bias, out, args.threads);
    }
    post_ops_.Apply(args, out, 0, g_.n);
    out_.Store(out, args.out[0], 0, g_.n);
  }

  const Half* halves() const { return static_cast<const Half*>(packed_->data()); }
  const uint32_t* brains() const { return static_cast<const uint32_t*>(packed_->data()); }

  // Rows [m0, m0 + rows) times a panel.
  void MultiplyPanel(const float* a, size_t m0, size_t rows, size_t panel, float* c,
                     size_t ldc) const {
    const size_t nr = Simd().columns;
    if (half_) {
      MultiplyHalfPanel(a + m0 * g_.k, rows, g_.k, halves() + panel * g_.k * nr, c, ldc);
    } else {
      const uint32_t* pairs = brains() + panel * ((g_.k + 1) / 2) * nr;
      MultiplyBrainPanel(a + m0 * g_.k, rows, g_.k, pairs, c, ldc);
    }
  }

  void RunWidened(const ExecArgs& args) const {
    constexpr size_t kGrain = 16 * 1024, kWorthwhile = 1024 * 1024;  // floats, products
    const float* a = static_cast<const float*>(args.in[0]);
    if (a_.narrow()) {
      float* wide = static_cast<float*>(args.scratch);
      args.threads.For(g_.m * g_.k, kGrain, [&](size_t begin, size_t end) {
        a_.Read(args.in[0], begin, end - begin, wide + begin);
      });
      a = wide;
    }
    // Some panels at a time: what is done with a row of results has more to do then.
    constexpr size_t kPanels = kMostColumns / kMaxTileColumns;
    const size_t nr = Simd().columns, panels = PackedPanels(g_.n), ldc = kPanels * nr;
    const size_t groups = (panels + kPanels - 1) / kPanels, blocks = (g_.m + kChunk - 1) / kChunk;
    const size_t work = std::max<size_t>(1, std::min(g_.m, kChunk) * ldc * g_.k);
    args.threads.For(
        groups * blocks, std::max<size_t>(1, kWorthwhile / work), [&](size_t begin, size_t end) {
          alignas(64) float c[kChunk * kPanels * kMaxTileColumns];
          for (size_t unit = begin; unit < end; ++unit) {
            const size_t m0 = unit % blocks * kChunk, p = unit / blocks * kPanels;
            const size_t rows = std::min(kChunk, g_.m - m0), count = std::min(kPanels, panels - p);
            for (size_t i = 0; i < count; ++i) MultiplyPanel(a, m0, rows, p + i, c + i * nr, ldc);
            const BrainBlock block = {m0, rows, p * nr, std::min(ldc, g_.n - p * nr), c, ldc};
            if (has_bias_) AddBias(args, block);
            Store(args, block);
          }
        });
  }

  void AddBias(const ExecArgs& args, const BrainBlock& block) const {
    float buffer[kMostColumns];
    const float* bias = bias_.Read(args.in[2], block.n0, block.columns, buffer);
    Simd().add_block(block.c, block.ldc, bias, 0, block.rows, block.columns);
  }

  void Store(const ExecArgs& args, const BrainBlock& block) const {
    const size_t at = block.m0 * g_.n + block.n0;
    post_ops_.Apply(args, {block.c, block.ldc, block.rows, block.columns, at, g_.n});
    if (!out_.narrow()) {
      Simd().store_block(static_cast<float*>(args.out[0]) + at, g_.n, block.c, block.ldc,
                         block.rows, block.columns);
    } else if (!half_) {
      Simd().brain.store_block(static_cast<uint16_t*>(args.out[0]) + at, g_.n, block.c, block.ldc,
                               block.rows, block.columns);
    } else {
      for (size_t i = 0; i < block.rows; ++i) {
        out_.Store(block.c + i * block.ldc, args.out[0], at + i * g_.n, block.columns);
      }
    }
  }

  const MatMulGeometry g_;
  const bool cached_, tile_rows_, own_cache_;
  const bool half_;  // FLOAT_16
  const PostOps post_ops_;
  const StoredFloats a_, out_;
  const bool has_bias_;
  const StoredFloats bias_;
  SharedBytes packed_;
};

}  // namespace

Result<KernelPtr> MakeNarrowMatMul(const Node& node, const MatMulGeometry& g,
                                   const KernelOptions& options) {
  const Tensor &a = *node.inputs[0], &b = *node.inputs[1];
  if (NarrowFloatOf(b.dtype) == nullptr || !b.is_static() || g.batches != 1 || g.transpose_a)
    return KernelPtr();
  const auto stored = [&](const Tensor& t) {
    return t.dtype == b.dtype || t.dtype == QNN_DATATYPE_FLOAT_32;
  };
  const bool half = b.dtype == QNN_DATATYPE_FLOAT_16;
  const bool in_memory = g.m <= kChunk && g.k * g.n * sizeof(Half) >= kOneOfMany;
  const bool rows = half ? in_memory && stored(a) : HasBrainGemm() ? a.dtype == b.dtype : stored(a);
  if (!(g.m == 1 ? stored(a) : rows)) return KernelPtr();
  if (!stored(*node.outputs[0]) || (node.HasInput(2) && !stored(*node.inputs[2])))
    return KernelPtr();
  auto kernel = std::make_unique<NarrowMatMul>(node, g, options);
  QNNRT_RETURN_IF_ERROR(kernel->Pack(node, options));
  return KernelPtr(std::move(kernel));
}

}  // namespace qnnrt
