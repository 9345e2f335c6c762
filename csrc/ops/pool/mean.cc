// The mean of each channel over a whole image of floats, FLOAT_32 or BFLOAT_16.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/isa.h"
#include "ops/pool/pool.h"
#include "ops/stored_floats.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

constexpr size_t kLeastPixels = 8;  // in a piece

// Four pixels are added before their sum is. Each is a stream of its own to the processor: with
// eight a mean takes 1.2 to 1.4 times as long on an EPYC (Zen 5), with one up to 1.7 times where a
// sum is read as soon as it is stored.
template <typename Add, typename T>
QNNRT_INLINE void AddAll(const T* x, size_t pixels, size_t channels, float* sums) {
  for (; pixels >= 4; pixels -= 4, x += 4 * channels) Add::template Pixels<4>(x, channels, sums);
  for (; pixels > 0; --pixels, x += channels) Add::template Pixels<1>(x, channels, sums);
}

// sums[c] += the channels of so many pixels, which follow each other
struct AddFloats {
  template <size_t kPixels>  // one or four
  static QNNRT_INLINE void Pixels(const float* x, size_t channels, float* sums) {
    QNNRT_SIMD
    for (size_t c = 0; c < channels; ++c) {
      const float* y = x + c;
      float sum = y[0];
      if constexpr (kPixels == 4) sum = (sum + y[channels]) + (y[2 * channels] + y[3 * channels]);
      sums[c] += sum;
    }
  }
  // One pixel, four vectors at a time: the processor sees one stream from the first line to the
  // last, which it fetches from its second cache at twice the speed of four.
  static QNNRT_INLINE void Stream(const float* x, size_t channels, float* sums) {
    constexpr size_t kBlock = 64;
    size_t c = 0;
    for (; c + kBlock <= channels; c += kBlock) {
      QNNRT_SIMD
      for (size_t k = 0; k < kBlock; ++k) sums[c + k] += x[c + k];
    }
    QNNRT_SIMD
    for (size_t k = c; k < channels; ++k) sums[k] += x[k];
  }
  static QNNRT_INLINE void Run(const float* x, size_t pixels, size_t channels, float* sums) {
    if (channels < kManyChannels) return AddAll<AddFloats>(x, pixels, channels, sums);
    for (size_t p = 0; p < pixels; ++p) Stream(x + p * channels, channels, sums);
  }
  // From which on a sum is stored long before the next pixel is added to it (Zen 5, 49 pixels: of
  // 2,048 channels 0.65 to 0.74 of the time of four pixels at once, of 320 0.8, of 128 1.2).
  static constexpr size_t kManyChannels = 256;
};

// The same of BFLOAT_16, two channels from one word: those with even numbers are in the first half
// of the sums, those with odd ones in the second, and the last of an odd number of channels behind
// them. Widened one by one they take 1.7 times as long.
struct AddBrains {
  static QNNRT_INLINE float Low(uint32_t word) {
    return vmath::FromBits(static_cast<int32_t>(word << 16));
  }
  static QNNRT_INLINE float High(uint32_t word) {
    return vmath::FromBits(static_cast<int32_t>(word & 0xffff0000u));
  }
  static QNNRT_INLINE uint32_t Word(const uint16_t* x) {
    uint32_t word;
    std::memcpy(&word, x, sizeof(word));
    return word;
  }

  template <size_t kPixels>  // one or four
  static QNNRT_INLINE void Pixels(const uint16_t* x, size_t channels, float* sums) {
    const size_t half = channels / 2;
    float* const odd = sums + half;
    QNNRT_SIMD
    for (size_t c = 0; c < half; ++c) {
      const uint16_t* y = x + 2 * c;
      const uint32_t w0 = Word(y);
      float low = Low(w0), high = High(w0);
      if constexpr (kPixels == 4) {
        const uint32_t w1 = Word(y + channels), w2 = Word(y + 2 * channels);
        const uint32_t w3 = Word(y + 3 * channels);
        low = (low + Low(w1)) + (Low(w2) + Low(w3));
        high = (high + High(w1)) + (High(w2) + High(w3));
      }
      sums[c] += low;
      odd[c] += high;
    }
  }
  static QNNRT_INLINE void Run(const uint16_t* x, size_t pixels, size_t channels, float* sums) {
    const size_t last = channels - 1;
    if (channels % 2 != 0) {
      for (size_t p = 0; p < pixels; ++p) sums[last] += Low(x[p * channels + last]);
    }
    AddAll<AddBrains>(x, pixels, channels, sums);
  }
};

