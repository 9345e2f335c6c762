// Convolution whose vectors run along the channels: depthwise, where an output channel sees one
// input channel, and groups of a few channels. Channels are innermost, so one input channel of a
// tap is one vector operation; neighbouring pixels share the loads of the weights.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "ops/conv/conv.h"
#include "ops/isa.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/simd.h"
#include "ops/stored_floats.h"

namespace qnnrt {
namespace {

// out[c * multiplier + j] += in[c] * w[c * multiplier + j]
struct AddExpanded {
  static QNNRT_INLINE void Run(float* out, const float* in, const float* w, size_t channels,
                               size_t multiplier) {
    for (size_t c = 0; c < channels; ++c) {
      const float x = in[c];
      QNNRT_SIMD
      for (size_t j = 0; j < multiplier; ++j) {
        out[c * multiplier + j] += x * w[c * multiplier + j];
      }
    }
  }
};

constexpr size_t kMostPixels = std::max(kPixels, kGroupedPixels);
constexpr int64_t kMostInGroup = 16;  // with more, a product for each group is as fast
constexpr size_t kPiecePixels = 16;   // of a line that is finished at a time
constexpr size_t kMostHeld = 64;      // lines of the input under one line of the output

class ConvByChannel final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const ConvGeometry& g,
                                const KernelOptions& options) {
    std::unique_ptr<ConvByChannel> kernel(new ConvByChannel(node, g));
    if (!kernel->Takes(node)) return MakeViaFloat(*FindOp(node.type), node, options);
    QNNRT_RETURN_IF_ERROR(kernel->KeepWeights(*node.inputs[1], options));
    kernel->PlanRooms(options.threads);
    // Serves as the pixel outside the input and as the bias that is not there.
    kernel->zeros_ = AlignedBytes::Make(static_cast<size_t>(g.cout) * sizeof(float));
    if (!kernel->zeros_) return OutOfMemory();
    std::memset(kernel->zeros_->data(), 0, kernel->zeros_->size());
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    if (narrow()) {
      args.threads.For(rooms_, 1, [&](size_t begin, size_t end) {
        for (size_t room = begin; room < end; ++room) NarrowLines(args, room);
      });
      return Status::Ok();
    }
    args.threads.For(Lines(), Grain(), [&](size_t begin, size_t end) {
      const auto line_of = [&](int64_t line) {
        return static_cast<const float*>(args.in[0]) + line * g_.in[2] * g_.cin;
      };
      for (size_t line = begin; line < end; ++line) {
        Line(args, static_cast<int64_t>(line), line_of,
             static_cast<float*>(args.out[0]) + line * OutFloats());
      }
    });
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return rooms_ * RoomFloats() * sizeof(float); }
  bool ReadsInput(size_t i) const override { return i != 1 || !weights_; }
  size_t WeightBytes() const override { return weights_ ? weights_->size() : 0; }

 private:
  ConvByChannel(const Node& node, const ConvGeometry& g)
      : g_(g),
        post_ops_(node),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        has_bias_(node.HasInput(2)),
        window_(TakesBrainWindow(node, g)),
        clamps_(post_ops_.Clamps()) {}

  // ---- floats in 16 bits: lines of the input are converted once, and stay in the cache for all
  // lines of the output that read them ----

  bool narrow() const { return in_.narrow() || out_.narrow(); }
  bool Takes(const Node& node) const {
    const StoredFloats weights(*node.inputs[1]);
    if (weights.narrow() && (groups_ || !node.inputs[1]->is_static())) return false;
    if (has_bias_ && StoredFloats(*node.inputs[2]).narrow()) return false;
    return !narrow() || (g_.kernel[0] == 1 && HeldLines() <= kMostHeld);
  }
  Status KeepWeights(const Tensor& weights, const KernelOptions& options) {
    const StoredFloats stored(weights);
    if (!stored.narrow() && !groups_) return Status::Ok();
    if (groups_) {
      const size_t cout = static_cast<size_t>(g_.cout), rows = weights.elements() / cout;
      const std::string layout = "groups in vectors of " + std::to_string(GroupWidth());
      const auto pack = [&](void* to) {
        PackGroups(weights.data_as<float>(), rows, cout, static_cast<float*>(to));
        return Status::Ok();
      };
      QNNRT_ASSIGN_OR_RETURN(
          weights_,
          PackWeights(options, 1, GroupsFloats(rows, cout) * sizeof(float), layout, pack));
      return Status::Ok();
    }
    QNNRT_ASSIGN_OR_RETURN(weights_, PackAsFloats(weights, options, kWidened));
    return Status::Ok();
  }

