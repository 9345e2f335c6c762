// A 3x3 convolution in 16 products instead of 36: squares of 2x2 outputs by F(2x2, 3x3) of
// Winograd and Lavin. Some squares at a time are worked on from their pixels to their outputs, in
// memory of one thread that stays in its cache (docs/decisions/0038-winograd.md).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "ops/conv/conv.h"
#include "ops/gemm.h"
#include "ops/isa.h"
#include "ops/own_tiles.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

// Between rows that are multiplied: those a power of two apart share a set of L1.
constexpr size_t kApart = 16;
constexpr int64_t kLeastChannels = 32, kLeastPixels = 64;  // for which it is faster

struct Squares {  // of outputs
  int64_t high, wide;
  int64_t phases_high, phases_wide;  // a dilated convolution is as many that are not
};

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

Squares SquaresOf(const ConvGeometry& g) {
  Squares s;
  s.phases_high = g.dilation[1];
  s.phases_wide = g.dilation[2];
  s.high = CeilDiv(CeilDiv(g.out[1], s.phases_high), 2);
  s.wide = CeilDiv(CeilDiv(g.out[2], s.phases_wide), 2);
  return s;
}

size_t CountOf(const ConvGeometry& g) {
  const Squares s = SquaresOf(g);
  return static_cast<size_t>(g.batch * g.in[0] * s.phases_high * s.phases_wide * s.high * s.wide);
}

