// Lrn: y = x / (bias + alpha * sum of squares in the window) ^ beta. Unlike ONNX, the sum is not
// divided by the window's size.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/isa.h"
#include "ops/norm/norm.h"
#include "ops/rules.h"
#include "ops/simd.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

struct LrnGeometry {
  float alpha = 0, beta = 0, bias = 0;
  size_t radius = 0;
  bool across_channel = true;
  size_t batch = 1, height = 1, width = 1, channels = 1;  // across channels: width is all pixels
};

// 1 / s^beta; the usual exponents without pow.
QNNRT_INLINE float Reciprocal(float s, float beta) {
  if (beta == 0.75f) {
    const float root = std::sqrt(s);
    return 1.0f / (root * std::sqrt(root));
  }
  if (beta == 0.5f) return 1.0f / std::sqrt(s);
  if (beta == 1.0f) return 1.0f / s;
  return std::pow(s, -beta);
}

// 1 / sqrt(s), to 2e-7 of it, for s in [kLeast, kMost]: in a third of the time of a root and a
// division. The first guess is off by 3.5 %, each step squares that.
constexpr float kLeast = 1e-30f, kMost = std::numeric_limits<float>::max();
QNNRT_INLINE float ReciprocalRoot(float s) {
  float y = vmath::FromBits(vmath::Minus(0x5f3759df, vmath::Bits(s) >> 1));
  for (int step = 0; step < 3; ++step) y *= 1.5f - 0.5f * s * y * y;
  return y;
}

// The channels of a pixel that are done together, and the widest window for which they are.
constexpr size_t kChannels = 256, kMostRadius = 16;

// y[c] = x[c] / (bias + alpha * sum)^beta for `count` channels; squares[c + k], k = 0 to 2 radius,
// belong to the window of c.
struct ChannelsRun {
  static QNNRT_INLINE void Run(const float* x, float* y, const float* squares, size_t count,
                               size_t radius, float alpha, float bias, float beta) {
    float sums[kChannels];
    for (size_t c = 0; c < count; ++c) sums[c] = squares[c];
    for (size_t k = 1; k <= 2 * radius; ++k) {
      for (size_t c = 0; c < count; ++c) sums[c] += squares[c + k];
    }
    // A loop for each exponent: one that chooses is not vectorized.
    if (beta == 0.75f && alpha >= 0 && bias >= kLeast) {
      QNNRT_SIMD
      for (size_t c = 0; c < count; ++c) {
        const float r = ReciprocalRoot(std::min(bias + alpha * sums[c], kMost));
        y[c] = x[c] * (r * r * ReciprocalRoot(r));
      }
    } else if (beta == 0.75f) {
      QNNRT_SIMD
      for (size_t c = 0; c < count; ++c) y[c] = x[c] * Reciprocal(bias + alpha * sums[c], 0.75f);
    } else if (beta == 0.5f) {
      QNNRT_SIMD
      for (size_t c = 0; c < count; ++c) y[c] = x[c] * Reciprocal(bias + alpha * sums[c], 0.5f);
    } else {
      for (size_t c = 0; c < count; ++c) y[c] = x[c] * Reciprocal(bias + alpha * sums[c], beta);
    }
  }
};

class Lrn final : public Kernel {
 public:
  explicit Lrn(const LrnGeometry& g, int threads)
      : g_(g), slots_(static_cast<size_t>(std::max(1, threads)) * 4) {}

  Status Run(const ExecArgs& args) override {
    return g_.across_channel ? AcrossChannel(args) : WithinChannel(args);
  }
  size_t ScratchBytes() const override {
    // Column sums of squares for a line in flight, see WithinChannel.
    return g_.across_channel ? 0 : slots_ * g_.width * g_.channels * sizeof(float);
  }

 private:
  Status AcrossChannel(const ExecArgs& args) const {
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    const size_t channels = g_.channels;
    const size_t grain = std::max<size_t>(1, 8192 / std::max<size_t>(1, channels));
    args.threads.For(g_.batch * g_.width, grain, [&](size_t begin, size_t end) {
      for (size_t pixel = begin; pixel < end; ++pixel) {
        const float* x = in + pixel * channels;
        float* y = out + pixel * channels;
        if (g_.radius > kMostRadius) {
          WideWindows(x, y);
          continue;
        }
        for (size_t c = 0; c < channels; c += kChannels) {
          Channels(x, y, c, std::min(kChannels, channels - c));
        }
      }
    });
    return Status::Ok();
  }

