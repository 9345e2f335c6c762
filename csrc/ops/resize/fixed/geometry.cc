// Coordinates and weights of the Resize ops, in double precision.
#include <algorithm>
#include <cmath>

#include "ops/resize/resize.h"

namespace qnnrt {
namespace {

double SourceCoordinate(const ResizeRule& rule, size_t out, size_t in_size, size_t out_size) {
  const double x = static_cast<double>(out);
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  switch (rule.transform) {
    case Transform::kPytorchHalfPixel:
      return out_size > 1 ? (x + 0.5) * scale - 0.5 : 0.0;
    case Transform::kHalfPixel:
      return (x + 0.5) * scale - 0.5;
    // Multiplied first from here on: whole coordinates come out whole.
    case Transform::kHalfPixelRaw:  // the output pixel's centre, to be rounded down
      return (x + 0.5) * static_cast<double>(in_size) / static_cast<double>(out_size);
    case Transform::kAlignCorners:
      return out_size > 1 ? x * static_cast<double>(in_size - 1) / static_cast<double>(out_size - 1)
                          : 0.0;
    case Transform::kAsymmetric:
      return x * static_cast<double>(in_size) / static_cast<double>(out_size);
  }
  return x;
}

double RoundCoordinate(Nearest nearest, double x) {
  switch (nearest) {
    case Nearest::kRoundPreferFloor:
      return std::ceil(x - 0.5);
    case Nearest::kRoundPreferCeil:
      return std::floor(x + 0.5);
    case Nearest::kFloor:
      return std::floor(x);
    case Nearest::kCeil:
      return std::ceil(x);
    case Nearest::kRoundAway:
      return std::round(x);
  }
  return x;
}

// Keys' kernel at the four neighbours of a point `t` behind the second one.
void CubicWeights(double a, double t, double weights[4]) {
  const double u = 1.0 - t;
  weights[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
  weights[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  weights[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
  weights[3] = ((a * (u + 1) - 5 * a) * (u + 1) + 8 * a) * (u + 1) - 4 * a;
}

Taps TapsFor(const ResizeRule& rule, size_t out, size_t in_size, size_t out_size) {
  Taps taps;
  const double last = static_cast<double>(in_size - 1);
  double x = SourceCoordinate(rule, out, in_size, out_size);
  if (rule.interpolation == Interpolation::kNearest) {
    taps.count = 1;
    taps.at[0] = static_cast<size_t>(std::clamp(RoundCoordinate(rule.nearest, x), 0.0, last));
    taps.weight[0] = 1.0f;
    return taps;
  }
  if (rule.interpolation == Interpolation::kLinear) {
    x = std::clamp(x, 0.0, last);
    const double low = std::floor(x);
    taps.at[0] = static_cast<size_t>(low);
    taps.at[1] = std::min(taps.at[0] + 1, in_size - 1);
    taps.weight[1] = static_cast<float>(x - low);
    taps.weight[0] = static_cast<float>(1.0 - (x - low));
    taps.count = taps.weight[1] == 0.0f ? 1 : 2;
    return taps;
  }
  const double low = std::floor(x);
  double weights[4], total = 0;
  CubicWeights(rule.cubic, x - low, weights);
  for (int i = 0; i < 4; ++i) {
    const double at = low + i - 1;
    if (rule.exclude_outside && (at < 0 || at > last)) weights[i] = 0;
    total += weights[i];
  }
  taps.count = 4;
  for (int i = 0; i < 4; ++i) {
    taps.at[i] = static_cast<size_t>(std::clamp(low + i - 1, 0.0, last));
    taps.weight[i] = static_cast<float>(rule.exclude_outside ? weights[i] / total : weights[i]);
  }
  return taps;
}

}  // namespace

ResizeGeometry MakeResizeGeometry(const Node& node, const ResizeRule& rule) {
  const Shape& in = node.inputs[0]->shape;
  const Shape& out = node.outputs[0]->shape;
  const size_t spatial = in.size() - 2;
  ResizeGeometry g;
  g.batch = in.front();
  g.channels = in.back();
  for (size_t i = 0; i < spatial; ++i) {
    g.in[3 - spatial + i] = in[1 + i];
    g.out[3 - spatial + i] = out[1 + i];
  }
  for (size_t d = 0; d < 3; ++d) {
    for (size_t i = 0; i < g.out[d]; ++i) g.taps[d].push_back(TapsFor(rule, i, g.in[d], g.out[d]));
  }
  return g;
}

}  // namespace qnnrt