  size_t Lines() const { return static_cast<size_t>(g_.batch * g_.out[0] * g_.out[1]); }
  size_t Grain() const {  // lines that are worth a thread
    const int64_t work = g_.out[2] * g_.cout * g_.taps() * g_.cin_per_group();
    return static_cast<size_t>(std::max<int64_t>(1, 128 * 1024 / std::max<int64_t>(1, work)));
  }
  size_t HeldLines() const { return static_cast<size_t>((g_.kernel[1] - 1) * g_.dilation[1] + 1); }
  size_t InFloats() const { return static_cast<size_t>(g_.in[2] * g_.cin); }  // of a line
  size_t OutFloats() const { return static_cast<size_t>(g_.out[2] * g_.cout); }
  size_t RoomFloats() const {  // what one piece of the output needs
    const size_t held = window_ ? 0 : HeldLines() * InFloats();
    return ScratchRoom((held + OutFloats()) * sizeof(float)) / sizeof(float);
  }
  void PlanRooms(int threads) {
    if (!narrow()) return;
    const size_t most = threads > 1 ? static_cast<size_t>(threads) * 2 : 1;
    rooms_ = std::clamp<size_t>(Lines() / Grain(), 1, most);
  }

  void NarrowLines(const ExecArgs& args, size_t room) const {
    if (window_) return WindowLines(args, room);
    float* const held = static_cast<float*>(args.scratch) + room * RoomFloats();
    float* const buffer = held + HeldLines() * InFloats();
    int64_t which[kMostHeld];
    std::fill_n(which, HeldLines(), -1);
    const auto line_of = [&](int64_t line) -> const float* {
      const size_t slot = static_cast<size_t>(line) % HeldLines();
      float* const at = held + slot * InFloats();
      const size_t first = static_cast<size_t>(line) * InFloats();
      if (!in_.narrow() || which[slot] == line) {
        return in_.narrow() ? at : static_cast<const float*>(args.in[0]) + first;
      }
      which[slot] = line;
      return in_.Read(args.in[0], first, InFloats(), at);
    };
    const size_t end = Lines() * (room + 1) / rooms_;
    for (size_t line = Lines() * room / rooms_; line < end; ++line) {
      const size_t at = line * OutFloats();
      float* const out = out_.Place(args.out[0], at, buffer);
      Line(args, static_cast<int64_t>(line), line_of, out);
      out_.Store(out, args.out[0], at, OutFloats());
    }
  }