  // Channels [first, first + count) of a pixel.
  void Channels(const float* x, float* y, size_t first, size_t count) const {
    float squares[kChannels + 2 * kMostRadius];  // zeros outside of the pixel
    const size_t window = 2 * g_.radius, before = std::min(first, g_.radius);
    const size_t behind = std::min(g_.channels - first - count, g_.radius);
    std::fill_n(squares, g_.radius - before, 0.0f);
    float* inside = squares + g_.radius - before;
    const size_t known = before + count + behind;
    for (size_t i = 0; i < known; ++i) inside[i] = x[first - before + i] * x[first - before + i];
    std::fill(inside + known, squares + count + window, 0.0f);
    run_(x + first, y + first, squares, count, g_.radius, g_.alpha, g_.bias, g_.beta);
  }

  // Summed anew for every channel: a running sum would carry cancellation along.
  void WideWindows(const float* x, float* y) const {
    for (size_t c = 0; c < g_.channels; ++c) {
      const size_t first = c > g_.radius ? c - g_.radius : 0;
      const size_t last = std::min(g_.channels - 1, c + std::min(g_.radius, g_.channels));
      float sum = 0;
      for (size_t i = first; i <= last; ++i) sum += x[i] * x[i];
      y[c] = x[c] * Reciprocal(g_.bias + g_.alpha * sum, g_.beta);
    }
  }

  // Squares are summed down the columns of the window for a whole line, then along the line.
  Status WithinChannel(const ExecArgs& args) const {
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    const size_t channels = g_.channels, line = g_.width * channels;
    const size_t lines = g_.batch * g_.height;
    args.threads.For(slots_, 1, [&](size_t begin, size_t end) {
      for (size_t slot = begin; slot < end; ++slot) {
        float* columns = static_cast<float*>(args.scratch) + slot * line;
        for (size_t i = slot; i < lines; i += slots_) {
          const float* image = in + i / g_.height * g_.height * line;
          const size_t h = i % g_.height;
          std::fill_n(columns, line, 0.0f);
          const size_t top = h > g_.radius ? h - g_.radius : 0;
          const size_t bottom = std::min(g_.height - 1, h + std::min(g_.radius, g_.height));
          for (size_t y = top; y <= bottom; ++y) {
            Simd().add_squares(columns, image + y * line, line);
          }
          for (size_t w = 0; w < g_.width; ++w) {
            const size_t left = w > g_.radius ? w - g_.radius : 0;
            const size_t right = std::min(g_.width - 1, w + std::min(g_.radius, g_.width));
            float* y = out + i * line + w * channels;
            const float* x = in + i * line + w * channels;
            for (size_t c = 0; c < channels; ++c) {
              float sum = 0;
              for (size_t k = left; k <= right; ++k) sum += columns[k * channels + c];
              y[c] = x[c] * Reciprocal(g_.bias + g_.alpha * sum, g_.beta);
            }
          }
        }
      }
    });
    return Status::Ok();
  }

  const LrnGeometry g_;
  const size_t slots_;
  decltype(PickIsa<ChannelsRun>()) run_ = PickIsa<ChannelsRun>();
};

}  // namespace

Status InferLrn(const Node& node, std::vector<Shape>* outputs) {
  const Shape& shape = node.inputs[0]->shape;
  QNNRT_RETURN_IF_ERROR(CheckRange("radius", node.Int("radius"), 0, INT32_MAX));
  if (node.Int("region") == 1 && shape.size() != 4) {
    return Invalid("region 1 (within channel) needs an input of rank 4, got shape %s",
                   ShapeText(shape).c_str());
  }
  (*outputs)[0] = shape;
  return Status::Ok();
}

Result<KernelPtr> MakeLrn(const Node& node, const KernelOptions& options) {
  const Shape& shape = node.inputs[0]->shape;
  LrnGeometry g;
  g.alpha = node.Float("alpha");
  g.beta = node.Float("beta");
  g.bias = node.Float("bias");
  g.radius = static_cast<size_t>(node.Int("radius"));
  g.across_channel = node.Int("region") == 0;
  g.channels = shape.back();
  if (g.across_channel) {
    g.width = g.channels == 0 ? 0 : node.inputs[0]->elements() / g.channels;
  } else {
    g.batch = shape[0];
    g.height = shape[1];
    g.width = shape[2];
  }
  return KernelPtr(new Lrn(g, options.threads));
}

}  // namespace qnnrt
