// Convolution of BFLOAT_16 in groups of a few channels, on a processor's matrix tiles. Sixteen
// output channels at a time are multiplied by all input channels that their groups have, with zeros
// for those of the other groups: most of the products are for nothing, and it is still several
// times as fast as a group at a time.
#include <algorithm>
#include <cstring>

#include "ops/conv/conv.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/stored_floats.h"
#include "ops/tiles.h"

namespace qnnrt {
namespace {

constexpr size_t kMostTapsHeld = 64, kMostLines = 32;  // under one line of the output
constexpr size_t kDeepestGroup = 48;    // channels: with more, a product for each group is as fast
constexpr int64_t kGrain = 512 * 1024;  // products worth a thread

int64_t Spread(const ConvGeometry& g, size_t dim) {
  return (g.kernel[dim] - 1) * g.dilation[dim] + 1;
}

// Input channels that the groups of a block of output channels have.
struct Block {
  size_t column;      // the first output channel
  size_t begin, end;  // of the input
};

size_t BlocksOf(const ConvGeometry& g) {
  return TilesOf(static_cast<size_t>(g.cout), kTileColumns);
}

Block BlockAt(const ConvGeometry& g, size_t index) {
  const size_t columns = static_cast<size_t>(g.cout_per_group());
  const size_t depth = static_cast<size_t>(g.cin_per_group());
  // The last one overlaps the one before.
  const size_t first = std::min(index * kTileColumns, static_cast<size_t>(g.cout) - kTileColumns);
  const size_t last = first + kTileColumns - 1;
  return {first, first / columns * depth, (last / columns + 1) * depth};
}

size_t DepthTiles(const ConvGeometry& g) {
  size_t most = 1;
  for (size_t i = 0; i < BlocksOf(g); ++i) {
    const Block block = BlockAt(g, i);
    most = std::max(most, TilesOf(block.end - block.begin, kTileDepth));
  }
  return most;
}

class ConvGroupTiles final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const ConvGeometry& g,
                                const KernelOptions& options) {
    std::unique_ptr<ConvGroupTiles> kernel(new ConvGroupTiles(node, g));
    QNNRT_RETURN_IF_ERROR(kernel->Pack(*node.inputs[1], options));
    kernel->zeros_ = AlignedBytes::Make(std::max(kernel->LineElements() * sizeof(uint16_t),
                                                 static_cast<size_t>(g.cout) * sizeof(float)));
    if (!kernel->zeros_) return OutOfMemory();
    std::memset(kernel->zeros_->data(), 0, kernel->zeros_->size());
    const int64_t line = g.out[2] * g.cout * g.taps() * g.cin_per_group();
    const size_t worth =
        static_cast<size_t>(std::max<int64_t>(1, kGrain / std::max<int64_t>(1, line)));
    const size_t most = options.threads > 1 ? static_cast<size_t>(options.threads) * 2 : 1;
    kernel->rooms_ = std::clamp<size_t>(kernel->Lines() / worth, 1, most);
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    args.threads.For(rooms_, 1, [&](size_t begin, size_t end) {
      for (size_t room = begin; room < end; ++room) RunLines(args, room);
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return rooms_ * RoomBytes(); }
  bool ReadsInput(size_t i) const override { return i != 1; }
  size_t WeightBytes() const override { return packed_->size(); }
  const char* Name() const override { return "amx:groups"; }

 private:
  ConvGroupTiles(const Node& node, const ConvGeometry& g)
      : g_(g),
        post_ops_(node),
        out_(*node.outputs[0]),
        has_bias_(node.HasInput(2)),
        depth_tiles_(DepthTiles(g)) {}

  // Of a block: where its depth tiles begin among the input's channels, inside of a pixel.
  size_t BeginOf(const Block& block) const {
    return std::min(block.begin, static_cast<size_t>(g_.cin) - depth_tiles_ * kTileDepth);
  }

  Status Pack(const Tensor& weights, const KernelOptions& options) {
    const size_t cout = static_cast<size_t>(g_.cout), taps = static_cast<size_t>(g_.taps());
    const size_t depth = static_cast<size_t>(g_.cin_per_group());
    const size_t columns = static_cast<size_t>(g_.cout_per_group());
    const size_t wide = depth_tiles_ * kTileDepth;
    const auto fill = [&](void* to) {
      const std::shared_ptr<AlignedBytes> one =
          AlignedBytes::Make(wide * kTileColumns * sizeof(uint16_t));
      if (!one) return OutOfMemory();
      const uint16_t* from = weights.data_as<uint16_t>();
      uint16_t* square = static_cast<uint16_t*>(one->data());
      uint16_t* packed = static_cast<uint16_t*>(to);
      for (size_t b = 0; b < BlocksOf(g_); ++b) {
        const Block block = BlockAt(g_, b);
        for (size_t tap = 0; tap < taps; ++tap, packed += depth_tiles_ * kTileElements) {
          std::memset(square, 0, one->size());
          for (size_t j = 0; j < kTileColumns; ++j) {
            const size_t column = block.column + j;
            const size_t first = column / columns * depth - BeginOf(block);
            for (size_t i = 0; i < depth; ++i) {
              square[(first + i) * kTileColumns + j] = from[(tap * depth + i) * cout + column];
            }
          }
          PackTiles({square, kTileColumns, 1}, wide, kTileColumns, depth_tiles_, 1, packed);
        }
      }
      return Status::Ok();
    };
    const size_t bytes = BlocksOf(g_) * taps * depth_tiles_ * kTileElements * sizeof(uint16_t);
    const std::string layout = "groups of " + std::to_string(depth) + " in " +
                               std::to_string(depth_tiles_) + " tiles of a tap";
    QNNRT_ASSIGN_OR_RETURN(packed_, PackWeights(options, 1, bytes, layout, fill));
    return {};
  }

  size_t Lines() const { return static_cast<size_t>(g_.batch * g_.out[0] * g_.out[1]); }
  size_t HeldLines() const { return static_cast<size_t>(Spread(g_, 1)); }
  // Pixels of a line in whole tiles, and of the input under it.
  size_t OutPixels() const {
    return TilesOf(static_cast<size_t>(g_.out[2]), kTileRows) * kTileRows;
  }
  size_t InPixels() const {
    const int64_t reach = (static_cast<int64_t>(OutPixels()) - 1) * g_.stride[2] + Spread(g_, 2);
    return static_cast<size_t>(std::max(reach, g_.pad_before[2] + g_.in[2]));
  }
  size_t LineElements() const { return InPixels() * static_cast<size_t>(g_.cin); }
  size_t LineBytes() const { return ScratchRoom(LineElements() * sizeof(uint16_t)); }
  size_t RoomBytes() const {
    return HeldLines() * LineBytes() +
           ScratchRoom(OutPixels() * static_cast<size_t>(g_.cout) * sizeof(float));
  }

  // Lines of the input lie in the scratch memory with what is left and right of them.
  void RunLines(const ExecArgs& args, size_t room) const {
    char* const held = static_cast<char*>(args.scratch) + room * RoomBytes();
    float* const out = reinterpret_cast<float*>(held + HeldLines() * LineBytes());
    int64_t which[kMostLines];
    std::fill_n(which, HeldLines(), -1);
    std::memset(held, 0, HeldLines() * LineBytes());
    const TileScope tiles;
    const size_t end = Lines() * (room + 1) / rooms_;
    const size_t floats = static_cast<size_t>(g_.out[2] * g_.cout);
    for (size_t line = Lines() * room / rooms_; line < end; ++line) {
      const int64_t y = static_cast<int64_t>(line) % g_.out[1];
      const int64_t image = static_cast<int64_t>(line) / g_.out[1];
      const uint16_t* taps[kMostTapsHeld];
      for (int64_t kh = 0; kh < g_.kernel[1]; ++kh) {
        const int64_t at = y * g_.stride[1] - g_.pad_before[1] + kh * g_.dilation[1];
        const uint16_t* start = static_cast<const uint16_t*>(zeros_->data());
        if (at >= 0 && at < g_.in[1]) start = Held(args, image * g_.in[1] + at, held, which);
        for (int64_t kw = 0; kw < g_.kernel[2]; ++kw) {
          taps[kh * g_.kernel[2] + kw] = start + kw * g_.dilation[2] * g_.cin;
        }
      }
      Line(args, taps, out);
      const size_t at = line * floats;
      post_ops_.Apply(args, out, at, floats);
      if (out_.narrow()) {
        out_.Store(out, args.out[0], at, floats);
      } else {
        std::memcpy(static_cast<float*>(args.out[0]) + at, out, floats * sizeof(float));
      }
    }
  }

  const uint16_t* Held(const ExecArgs& args, int64_t line, char* held, int64_t* which) const {
    const size_t slot = static_cast<size_t>(line) % HeldLines();
    uint16_t* const at = reinterpret_cast<uint16_t*>(held + slot * LineBytes());
    if (which[slot] != line) {
      which[slot] = line;
      const size_t elements = static_cast<size_t>(g_.in[2] * g_.cin);
      std::memcpy(at + g_.pad_before[2] * g_.cin,
                  static_cast<const uint16_t*>(args.in[0]) + static_cast<size_t>(line) * elements,
                  elements * sizeof(uint16_t));
    }
    return at;
  }

  void Line(const ExecArgs& args, const uint16_t* const* taps, float* out) const {
    const float* const bias = static_cast<const float*>(has_bias_ ? args.in[2] : zeros_->data());
    const size_t cin = static_cast<size_t>(g_.cin), cout = static_cast<size_t>(g_.cout);
    const size_t step = static_cast<size_t>(g_.stride[2]) * cin;
    const size_t tiles = OutPixels() / kTileRows;
    const uint16_t* from[kMostTapsHeld];
    TileTaps product{};
    product.a = from;
    product.lda = step;
    product.taps = static_cast<size_t>(g_.taps());
    product.depth_tiles = depth_tiles_;
    product.ldc = cout;
    product.b = static_cast<const uint16_t*>(packed_->data());
    for (size_t b = 0; b < BlocksOf(g_); ++b) {
      const Block block = BlockAt(g_, b);
      product.bias = bias + block.column;
      for (size_t tile = 0; tile < tiles; tile += product.row_tiles) {
        product.row_tiles = std::min(kMostTapRows, tiles - tile);
        const size_t pixel = tile * kTileRows;
        for (size_t tap = 0; tap < product.taps; ++tap) {
          from[tap] = taps[tap] + pixel * step + BeginOf(block);
        }
        product.c = out + pixel * cout + block.column;
        MultiplyTaps(product);
      }
      product.b += product.taps * depth_tiles_ * kTileElements;
    }
  }

  const ConvGeometry g_;
  const PostOps post_ops_;
  const StoredFloats out_;
  const bool has_bias_;
  const size_t depth_tiles_;
  size_t rooms_ = 0;  // pieces of the output that are worked on at once
  SharedBytes packed_;
  std::shared_ptr<AlignedBytes>
      zeros_;  // a line outside of the input, and a bias that is not there
};

}  // namespace

bool TakesGroupTiles(const Node& node, const ConvGeometry& g) {
  if (!MultipliesBrains(node) || !HasTiles()) return false;
  const size_t depth = static_cast<size_t>(g.cin_per_group());
  if (g.group == 1 || depth < 2 || depth > kDeepestGroup || g.kernel[0] != 1 || g.stride[0] != 1 ||
      g.pad_before[0] != 0 || g.pad_after[0] != 0) {
    return false;
  }
  if (g.taps() > static_cast<int64_t>(kMostTapsHeld) ||
      Spread(g, 1) > static_cast<int64_t>(kMostLines) || g.out[2] < 4) {
    return false;
  }
  return static_cast<size_t>(g.cout) >= kTileColumns &&
         DepthTiles(g) * kTileDepth <= static_cast<size_t>(g.cin);
}

Result<KernelPtr> MakeGroupTiles(const Node& node, const ConvGeometry& geometry,
                                 const KernelOptions& options) {
  return ConvGroupTiles::Make(node, geometry, options);
}

}  // namespace qnnrt
