#include <algorithm>
#include <limits>

#include "ops/fixed/codec.h"
#include "ops/resize/resize.h"

namespace qnnrt {
namespace {

constexpr size_t kFewChannels = 16;  // fewer are not worth a call for each pixel

// Input lines are blended into one in scratch, then its pixels along the line. Lines of fixed-point
// numbers are read and written through lines of floats, in scratch too.
class BlendKernel final : public Kernel {
 public:
  BlendKernel(const Node& node, const ResizeRule& rule, int threads, BlendLoops loops)
      : g_(MakeResizeGeometry(node, rule)),
        loops_(loops),
        fixed_(IsFixed(node.inputs[0]->dtype)),
        in_(*node.inputs[0]),
        out_(*node.outputs[0]),
        in_line_(Padded(g_.in[2] * g_.channels)),
        slots_(std::min<size_t>(static_cast<size_t>(std::max(1, threads)) * 4,
                                std::max<size_t>(1, Lines(g_)))),
        slot_floats_(fixed_ ? 2 * in_line_ + Padded(g_.out[2] * g_.channels) : in_line_) {
    constexpr size_t kLongest = std::numeric_limits<int32_t>::max();
    if (g_.channels < kFewChannels && g_.in[2] <= kLongest / kFewChannels) {
      table_ = MakePixelTable(g_.taps[2], g_.channels);
    }
  }

  Status Run(const ExecArgs& args) override {
    const size_t lines = Lines(g_);
    const size_t line_work = (g_.in[2] + g_.out[2]) * g_.channels * lines / slots_;
    const size_t grain = std::max<size_t>(1, 16 * 1024 / std::max<size_t>(1, line_work));
    args.threads.For(slots_, grain, [&](size_t begin, size_t end) {
      for (size_t slot = begin; slot < end; ++slot) {
        float* blended = static_cast<float*>(args.scratch) + slot * slot_floats_;
        for (size_t line = slot; line < lines; line += slots_) One(args, line, blended);
      }
    });
    return Status::Ok();
  }
  size_t ScratchBytes() const override { return slots_ * slot_floats_ * sizeof(float); }

 private:
  static size_t Padded(size_t floats) { return (floats + 15) / 16 * 16; }

  // A line of the input as floats.
  const float* Source(const ExecArgs& args, size_t line, float* wide) const {
    const size_t row = g_.in[2] * g_.channels;
    if (!fixed_) return static_cast<const float*>(args.in[0]) + line * row;
    in_.Read(args.in[0], line * row, row, wide);
    return wide;
  }

  void One(const ExecArgs& args, size_t line, float* blended) const {
    const size_t row = g_.out[2] * g_.channels;
    if (!fixed_) return Blend(args, line, blended, static_cast<float*>(args.out[0]) + line * row);
    float* out = blended + 2 * in_line_;
    Blend(args, line, blended, out);
    out_.Write(out, args.out[0], line * row, row);
  }

  void Blend(const ExecArgs& args, size_t line, float* blended, float* out) const {
    const Line at = LineAt(g_, line);
    const size_t row = g_.in[2] * g_.channels;
    const size_t image = at.batch * g_.in[0];
    float* wide = blended + in_line_;
    const Taps &depth = g_.taps[0][at.d], &height = g_.taps[1][at.h];
    const float* source = blended;
    if (depth.count == 1 && height.count == 1) {
      source = Source(args, (image + depth.at[0]) * g_.in[1] + height.at[0], wide);
    } else {
      bool first = true;
      for (size_t i = 0; i < depth.count; ++i) {
        for (size_t j = 0; j < height.count; ++j) {
          const float* from = Source(args, (image + depth.at[i]) * g_.in[1] + height.at[j], wide);
          const float weight = depth.weight[i] * height.weight[j];
          if (first) {
            loops_.scale(blended, from, weight, row);
          } else {
            loops_.add_scaled(blended, from, weight, row);
          }
          first = false;
        }
      }
    }
    if (table_.count != 0) return loops_.pixels(out, source, table_);
    for (const Taps& taps : g_.taps[2]) {
      loops_.scale(out, source + taps.at[0] * g_.channels, taps.weight[0], g_.channels);
      for (size_t i = 1; i < taps.count; ++i) {
        loops_.add_scaled(out, source + taps.at[i] * g_.channels, taps.weight[i], g_.channels);
      }
      out += g_.channels;
    }
  }

  const ResizeGeometry g_;
  const BlendLoops loops_;
  const bool fixed_;
  const Codec in_, out_;
  const size_t in_line_, slots_, slot_floats_;
  PixelTable table_;  // of few channels
};

}  // namespace

PixelTable MakePixelTable(const std::vector<Taps>& taps, size_t channels) {
  PixelTable table;
  for (const Taps& t : taps) table.taps = std::max(table.taps, t.count);
  table.count = taps.size() * channels;
  for (size_t k = 0; k < table.taps; ++k) {
    for (const Taps& t : taps) {
      const bool there = k < t.count;
      for (size_t c = 0; c < channels; ++c) {
        table.at[k].push_back(static_cast<int32_t>(t.at[there ? k : 0] * channels + c));
        table.weight[k].push_back(there ? t.weight[k] : 0.0f);
      }
    }
  }
  return table;
}

KernelPtr MakeBlend(const Node& node, const ResizeRule& rule, int threads, BlendLoops loops) {
  return KernelPtr(new BlendKernel(node, rule, threads, loops));
}

}  // namespace qnnrt