  // 3x3 taps: the input is read where it lies.
  void WindowLines(const ExecArgs& args, size_t room) const {
    float* const buffer = static_cast<float*>(args.scratch) + room * RoomFloats();
    const uint16_t* const in = static_cast<const uint16_t*>(args.in[0]);
    BrainWindow line{};
    line.columns = static_cast<size_t>(g_.in[2]);
    line.first = -g_.pad_before[2];
    line.stride = static_cast<size_t>(g_.stride[2]);
    line.weights = static_cast<const float*>(weights_->data());
    line.bias = has_bias_ ? static_cast<const float*>(args.in[2]) : zeros();
    line.pixels = static_cast<size_t>(g_.out[2]);
    line.channels = static_cast<size_t>(g_.cout);
    const Limits limits = clamps_.value_or(Limits{-INFINITY, INFINITY});
    line.low = limits.low;
    line.high = limits.high;
    const size_t end = Lines() * (room + 1) / rooms_;
    for (size_t l = Lines() * room / rooms_; l < end; ++l) {
      const int64_t image = static_cast<int64_t>(l) / g_.out[1];
      const int64_t first = static_cast<int64_t>(l) % g_.out[1] * g_.stride[1] - g_.pad_before[1];
      for (int64_t kh = 0; kh < 3; ++kh) {
        const int64_t h = first + kh;
        line.lines[kh] = h < 0 || h >= g_.in[1]
                             ? nullptr
                             : in + static_cast<size_t>(image * g_.in[1] + h) * InFloats();
      }
      const size_t at = l * OutFloats();
      if (clamps_ && out_.narrow()) {
        line.narrow = static_cast<uint16_t*>(args.out[0]) + at;
        Simd().brain_window(line);
        continue;
      }
      // In pieces that are still in the first cache when they are finished.
      BrainWindow piece = line;
      for (size_t x = 0; x < line.pixels; x += kPiecePixels) {
        const size_t from = at + x * line.channels;
        piece.pixels = std::min(kPiecePixels, line.pixels - x);
        piece.first = line.first + static_cast<int64_t>(x * line.stride);
        piece.wide = out_.Place(args.out[0], from, buffer);
        Simd().brain_window(piece);
        const size_t floats = piece.pixels * line.channels;
        if (!clamps_) post_ops_.Apply(args, piece.wide, from, floats);
        out_.Store(piece.wide, args.out[0], from, floats);
      }
    }
  }

  size_t AtOnce() const { return groups_ ? kGroupedPixels : kPixels; }
  const float* zeros() const { return static_cast<const float*>(zeros_->data()); }

  // Where a tap reads along one output line: the start of its input line (null: outside) and the
  // column for output column 0.
  struct TapLine {
    const float* start;
    int64_t column;
  };

  // One line of the output; line_of gives a line of the input, of all images and planes in order.
  template <typename LineOf>
  void Line(const ExecArgs& args, int64_t line, const LineOf& line_of, float* out) const {
    const int64_t multiplier = g_.cout / g_.cin;
    const size_t cout = static_cast<size_t>(g_.cout);
    const size_t group = static_cast<size_t>(g_.cin_per_group());
    const int64_t at_once = static_cast<int64_t>(AtOnce());
    const float* bias = has_bias_ ? static_cast<const float*>(args.in[2]) : zeros();
    const float* const all_weights =
        static_cast<const float*>(weights_ ? weights_->data() : args.in[1]);
    for (int64_t tap = 0; tap < g_.taps(); tap += kMaxTaps) {
      const size_t taps = static_cast<size_t>(std::min<int64_t>(kMaxTaps, g_.taps() - tap));
      TapLine lines[kMaxTaps];
      FillLines(line_of, line, tap, taps, lines);
      const float* weights = all_weights + tap * g_.cout;
      for (int64_t w = 0; w < g_.out[2]; w += at_once) {
        const size_t pixels = static_cast<size_t>(std::min<int64_t>(at_once, g_.out[2] - w));
        float* rows[kMostPixels];
        for (size_t p = 0; p < pixels; ++p) rows[p] = out + (w + static_cast<int64_t>(p)) * g_.cout;
        const float* in[kMaxTaps * kMostPixels];
        FillPixels(lines, taps, w, pixels, in);
        if (groups_) {  // all taps are in one call
          Simd().grouped({in, weights, bias, rows, pixels, taps, cout, group});
          continue;
        }
        if (multiplier == 1) {
          Simd().depthwise(
              {in, weights, cout, tap == 0 ? bias : nullptr, rows, pixels, taps, cout});
          continue;
        }
        for (size_t p = 0; p < pixels; ++p) {
          if (tap == 0) std::copy_n(bias, cout, rows[p]);
          for (size_t t = 0; t < taps; ++t) {
            const float* x = in[t * kPixels + p];
            if (x == zeros()) continue;
            add_expanded_(rows[p], x, weights + t * cout, static_cast<size_t>(g_.cin),
                          static_cast<size_t>(multiplier));
          }
        }
      }
    }
    post_ops_.Apply(args, out, static_cast<size_t>(line) * OutFloats(), OutFloats());
  }

