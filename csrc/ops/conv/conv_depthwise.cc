// Depthwise convolution: every output channel sees one input channel. Channels are innermost, so a
// tap is one vector operation; four neighbouring pixels share the loads of the weights.
#include <algorithm>
#include <cstring>

#include "ops/conv/conv.h"
#include "ops/isa.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/simd.h"

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

class Depthwise final : public Kernel {
 public:
  static Result<KernelPtr> Make(const Node& node, const ConvGeometry& g) {
    std::unique_ptr<Depthwise> kernel(new Depthwise(node, g));
    // Serves as the pixel outside the input and as the bias that is not there.
    kernel->zeros_ = AlignedBytes::Make(static_cast<size_t>(g.cout) * sizeof(float));
    if (!kernel->zeros_) return OutOfMemory();
    std::memset(kernel->zeros_->data(), 0, kernel->zeros_->size());
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    const size_t lines = static_cast<size_t>(g_.batch * g_.out[0] * g_.out[1]);
    const int64_t line_work = g_.out[2] * g_.cout * g_.taps();
    const size_t grain =
        static_cast<size_t>(std::max<int64_t>(1, 128 * 1024 / std::max<int64_t>(1, line_work)));
    args.threads.For(lines, grain, [&](size_t begin, size_t end) {
      for (size_t line = begin; line < end; ++line) Line(args, static_cast<int64_t>(line));
    });
    return Status::Ok();
  }

 private:
  Depthwise(const Node& node, const ConvGeometry& g)
      : g_(g), post_ops_(node), has_bias_(node.HasInput(2)) {}

  const float* zeros() const { return static_cast<const float*>(zeros_->data()); }

  // Where a tap reads along one output line: the start of its input line (null: outside) and the
  // column for output column 0.
  struct TapLine {
    const float* start;
    int64_t column;
  };

  void Line(const ExecArgs& args, int64_t line) const {
    const int64_t multiplier = g_.cout / g_.cin;
    const size_t cout = static_cast<size_t>(g_.cout);
    const float* bias = has_bias_ ? static_cast<const float*>(args.in[2]) : zeros();
    float* const out = static_cast<float*>(args.out[0]) + line * g_.out[2] * g_.cout;
    for (int64_t tap = 0; tap < g_.taps(); tap += kMaxTaps) {
      const size_t taps = static_cast<size_t>(std::min<int64_t>(kMaxTaps, g_.taps() - tap));
      TapLine lines[kMaxTaps];
      FillLines(static_cast<const float*>(args.in[0]), line, tap, taps, lines);
      const float* weights = static_cast<const float*>(args.in[1]) + tap * g_.cout;
      for (int64_t w = 0; w < g_.out[2]; w += static_cast<int64_t>(kPixels)) {
        const size_t pixels = static_cast<size_t>(std::min<int64_t>(kPixels, g_.out[2] - w));
        float* rows[kPixels];
        for (size_t p = 0; p < pixels; ++p) rows[p] = out + (w + static_cast<int64_t>(p)) * g_.cout;
        const float* in[kMaxTaps * kPixels];
        FillPixels(lines, taps, w, pixels, in);
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
    post_ops_.Apply(args, out, static_cast<size_t>(out - static_cast<float*>(args.out[0])),
                    static_cast<size_t>(g_.out[2]) * cout);
  }

  void FillLines(const float* data, int64_t line, int64_t tap, size_t taps, TapLine* lines) const {
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
      lines[t].start =
          inside ? data + ((n * g_.in[0] + d) * g_.in[1] + h) * g_.in[2] * g_.cin : nullptr;
      lines[t].column = kw * g_.dilation[2] - g_.pad_before[2];
    }
  }

  void FillPixels(const TapLine* lines, size_t taps, int64_t w, size_t pixels,
                  const float** in) const {
    for (size_t t = 0; t < taps; ++t) {
      for (size_t p = 0; p < kPixels; ++p) {  // past the last pixel: it again
        const int64_t column =
            (w + static_cast<int64_t>(std::min(p, pixels - 1))) * g_.stride[2] + lines[t].column;
        const bool inside = lines[t].start != nullptr && column >= 0 && column < g_.in[2];
        in[t * kPixels + p] = inside ? lines[t].start + column * g_.cin : zeros();
      }
    }
  }

  const ConvGeometry g_;
  const PostOps post_ops_;
  const bool has_bias_;
  decltype(&AddExpanded::Run) const add_expanded_ = PickIsa<AddExpanded>();
  std::shared_ptr<AlignedBytes> zeros_;
};

}  // namespace

Result<KernelPtr> MakeDepthwise(const Node& node, const ConvGeometry& geometry) {
  return Depthwise::Make(node, geometry);
}

}  // namespace qnnrt
