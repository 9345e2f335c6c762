// The mean of each channel over a whole image of floats.
#include <algorithm>

#include "ops/isa.h"
#include "ops/pool/pool.h"

namespace qnnrt {
namespace {

constexpr size_t kAtOnce = 8;  // pixels that are added before their sum is

// sums[c] += the channels of so many pixels, which follow each other
struct AddPixels {
  static QNNRT_INLINE void Run(const float* x, size_t pixels, size_t channels, float* sums) {
    size_t p = 0;
    for (; p + kAtOnce <= pixels; p += kAtOnce, x += kAtOnce * channels) {
      QNNRT_SIMD
      for (size_t c = 0; c < channels; ++c) {
        const float* y = x + c;
        const float a = y[0] + y[channels], b = y[2 * channels] + y[3 * channels];
        const float d = y[4 * channels] + y[5 * channels], e = y[6 * channels] + y[7 * channels];
        sums[c] += (a + b) + (d + e);
      }
    }
    for (; p < pixels; ++p, x += channels) {
      QNNRT_SIMD
      for (size_t c = 0; c < channels; ++c) sums[c] += x[c];
    }
  }
};

// Pieces of neighbouring pixels, which threads take as they do a convolution's: who cuts by
// channels has half of each line in the other core's cache, and what comes next, a product with a
// gate in place, then waits for each line that both have (EfficientNet-B0, two threads: 165 us
// instead of 20 for its first one).
class ImageMean final : public Kernel {
 public:
  ImageMean(const PoolGeometry& g, double count)
      : images_(static_cast<size_t>(g.batch)),
        pixels_(static_cast<size_t>(g.in[0] * g.in[1] * g.in[2])),
        channels_(static_cast<size_t>(g.channels)),
        pieces_(PiecesOf(pixels_, channels_)),
        factor_(static_cast<float>(1 / count)) {}

  size_t ScratchBytes() const override {
    return pieces_ == 1 ? 0 : images_ * pieces_ * channels_ * sizeof(float);
  }
  Status Run(const ExecArgs& args) override {
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    float* const sums = pieces_ == 1 ? out : static_cast<float*>(args.scratch);
    const size_t grain = std::max<size_t>(1, kGrainFloats * pieces_ / (pixels_ * channels_));
    args.threads.For(images_ * pieces_, grain, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const size_t image = i / pieces_, piece = i % pieces_;
        const size_t first = piece * pixels_ / pieces_, last = (piece + 1) * pixels_ / pieces_;
        float* const sum = sums + i * channels_;
        std::fill_n(sum, channels_, 0.0f);
        add_(in + (image * pixels_ + first) * channels_, last - first, channels_, sum);
      }
    });
    for (size_t image = 0; image < images_; ++image, out += channels_) {
      if (pieces_ > 1) {
        std::fill_n(out, channels_, 0.0f);
        add_(sums + image * pieces_ * channels_, pieces_, channels_, out);
      }
      for (size_t c = 0; c < channels_; ++c) out[c] *= factor_;
    }
    return Status::Ok();
  }

 private:
  // Of the input, in a piece and worth a thread. Pieces do not depend on the number of threads, so
  // neither do the results.
  static constexpr size_t kPieceFloats = 8 * 1024, kGrainFloats = 64 * 1024;
  static size_t PiecesOf(size_t pixels, size_t channels) {
    const size_t floats = pixels * channels;
    if (floats < 2 * kGrainFloats) return 1;  // one thread reads it
    return std::clamp<size_t>(floats / kPieceFloats, 1, std::max<size_t>(1, pixels / kAtOnce));
  }

  const size_t images_, pixels_, channels_, pieces_;
  const float factor_;
  decltype(&AddPixels::Run) const add_ = PickIsa<AddPixels>();
};

}  // namespace

bool IsImageMean(const Node& node, const PoolGeometry& g) {
  if (node.type.compare(0, 7, "PoolAvg") != 0 || node.inputs[0]->elements() == 0) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (g.out[i] != 1 || SpanOf(g, i, 0).size() != g.in[i]) return false;
  }
  return node.inputs[0]->dtype == QNN_DATATYPE_FLOAT_32 &&
         node.outputs[0]->dtype == QNN_DATATYPE_FLOAT_32;
}

Result<KernelPtr> MakeImageMean(const PoolGeometry& g) {
  double count = 1;
  for (size_t i = 0; i < 3; ++i) {
    const PoolSpan span = SpanOf(g, i, 0);
    count *= static_cast<double>(g.count_pads ? span.padded : span.size());
  }
  return KernelPtr(new ImageMean(g, count));
}

}  // namespace qnnrt