class ConvWinograd final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const ConvGeometry& g,
                                const KernelOptions& options) {
    std::unique_ptr<ConvWinograd> kernel(new ConvWinograd(node, g));
    QNNRT_RETURN_IF_ERROR(kernel->Pack(*node.inputs[1], options));
    kernel->zeros_ =
        AlignedBytes::Make(std::max(static_cast<size_t>(g.cin), kMaxTileColumns) * sizeof(float));
    if (!kernel->zeros_) return OutOfMemory();
    std::memset(kernel->zeros_->data(), 0, kernel->zeros_->size());
    kernel->Cut(static_cast<size_t>(std::max(options.threads, 1)));
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    return ForOwnTiles(args.threads, slots_, pieces_, [&](size_t piece, size_t slot) {
      const size_t first = FirstOf(piece), end = FirstOf(piece + 1);
      RunPiece(args, first, end - first, static_cast<float*>(args.scratch) + slot * SlotFloats());
      return Status::Ok();
    });
  }

  size_t ScratchBytes() const override { return slots_ * SlotFloats() * sizeof(float); }
  bool ReadsInput(size_t i) const override { return i != 1; }
  size_t WeightBytes() const override { return packed_->size(); }
  const char* Name() const override { return "winograd"; }

 private:
  ConvWinograd(const Node& node, const ConvGeometry& g)
      : g_(g),
        s_(SquaresOf(g)),
        post_ops_(node),
        clamps_(post_ops_.Clamps()),
        has_bias_(node.HasInput(2)),
        depth_(static_cast<size_t>(g.cin_per_group())),
        columns_(static_cast<size_t>(g.cout_per_group())),
        count_(CountOf(g)) {}

  // U = G g G^T with G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1], rounded once, each weight on
  // its way to its place in the panels.
  Status Pack(const Tensor& weights, const KernelOptions& options) {
    const size_t groups = static_cast<size_t>(g_.group);
    const auto fill = [&](void* to) {
      const float* from = weights.data_as<float>();
      constexpr size_t kRows = 16;  // of a panel at a time
      const size_t blocks = (depth_ + kRows - 1) / kRows;
      const size_t grain = std::max<size_t>(1, 4096 / (kRows * columns_));
      Threads(options.threads).For(groups * blocks, grain, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
          const size_t first = i % blocks * kRows;
          PackRows(from, i / blocks, first, std::min(depth_, first + kRows),
                   static_cast<float*>(to));
        }
      });
      return Status::Ok();
    };
    const std::string op = "convolution of " + std::to_string(groups) + " groups by F(2x2, 3x3)";
    QNNRT_ASSIGN_OR_RETURN(
        packed_, PackWeights(options, 1, kWinogradValues * groups * Matrix() * sizeof(float),
                             PanelLayout(op, depth_, columns_), fill));
    return {};
  }

  // The input channels [first, end) of a group, to the panels of each of the 16 values.
  void PackRows(const float* from, size_t group, size_t first, size_t end, float* packed) const {
    const size_t nr = Simd().columns, row = static_cast<size_t>(g_.cout);
    const size_t apart = static_cast<size_t>(g_.group) * Matrix();
    for (size_t n0 = 0; n0 < columns_; n0 += nr) {
      const size_t columns = std::min(nr, columns_ - n0);
      float* to = packed + group * Matrix() + n0 * depth_ + first * nr;
      for (size_t d = first; d < end; ++d, to += nr) {
        weigh_(from + d * row + group * columns_ + n0, depth_ * row, columns, to, apart);
        for (size_t f = 0; columns < nr && f < kWinogradValues; ++f)
          std::fill(to + f * apart + columns, to + f * apart + nr, 0.0f);
      }
    }
  }

  struct Weigh {
    // Taps are `tap` floats from each other, values `apart`.
    static QNNRT_INLINE void Run(const float* from, size_t tap, size_t count, float* to,
                                 size_t apart) {
      QNNRT_SIMD
      for (size_t i = 0; i < count; ++i) {
        double rows[4][3];
        for (size_t c = 0; c < 3; ++c) {
          const double g0 = from[c * tap + i], g1 = from[(3 + c) * tap + i];
          const double g2 = from[(6 + c) * tap + i], outer = .5 * (g0 + g2);
          rows[0][c] = g0;
          rows[1][c] = outer + .5 * g1;
          rows[2][c] = outer - .5 * g1;
          rows[3][c] = g2;
        }
        for (size_t r = 0; r < 4; ++r) {
          const double outer = .5 * (rows[r][0] + rows[r][2]), middle = .5 * rows[r][1];
          to[(r * 4 + 0) * apart + i] = static_cast<float>(rows[r][0]);
          to[(r * 4 + 1) * apart + i] = static_cast<float>(outer + middle);
          to[(r * 4 + 2) * apart + i] = static_cast<float>(outer - middle);
          to[(r * 4 + 3) * apart + i] = static_cast<float>(rows[r][2]);
        }
      }
    }
  };

  // As many squares at a time as stay in a core's L2, or more where reading the weights again for
  // each piece costs more than what lies between the steps; as many for each thread.
  void Cut(size_t threads) {
    const size_t cin = static_cast<size_t>(g_.cin), cout = static_cast<size_t>(g_.cout);
    const size_t held = CpuIsa() == Isa::kAvx512 ? 768 * 1024 : 192 * 1024;
    const size_t fit = held / (kWinogradValues * (InRow() + OutRow()) * sizeof(float));
    const size_t worth = depth_ * cout / (2 * (cin + cout));
    const size_t most = std::max({fit, worth, Simd().rows});
    const size_t least = (count_ + most - 1) / most;
    const size_t tiles = count_ / Simd().rows, halves = count_ / (Simd().rows / 2);
    pieces_ = std::clamp<size_t>((least + threads - 1) / threads * threads, 1,
                                 std::max<size_t>({1, tiles, std::min(threads, halves)}));
    for (size_t i = 0; i < pieces_; ++i) piece_ = std::max(piece_, FirstOf(i + 1) - FirstOf(i));
    slots_ = std::min(threads, pieces_);
  }
  // In whole tiles of rows where each piece has some, the first pieces no smaller than the next;
  // what is left goes with the last, since a few rows of their own read all weights again.
  size_t FirstOf(size_t piece) const {
    const size_t tiles = count_ / Simd().rows;
    if (tiles < pieces_) return piece * count_ / pieces_;
    return piece == pieces_ ? count_ : (piece * tiles + pieces_ - 1) / pieces_ * Simd().rows;
  }

  // Floats of a group's packed matrix, of what the squares' pixels become and of the products.
  size_t Matrix() const { return PackedFloats(depth_, columns_); }
  size_t InRow() const { return static_cast<size_t>(g_.cin) + kApart; }
  size_t OutRow() const {
    const size_t cout = static_cast<size_t>(g_.cout), nr = Simd().columns;
    return (cout + nr - 1) / nr * nr + kApart;
  }
  size_t SlotFloats() const {
    return ScratchRoom(kWinogradValues * piece_ * (InRow() + OutRow()) * sizeof(float)) /
           sizeof(float);
  }

  struct Square {
    int64_t image, y, x;  // of its first output
  };
  Square At(size_t index) const {
    Square square;
    int64_t i = static_cast<int64_t>(index);
    const int64_t x = i % s_.wide;
    i /= s_.wide;
    const int64_t y = i % s_.high;
    i /= s_.high;
    square.x = i % s_.phases_wide + 2 * x * s_.phases_wide;
    i /= s_.phases_wide;
    square.y = i % s_.phases_high + 2 * y * s_.phases_high;
    square.image = i / s_.phases_high;
    return square;
  }

  void RunPiece(const ExecArgs& args, size_t first, size_t count, float* scratch) const {
    float* const products = scratch + kWinogradValues * piece_ * InRow();
    float* const out = static_cast<float*>(args.out[0]);
    ReadSquares(static_cast<const float*>(args.in[0]), first, count, scratch);
    const float* packed = static_cast<const float*>(packed_->data());
    for (size_t f = 0; f < kWinogradValues; ++f) {
      const float* a = scratch + f * piece_ * InRow();
      float* c = products + f * piece_ * OutRow();
      for (size_t group = 0; group < static_cast<size_t>(g_.group); ++group, packed += Matrix()) {
        Multiply(a + group * depth_, count, packed, c + group * columns_);
      }
    }
    const float* bias = has_bias_ ? static_cast<const float*>(args.in[2]) : nullptr;
    WriteSquares(products, first, count, bias, out);
    if (!clamps_) Finish(args, first, count, out);
  }

  void ReadSquares(const float* in, size_t first, size_t count, float* v) const {
    const float* const zeros = static_cast<const float*>(zeros_->data());
    const float* pixels[16];
    WinogradIn to{pixels, v, piece_ * InRow(), static_cast<size_t>(g_.cin)};
    for (size_t i = 0; i < count; ++i, to.out += InRow()) {
      const Square square = At(first + i);
      for (int64_t r = 0; r < 4; ++r) {
        const int64_t y = square.y - g_.pad_before[1] + r * g_.dilation[1];
        const bool line = y >= 0 && y < g_.in[1];
        for (int64_t c = 0; c < 4; ++c) {
          const int64_t x = square.x - g_.pad_before[2] + c * g_.dilation[2];
          const bool inside = line && x >= 0 && x < g_.in[2];
          pixels[r * 4 + c] =
              inside ? in + ((square.image * g_.in[1] + y) * g_.in[2] + x) * g_.cin : zeros;
        }
      }
      Simd().winograd_in(to);
    }
  }

  void Multiply(const float* a, size_t count, const float* b, float* c) const {
    const size_t nr = Simd().columns;
    GemmTile tile{};
    tile.depth = depth_;
    tile.ldb = nr;
    tile.bias = static_cast<const float*>(zeros_->data());
    for (size_t n0 = 0; n0 < columns_; n0 += nr) {
      tile.b = b + n0 * depth_;
      tile.columns = std::min(nr, columns_ - n0);
      // What lies behind a panel is read next: another one of this matrix, or the next matrix.
      MultiplyRows(tile, a, InRow(), count, c + n0, OutRow(), {tile.b + depth_ * nr});
    }
  }

  void WriteSquares(const float* products, size_t first, size_t count, const float* bias,
                    float* out) const {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    float* pixels[4];
    const Limits limits = clamps_.value_or(Limits{-kInf, kInf});
    WinogradOut from{products, piece_ * OutRow(),           bias, limits.low, limits.high,
                     pixels,   static_cast<size_t>(g_.cout)};
    for (size_t i = 0; i < count; ++i, from.in += OutRow()) {
      const Square square = At(first + i);
      for (int64_t p = 0; p < 4; ++p) {
        const int64_t y = square.y + p / 2 * g_.dilation[1];
        const int64_t x = square.x + p % 2 * g_.dilation[2];
        pixels[p] = Inside(y, x) ? out + OffsetOf(square.image, y, x) : nullptr;
      }
      Simd().winograd_out(from);
    }
  }

  bool Inside(int64_t y, int64_t x) const { return y < g_.out[1] && x < g_.out[2]; }
  size_t OffsetOf(int64_t image, int64_t y, int64_t x) const {
    return static_cast<size_t>(((image * g_.out[1] + y) * g_.out[2] + x) * g_.cout);
  }

  // Post ops other than limits, on the outputs of a piece, in stretches that lie in one.
  void Finish(const ExecArgs& args, size_t first, size_t count, float* out) const {
    for (size_t i = 0; i < count;) {
      const Square square = At(first + i);
      size_t beside = 1;  // squares of a line that touch
      if (g_.dilation[2] == 1) {
        const size_t column = static_cast<size_t>(square.x / 2);
        beside = std::min(count - i, static_cast<size_t>(s_.wide) - column);
      }
      for (int64_t r = 0; r < 2; ++r) {
        const int64_t y = square.y + r * g_.dilation[1];
        if (g_.dilation[2] == 1) {
          const int64_t wide = std::min(g_.out[2] - square.x, 2 * static_cast<int64_t>(beside));
          if (y < g_.out[1]) Apply(args, square.image, y, square.x, wide, out);
          continue;
        }
        for (int64_t c = 0; c < 2; ++c) {
          const int64_t x = square.x + c * g_.dilation[2];
          if (Inside(y, x)) Apply(args, square.image, y, x, 1, out);
        }
      }
      i += beside;
    }
  }
  void Apply(const ExecArgs& args, int64_t image, int64_t y, int64_t x, int64_t pixels,
             float* out) const {
    const size_t offset = OffsetOf(image, y, x);
    post_ops_.Apply(args, out + offset, offset, static_cast<size_t>(pixels * g_.cout));
  }

  const ConvGeometry g_;
  const Squares s_;
  const PostOps post_ops_;
  const std::optional<Limits> clamps_;
  const bool has_bias_;
  const size_t depth_, columns_;               // of a group
  const size_t count_;                         // of squares
  size_t piece_ = 0, pieces_ = 0, slots_ = 0;  // squares at a time at most, how often, by how many
  decltype(&Weigh::Run) const weigh_ = PickIsa<Weigh>();
  SharedBytes packed_;
  std::shared_ptr<AlignedBytes> zeros_;
};

}  // namespace

