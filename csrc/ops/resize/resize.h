// What the kernels of the Resize ops share: which input coordinates an output reads, and with what
// weights.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/isa.h"
#include "ops/op.h"

namespace qnnrt {

enum class Transform { kHalfPixel, kPytorchHalfPixel, kAlignCorners, kAsymmetric, kHalfPixelRaw };
enum class Interpolation { kNearest, kLinear, kCubic };
enum class Nearest { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil, kRoundAway };

struct ResizeRule {
  Transform transform = Transform::kHalfPixel;
  Interpolation interpolation = Interpolation::kNearest;
  Nearest nearest = Nearest::kRoundPreferFloor;
  bool exclude_outside = false;
  double cubic = -0.75;
};

Result<ResizeRule> ReadResizeRule(const Node& node);

// What one output coordinate reads: up to four input coordinates and their weights.
struct Taps {
  size_t count = 0;
  size_t at[4];
  float weight[4];
};

// One to three spatial dimensions, as three.
struct ResizeGeometry {
  size_t batch = 1, channels = 1;
  size_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  std::vector<Taps> taps[3];
};

// fixed/geometry.cc: what fixed-point pixels are multiplied by is the same on every CPU.
ResizeGeometry MakeResizeGeometry(const Node& node, const ResizeRule& rule);

// Output lines (all columns of one row) are the unit of work; `line` counts batch, depth, height.
struct Line {
  size_t batch, d, h;
};
inline Line LineAt(const ResizeGeometry& g, size_t line) {
  return {line / g.out[1] / g.out[0], line / g.out[1] % g.out[0], line % g.out[1]};
}
inline size_t Lines(const ResizeGeometry& g) { return g.batch * g.out[0] * g.out[1]; }

// The inner loops of interpolation.
struct BlendLoops {
  void (*scale)(float* out, const float* x, float s, size_t count);       // out = s * x
  void (*add_scaled)(float* out, const float* x, float s, size_t count);  // out += s * x
  // A whole line of pixels with few channels, added in the same order.
  void (*pixels)(float* out, const float* line, const Taps* taps, size_t count, size_t channels);
};
// `fused`: a multiply and an add may round once, which depends on the flags of the file.
template <bool fused>
struct BlendPixels {
  static QNNRT_INLINE void Run(float* out, const float* line, const Taps* taps, size_t count,
                               size_t channels) {
    for (size_t p = 0; p < count; ++p, out += channels) {
      const Taps& t = taps[p];
      for (size_t c = 0; c < channels; ++c) {
        float sum = line[t.at[0] * channels + c] * t.weight[0];
        for (size_t i = 1; i < t.count; ++i) sum += line[t.at[i] * channels + c] * t.weight[i];
        out[c] = sum;
      }
    }
  }
};
// blend.cc: linear and cubic interpolation of FLOAT_32 or fixed-point pixels.
KernelPtr MakeBlend(const Node& node, const ResizeRule& rule, int threads, BlendLoops loops);

}  // namespace qnnrt
