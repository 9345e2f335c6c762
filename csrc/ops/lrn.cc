// Lrn: y = x / (bias + alpha * sum of squares in the window) ^ beta. Unlike ONNX, the sum is not
// divided by the window's size.
#include <algorithm>
#include <cmath>

#include "ops/norm.h"
#include "ops/rules.h"
#include "ops/simd.h"

namespace qnnrt {
namespace {

struct LrnGeometry {
  float alpha = 1, beta = 0.5f, bias = 1;
  size_t radius = 0;
  bool across_channel = true;
  size_t batch = 1, height = 1, width = 1, channels = 1;  // across channels: width is all pixels
};

// 1 / s^beta; the usual exponents without pow.
float Reciprocal(float s, float beta) {
  if (beta == 0.75f) {
    const float root = std::sqrt(s);
    return 1.0f / (root * std::sqrt(root));
  }
  if (beta == 0.5f) return 1.0f / std::sqrt(s);
  if (beta == 1.0f) return 1.0f / s;
  return std::pow(s, -beta);
}

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
  const char* Name() const override { return "portable"; }

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
        // Summed anew for every channel: a running sum would carry cancellation along.
        for (size_t c = 0; c < channels; ++c) {
          const size_t first = c > g_.radius ? c - g_.radius : 0;
          const size_t last = std::min(channels - 1, c + std::min(g_.radius, channels));
          float sum = 0;
          for (size_t i = first; i <= last; ++i) sum += x[i] * x[i];
          y[c] = x[c] * Reciprocal(g_.bias + g_.alpha * sum, g_.beta);
        }
      }
    });
    return Status::Ok();
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
};

}  // namespace

Status InferLrn(const Node& node, std::vector<Shape>* outputs) {
  const Shape& shape = node.inputs[0]->shape;
  QNNRT_RETURN_IF_ERROR(CheckRange("radius", node.Int("radius"), 0, INT32_MAX));
  QNNRT_RETURN_IF_ERROR(CheckRange("region", node.Int("region"), 0, 1));
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
  g.alpha = node.Float("alpha", 1.0f);
  g.beta = node.Float("beta", 0.5f);
  g.bias = node.Float("bias", 1.0f);
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