bool TakesWinograd(const Node& node, const ConvGeometry& g) {
  const char* wish = std::getenv("QNNRT_WINOGRAD");
  if (wish != nullptr && std::strcmp(wish, "0") == 0) return false;
  const auto is_float = [](const Tensor* t) { return t->dtype == QNN_DATATYPE_FLOAT_32; };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.HasInput(i) && i < 3 && !is_float(node.inputs[i])) return false;
  }
  if (!is_float(node.outputs[0]) || !node.inputs[1]->is_static()) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (g.kernel[i] != (i == 0 ? 1 : 3) || g.stride[i] != 1) return false;
    if (i != 0 && g.dilation[i] > g.out[i]) return false;
  }
  if (g.pad_before[0] != 0 || g.pad_after[0] != 0) return false;
  // Few channels: squares are taken apart and put together for longer than they are multiplied.
  const int64_t depth = g.cin_per_group(), columns = g.cout_per_group();
  if (depth < kLeastChannels || columns < kLeastChannels) return false;
  // Few pixels: what is read is weights, of which there are 16/9. And what hangs over the outputs
  // is computed for nothing.
  if (g.out_pixels() < kLeastPixels) return false;
  return 5 * g.out_pixels() >= 12 * static_cast<int64_t>(CountOf(g));
}

Result<KernelPtr> MakeWinograd(const Node& node, const ConvGeometry& geometry,
                               const KernelOptions& options) {
  return ConvWinograd::Make(node, geometry, options);
}

}  // namespace qnnrt