  template <typename LineOf>
  void FillLines(const LineOf& line_of, int64_t line, int64_t tap, size_t taps,
                 TapLine* lines) const {
    const int64_t h_out = line % g_.out[1];
    const int64_t d_out = line / g_.out[1] % g_.out[0];
    const int64_t n = line / g_.out[1] / g_.out[0];
    for (size_t t = 0; t < taps; ++t) {
      const int64_t index = tap + static_cast<int64_t>(t);
      const int64_t kw = index % g_.kernel[2];
      const int64_t kh = index / g_.kernel[2] % g_.kernel[1];
      const int64_t kd = index / g_.kernel[2] / g_.kernel[1];
      const int64_t d = d_out * g_.stride[0] - g_.pad_before[0] + kd * g_.dilation[0];
      const int64_t h = h_out * g_.stride[1] - g_.pad_before[1] + kh * g_.dilation[1];
      const bool inside = d >= 0 && d < g_.in[0] && h >= 0 && h < g_.in[1];
      lines[t].start = inside ? line_of((n * g_.in[0] + d) * g_.in[1] + h) : nullptr;
      lines[t].column = kw * g_.dilation[2] - g_.pad_before[2];
    }
  }

  void FillPixels(const TapLine* lines, size_t taps, int64_t w, size_t pixels,
                  const float** in) const {
    const size_t at_once = AtOnce();
    for (size_t t = 0; t < taps; ++t) {
      for (size_t p = 0; p < at_once; ++p) {  // past the last pixel: it again
        const int64_t column =
            (w + static_cast<int64_t>(std::min(p, pixels - 1))) * g_.stride[2] + lines[t].column;
        const bool inside = lines[t].start != nullptr && column >= 0 && column < g_.in[2];
        in[t * at_once + p] = inside ? lines[t].start + column * g_.cin : zeros();
      }
    }
  }

  const ConvGeometry g_;
  const PostOps post_ops_;
  const StoredFloats in_, out_;
  const bool has_bias_, window_;
  const std::optional<Limits> clamps_;
  const bool groups_ = g_.cin_per_group() > 1;
  SharedBytes weights_;  // where the kernel reads others than the node's
  size_t rooms_ = 0;     // pieces of the output that are worked on at once, with 16-bit floats
  decltype(&AddExpanded::Run) const add_expanded_ = PickIsa<AddExpanded>();
  std::shared_ptr<AlignedBytes> zeros_;
};

}  // namespace

bool TakesBrainWindow(const Node& node, const ConvGeometry& g) {
  if (!MultipliesBrains(node)) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (g.kernel[i] != (i == 0 ? 1 : 3) || (i != 0 && g.dilation[i] != 1)) return false;
  }
  if (g.stride[0] != 1 || g.pad_before[0] != 0 || g.pad_after[0] != 0 || g.stride[2] > 2)
    return false;
  return g.group > 1 && g.group == g.cin && g.cout == g.cin &&
         g.cin >= static_cast<int64_t>(GroupWidth());
}

bool TakesByChannel(const Node& node, const ConvGeometry& g) {
  if (g.group == 1) return false;
  if (g.cin_per_group() == 1) return true;
  return node.inputs[1]->is_static() && g.cin == g.cout &&
         g.taps() <= static_cast<int64_t>(kMaxTaps) && g.cin_per_group() <= kMostInGroup &&
         TakesGroups(static_cast<size_t>(g.cout), static_cast<size_t>(g.cin_per_group()));
}

Result<KernelPtr> MakeByChannel(const Node& node, const ConvGeometry& geometry,
                                const KernelOptions& options) {
  return ConvByChannel::Make(node, geometry, options);
}

}  // namespace qnnrt
