// InstanceNorm and GroupNorm: statistics over the pixels of an image, for each channel, for each
// group of channels, or for all; and over the channels of each pixel.
#include <algorithm>
#include <cmath>

#include "ops/norm/norm.h"
#include "ops/rules.h"
#include "ops/simd.h"

namespace qnnrt {
namespace {

constexpr size_t kBlock = 64;      // channels that one pass keeps statistics for
constexpr size_t kPixelRun = 128;  // pixels summed in float before the sum goes to double

struct SpatialNorm {
  size_t batch = 1, pixels = 1, channels = 1;
  size_t group = 1;  // channels / group share their statistics; group == channels: each its own
  float epsilon = 0;
  bool subtract_mean = true, divide = true;

  float Factor(double mean_square) const {
    return divide ? static_cast<float>(1.0 / std::sqrt(mean_square + epsilon)) : 1.0f;
  }
};

class SpatialNormKernel final : public Kernel {
 public:
  SpatialNormKernel(const Node& node, const SpatialNorm& n)
      : n_(n), has_weight_(node.HasInput(1)), has_bias_(node.HasInput(2)) {}

  Status Run(const ExecArgs& args) override {
    const size_t image = n_.pixels * n_.channels;
    if (image == 0) return Status::Ok();
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    const float* weight = has_weight_ ? static_cast<const float*>(args.in[1]) : nullptr;
    const float* bias = has_bias_ ? static_cast<const float*>(args.in[2]) : nullptr;
    const bool each = n_.group == n_.channels;
    const size_t width = each ? std::min(kBlock, n_.channels) : n_.channels / n_.group;
    const size_t units = (n_.channels + width - 1) / width;
    const size_t grain = std::max<size_t>(1, 16384 / std::max<size_t>(1, n_.pixels * width));
    args.threads.For(n_.batch * units, grain, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const size_t c = i % units * width;
        const size_t count = std::min(width, n_.channels - c);
        const size_t at = i / units * image + c;
        const float* w = weight != nullptr ? weight + c : nullptr;
        const float* b = bias != nullptr ? bias + c : nullptr;
        if (each) {
          EachChannel(in + at, w, b, out + at, count);
        } else {
          Group(in + at, w, b, out + at, count);
        }
      }
    });
    return Status::Ok();
  }

 private:
  // Sums of x, or of (x - mean)^2, for each of `count` channels over all pixels.
  void Sums(const float* in, const float* mean, size_t count, double* sums) const {
    std::fill_n(sums, count, 0.0);
    for (size_t p0 = 0; p0 < n_.pixels; p0 += kPixelRun) {
      const size_t p1 = std::min(n_.pixels, p0 + kPixelRun);
      float part[kBlock] = {};
      for (size_t p = p0; p < p1; ++p) {
        const float* x = in + p * n_.channels;
        if (mean == nullptr) {
          for (size_t c = 0; c < count; ++c) part[c] += x[c];
        } else {
          for (size_t c = 0; c < count; ++c) part[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
        }
      }
      for (size_t c = 0; c < count; ++c) sums[c] += part[c];
    }
  }

  void EachChannel(const float* in, const float* weight, const float* bias, float* out,
                   size_t count) const {
    double sums[kBlock];
    float mean[kBlock] = {}, scale[kBlock], shift[kBlock];
    const double pixels = static_cast<double>(n_.pixels);
    if (n_.subtract_mean) {
      Sums(in, nullptr, count, sums);
      for (size_t c = 0; c < count; ++c) mean[c] = static_cast<float>(sums[c] / pixels);
    }
    if (n_.divide) Sums(in, mean, count, sums);
    for (size_t c = 0; c < count; ++c) {
      scale[c] =
          (n_.divide ? n_.Factor(sums[c] / pixels) : 1.0f) * (weight != nullptr ? weight[c] : 1.0f);
      shift[c] = bias != nullptr ? bias[c] : 0.0f;
    }
    for (size_t p = 0; p < n_.pixels; ++p) {
      const float* x = in + p * n_.channels;
      float* y = out + p * n_.channels;
      for (size_t c = 0; c < count; ++c) y[c] = (x[c] - mean[c]) * scale[c] + shift[c];
    }
  }

  void Group(const float* in, const float* weight, const float* bias, float* out,
             size_t count) const {
    const double elements = static_cast<double>(n_.pixels) * static_cast<double>(count);
    double sum = 0, squares = 0;
    if (n_.subtract_mean) {
      for (size_t p = 0; p < n_.pixels; ++p) sum += Simd().sum(in + p * n_.channels, count);
    }
    const float mean = static_cast<float>(sum / elements);
    if (n_.divide) {
      for (size_t p = 0; p < n_.pixels; ++p) {
        squares += Simd().sum_squares(in + p * n_.channels, count, mean);
      }
    }
    const float factor = n_.Factor(squares / elements);
    for (size_t p = 0; p < n_.pixels; ++p) {
      const size_t at = p * n_.channels;
      Simd().normalize(out + at, in + at, mean, factor, weight, bias, count);
    }
  }

  const SpatialNorm n_;
  const bool has_weight_, has_bias_;
};

Status CheckVectors(const Node& node) {
  const Shape channels = {node.inputs[0]->shape.back()};
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 1, "weight", channels));
  return CheckShape(node, 2, "bias", channels);
}

SpatialNorm Dims(const Shape& shape) {
  SpatialNorm n;
  n.batch = shape.front();
  n.channels = shape.back();
  for (size_t i = 1; i + 1 < shape.size(); ++i) n.pixels *= shape[i];
  return n;
}

}  // namespace

Status InferInstanceNorm(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_RETURN_IF_ERROR(CheckVectors(node));
  (*outputs)[0] = node.inputs[0]->shape;
  return Status::Ok();
}

Result<KernelPtr> MakeInstanceNorm(const Node& node, const KernelOptions&) {
  SpatialNorm n = Dims(node.inputs[0]->shape);
  n.epsilon = node.Float("epsilon");
  n.subtract_mean = node.Int("mode") == 0;
  n.divide = !n.subtract_mean || node.Bool("normalize_variance");
  const int64_t region = node.Int("region");
  n.group = region == 0 ? n.channels : 1;
  if (region == 1) {  // every pixel is an image of its own
    n.batch *= n.pixels;
    n.pixels = 1;
  }
  return KernelPtr(new SpatialNormKernel(node, n));
}

Status InferGroupNorm(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_RETURN_IF_ERROR(CheckVectors(node));
  const int64_t channels = node.inputs[0]->shape.back(), group = node.Int("group");
  QNNRT_RETURN_IF_ERROR(CheckRange("group", group, 1, INT32_MAX));
  if (channels % group != 0) {
    return Invalid("group %lld must divide the %lld channels", static_cast<long long>(group),
                   static_cast<long long>(channels));
  }
  (*outputs)[0] = node.inputs[0]->shape;
  return Status::Ok();
}

Result<KernelPtr> MakeGroupNorm(const Node& node, const KernelOptions&) {
  SpatialNorm n = Dims(node.inputs[0]->shape);
  n.epsilon = node.Float("epsilon");
  n.group = static_cast<size_t>(node.Int("group"));
  return KernelPtr(new SpatialNormKernel(node, n));
}

}  // namespace qnnrt
