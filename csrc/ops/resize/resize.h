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

// What the elements of an output line read of an input line, where their channels are few: one
// array for each tap. A weight of 0 behind the first tap: nothing is read.
struct PixelTable {
  size_t taps = 0, count = 0;
  std::vector<int32_t> at[4];
  std::vector<float> weight[4];
};
PixelTable MakePixelTable(const std::vector<Taps>& taps, size_t channels);

// The inner loops of interpolation.
struct BlendLoops {
  void (*scale)(float* out, const float* x, float s, size_t count);       // out = s * x
  void (*add_scaled)(float* out, const float* x, float s, size_t count);  // out += s * x
  // A whole line of pixels with few channels, added in the same order.
  void (*pixels)(float* out, const float* line, const PixelTable& table);
};
// `fused`: a multiply and an add may round once, which depends on the flags of the file.
template <bool fused>
struct BlendPixels {
  static QNNRT_INLINE void Run(float* out, const float* line, const PixelTable& table) {
    const size_t count = table.count;
    const int32_t *a = table.at[0].data(), *b = table.at[1].data(), *c = table.at[2].data(),
                  *d = table.at[3].data();
    const float *u = table.weight[0].data(), *v = table.weight[1].data(),
                *w = table.weight[2].data(), *z = table.weight[3].data();
    if (table.taps == 1) {
      QNNRT_SIMD
      for (size_t i = 0; i < count; ++i) out[i] = line[a[i]] * u[i];
    } else if (table.taps == 2) {
      QNNRT_SIMD
      for (size_t i = 0; i < count; ++i) {
        const float first = line[a[i]] * u[i];
        const float sum = first + line[b[i]] * v[i];
        out[i] = v[i] == 0.0f ? first : sum;  // 0 times what is infinite is no number
      }
    } else {
      QNNRT_SIMD
      for (size_t i = 0; i < count; ++i) {
        float sum = line[a[i]] * u[i];
        sum += line[b[i]] * v[i];
        sum += line[c[i]] * w[i];
        sum += line[d[i]] * z[i];
        out[i] = sum;
      }
    }
  }
};
// blend.cc: linear and cubic interpolation of FLOAT_32 or fixed-point pixels.
KernelPtr MakeBlend(const Node& node, const ResizeRule& rule, int threads, BlendLoops loops);

}  // namespace qnnrt