// From sums, in the order of the channels; those of floats may be in place.
template <typename Add>
struct Means;
template <>
struct Means<AddFloats> {
  static QNNRT_INLINE void Run(const float* sums, size_t channels, float factor, float* means) {
    QNNRT_SIMD
    for (size_t c = 0; c < channels; ++c) means[c] = sums[c] * factor;
  }
};
template <>
struct Means<AddBrains> {
  static QNNRT_INLINE void Run(const float* sums, size_t channels, float factor, float* means) {
    const size_t half = channels / 2;
    for (size_t c = 0; c < half; ++c) {
      means[2 * c] = sums[c] * factor;
      means[2 * c + 1] = sums[half + c] * factor;
    }
    if (channels % 2 != 0) means[2 * half] = sums[2 * half] * factor;
  }
};

// Pieces of neighbouring pixels, which threads take as they do a convolution's: who cuts by
// channels has half of each line in the other core's cache, and what comes next, a product with a
// gate in place, then waits for each line that both have (EfficientNet-B0, two threads: 165 us
// instead of 20 for its first one).
template <typename T, typename Add>
class ImageMean final : public Kernel {
 public:
  ImageMean(const PoolGeometry& g, double count, const Tensor& out)
      : out_(out),
        images_(static_cast<size_t>(g.batch)),
        pixels_(static_cast<size_t>(g.in[0] * g.in[1] * g.in[2])),
        channels_(static_cast<size_t>(g.channels)),
        pieces_(PiecesOf(pixels_, channels_)),
        factor_(static_cast<float>(1 / count)) {}

  size_t ScratchBytes() const override {
    const bool in_place = pieces_ == 1 && std::is_same_v<T, float> && !out_.narrow();
    return in_place ? 0 : (images_ * pieces_ + 1) * channels_ * sizeof(float);
  }
  Status Run(const ExecArgs& args) override {
    const T* in = static_cast<const T*>(args.in[0]);
    float* const sums = static_cast<float*>(ScratchBytes() == 0 ? args.out[0] : args.scratch);
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
    float* const buffer = sums + images_ * pieces_ * channels_;  // where there is scratch
    for (size_t image = 0; image < images_; ++image) {
      float* const sum = sums + image * pieces_ * channels_;
      if (pieces_ > 1) add_floats_(sum + channels_, pieces_ - 1, channels_, sum);
      float* const means = out_.Place(args.out[0], image * channels_, buffer);
      means_(sum, channels_, factor_, means);
      out_.Store(means, args.out[0], image * channels_, channels_);
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
    return std::clamp<size_t>(floats / kPieceFloats, 1, std::max<size_t>(1, pixels / kLeastPixels));
  }

  const StoredFloats out_;
  const size_t images_, pixels_, channels_, pieces_;
  const float factor_;
  decltype(&Add::Run) const add_ = PickIsa<Add>();
  decltype(&Means<Add>::Run) const means_ = PickIsa<Means<Add>>();
  decltype(&AddFloats::Run) const add_floats_ = PickIsa<AddFloats>();
};

bool IsStored(const Tensor& tensor) {  // in a way that the kernel takes
  return tensor.dtype == QNN_DATATYPE_FLOAT_32 || tensor.dtype == QNN_DATATYPE_BFLOAT_16;
}

}  // namespace

bool IsImageMean(const Node& node, const PoolGeometry& g) {
  if (node.type.compare(0, 7, "PoolAvg") != 0 || node.inputs[0]->elements() == 0) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (g.out[i] != 1 || SpanOf(g, i, 0).size() != g.in[i]) return false;
  }
  return IsStored(*node.inputs[0]) && IsStored(*node.outputs[0]);
}

Result<KernelPtr> MakeImageMean(const Node& node, const PoolGeometry& g) {
  double count = 1;
  for (size_t i = 0; i < 3; ++i) {
    const PoolSpan span = SpanOf(g, i, 0);
    count *= static_cast<double>(g.count_pads ? span.padded : span.size());
  }
  const Tensor& out = *node.outputs[0];
  if (node.inputs[0]->dtype == QNN_DATATYPE_FLOAT_32) {
    return KernelPtr(new ImageMean<float, AddFloats>(g, count, out));
  }
  return KernelPtr(new ImageMean<uint16_t, AddBrains>(g, count, out));
}

}  // namespace qnnrt
