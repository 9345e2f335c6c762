// InstanceNorm and GroupNorm: statistics over the pixels of an image, for each channel, for each
// group of channels, or for all; and over the channels of each pixel.
#include <algorithm>
#include <cmath>

#include "ops/norm/norm.h"
#include "ops/post_ops.h"
#include "ops/rules.h"
#include "ops/simd.h"
#include "ops/stored_floats.h"

namespace qnnrt {
namespace {

// Elements of a chunk: its sums are taken while it is in a cache, a second time around its own
// mean. And pixels that are summed in float before sums go to double.
constexpr size_t kChunkElements = 16 * 1024, kMostPixels = 128;

struct SpatialNorm {
  size_t batch = 1, pixels = 1, channels = 1;
  size_t group = 1;  // channels / group share their statistics; group == channels: each its own
  float epsilon = 0;
  bool subtract_mean = true, divide = true;

  double Factor(double mean_square) const {
    return divide ? 1.0 / std::sqrt(mean_square + static_cast<double>(epsilon)) : 1.0;
  }
};

struct Vectors {
  const float *weight, *bias;  // null: ones, zeros
};

// The memory of a run: of each chunk and channel its mean and the squares around it, then of each
// image and channel what y = (x - mean) * scale + shift takes.
struct Moments {
  float *means, *squares, *mean, *scale, *shift;
};

class SpatialNormKernel final : public Kernel {
 public:
  SpatialNormKernel(const Node& node, const SpatialNorm& n)
      : n_(n),
        post_ops_(node),
        brain_(IsBrain(node)),
        has_weight_(node.HasInput(1)),
        has_bias_(node.HasInput(2)) {
    const size_t fit = kChunkElements / std::max<size_t>(1, n_.channels);
    chunk_ = std::clamp<size_t>(fit, 8, kMostPixels);
    chunks_ = (n_.pixels + chunk_ - 1) / chunk_;
  }

  size_t ScratchBytes() const override {
    return n_.batch * n_.channels * (2 * chunks_ + 3) * sizeof(float);
  }

  Status Run(const ExecArgs& args) override {
    if (n_.batch * n_.pixels * n_.channels == 0) return Status::Ok();
    const Vectors v = {has_weight_ ? static_cast<const float*>(args.in[1]) : nullptr,
                       has_bias_ ? static_cast<const float*>(args.in[2]) : nullptr};
    const size_t parts = n_.batch * chunks_ * n_.channels, all = n_.batch * n_.channels;
    float* scratch = static_cast<float*>(args.scratch);
    const Moments m = {scratch, scratch + parts, scratch + 2 * parts, scratch + 2 * parts + all,
                       scratch + 2 * parts + 2 * all};
    args.threads.For(n_.batch * chunks_, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        Measure(args.in[0], First(i) * n_.channels, Pixels(i), m, i * n_.channels);
      }
    });
    const size_t grain = std::max<size_t>(1, kChunkElements * n_.group / (chunks_ * n_.channels));
    args.threads.For(n_.batch * n_.group, grain, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) Join(m, v, i / n_.group, i % n_.group);
    });
    args.threads.For(n_.batch * chunks_, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) Scale(args, m, i);
    });
    return Status::Ok();
  }

 private:
  size_t Pixels(size_t chunk) const {
    return std::min(chunk_, n_.pixels - chunk % chunks_ * chunk_);
  }
  // The first pixel of a chunk, counted over all images.
  size_t First(size_t chunk) const {
    return chunk / chunks_ * n_.pixels + chunk % chunks_ * chunk_;
  }

  void Measure(const void* in, size_t first, size_t pixels, const Moments& m, size_t at) const {
    float *mean = m.means + at, *squares = m.squares + at;
    const size_t n = n_.channels;
    const float part = 1.0f / static_cast<float>(pixels);
    if (brain_) {
      const uint16_t* x = static_cast<const uint16_t*>(in) + first;
      Simd().brain.column_sums(mean, x, n, pixels, n);
      Simd().scale(mean, mean, part, n);
      if (n_.divide) Simd().brain.column_squares(squares, x, n, pixels, mean, n);
      return;
    }
    const float* x = static_cast<const float*>(in) + first;
    Simd().column_sums(mean, x, n, pixels, n);
    Simd().scale(mean, mean, part, n);
    if (n_.divide) Simd().column_squares(squares, x, n, pixels, mean, n);
  }

  // The statistics of a group: its chunks' squares, moved from their own means to the common one.
  void Join(const Moments& m, const Vectors& v, size_t image, size_t group) const {
    const size_t width = n_.channels / n_.group, first = group * width;
    const size_t parts = image * chunks_ * n_.channels + first;
    const double count = static_cast<double>(n_.pixels) * static_cast<double>(width);
    double mean = 0, squares = 0;
    if (n_.subtract_mean) {
      for (size_t k = 0; k < chunks_; ++k) {
        double sum = 0;
        for (size_t c = 0; c < width; ++c) sum += m.means[parts + k * n_.channels + c];
        mean += sum * static_cast<double>(Pixels(k));
      }
      mean /= count;
    }
    for (size_t k = 0; k < chunks_ && n_.divide; ++k) {
      const float* means = m.means + parts + k * n_.channels;
      const float* around = m.squares + parts + k * n_.channels;
      double own = 0, moved = 0;
      for (size_t c = 0; c < width; ++c) {
        own += around[c];
        moved += (means[c] - mean) * (means[c] - mean);
      }
      squares += own + moved * static_cast<double>(Pixels(k));
    }
    const double factor = n_.Factor(squares / count);
    for (size_t c = first; c < first + width; ++c) {
      const size_t at = image * n_.channels + c;
      m.mean[at] = static_cast<float>(mean);
      m.scale[at] = static_cast<float>(v.weight != nullptr ? factor * v.weight[c] : factor);
      m.shift[at] = v.bias != nullptr ? v.bias[c] : 0.0f;
    }
  }

  void Scale(const ExecArgs& args, const Moments& m, size_t chunk) const {
    const size_t begin = First(chunk), end = begin + Pixels(chunk);
    const size_t of_image = chunk / chunks_ * n_.channels;
    if (brain_) return ScaleBrain(args, m, begin * n_.channels, end * n_.channels, of_image);
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    for (size_t at = begin * n_.channels; at < end * n_.channels; at += n_.channels) {
      Simd().shifted_affine(out + at, in + at, m.mean + of_image, m.scale + of_image,
                            m.shift + of_image, n_.channels);
    }
    const size_t at = begin * n_.channels;
    post_ops_.Apply(args, out + at, at, (end - begin) * n_.channels);
  }

  void ScaleBrain(const ExecArgs& args, const Moments& m, size_t begin, size_t end,
                  size_t of_image) const {
    const uint16_t* in = static_cast<const uint16_t*>(args.in[0]);
    uint16_t* out = static_cast<uint16_t*>(args.out[0]);
    const float *mean = m.mean + of_image, *scale = m.scale + of_image, *shift = m.shift + of_image;
    for (size_t at = begin; at < end; at += n_.channels) {
      if (post_ops_.empty()) {
        Simd().brain.rounded_affine(out + at, in + at, mean, scale, shift, n_.channels);
        continue;
      }
      for (size_t c = 0; c < n_.channels; c += kFloatBlock) {
        const size_t count = std::min(kFloatBlock, n_.channels - c);
        alignas(64) float block[kFloatBlock];
        Simd().brain.shifted_affine(block, in + at + c, mean + c, scale + c, shift + c, count);
        post_ops_.Apply(args, block, at + c, count);
        NarrowFloatOf(QNN_DATATYPE_BFLOAT_16)->narrow(block, out + at + c, count);
      }
    }
  }

  const SpatialNorm n_;
  const PostOps post_ops_;
  const bool brain_, has_weight_, has_bias_;
  size_t chunk_ = 1, chunks_ = 1;  // pixels of a chunk, chunks of an image
};

// Statistics over the channels of each pixel.
class PixelNormKernel final : public Kernel {
 public:
  PixelNormKernel(const Node& node, const SpatialNorm& n)
      : n_(n), post_ops_(node), has_weight_(node.HasInput(1)), has_bias_(node.HasInput(2)) {}

  Status Run(const ExecArgs& args) override {
    const float* in = static_cast<const float*>(args.in[0]);
    const float* weight = has_weight_ ? static_cast<const float*>(args.in[1]) : nullptr;
    const float* bias = has_bias_ ? static_cast<const float*>(args.in[2]) : nullptr;
    float* out = static_cast<float*>(args.out[0]);
    const size_t count = n_.channels;
    const size_t grain = std::max<size_t>(1, kChunkElements / std::max<size_t>(1, count));
    args.threads.For(n_.batch * n_.pixels, grain, [&](size_t begin, size_t end) {
      for (size_t at = begin * count; at < end * count; at += count) {
        const float each = 1.0f / static_cast<float>(count);
        const float mean = n_.subtract_mean ? Simd().sum(in + at, count) * each : 0.0f;
        const float squares = n_.divide ? Simd().sum_squares(in + at, count, mean) * each : 0.0f;
        const float factor = static_cast<float>(n_.Factor(static_cast<double>(squares)));
        Simd().normalize(out + at, in + at, mean, factor, weight, bias, count);
        post_ops_.Apply(args, out + at, at, count);
      }
    });
    return Status::Ok();
  }

 private:
  const SpatialNorm n_;
  const PostOps post_ops_;
  const bool has_weight_, has_bias_;
};

Status CheckVectors(const Node& node) {
  const Shape channels = {node.inputs[0]->shape.back()};
  QNNRT_RETURN_IF_ERROR(CheckShape(node, 1, "weight", channels));
  return CheckShape(node, 2, "bias", channels);
}

// Whether a node is run in FLOAT_32, its tensors converted.
bool Converts(const Node& node, bool takes_brain) {
  const auto narrow = [](const Tensor* t) { return t != nullptr && StoredFloats(*t).narrow(); };
  if (std::any_of(node.inputs.begin() + 1,
                  node.inputs.begin() + std::min<size_t>(3, node.inputs.size()), narrow))
    return true;
  return (narrow(node.inputs[0]) || narrow(node.outputs[0])) && !(takes_brain && IsBrain(node));
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

Result<KernelPtr> MakeInstanceNorm(const Node& node, const KernelOptions& options) {
  if (Converts(node, node.Int("region") != 1))
    return MakeViaFloat(*FindOp(node.type), node, options);
  SpatialNorm n = Dims(node.inputs[0]->shape);
  n.epsilon = node.Float("epsilon");
  n.subtract_mean = node.Int("mode") == 0;
  n.divide = !n.subtract_mean || node.Bool("normalize_variance");
  const int64_t region = node.Int("region");
  if (region == 1) return KernelPtr(new PixelNormKernel(node, n));
  n.group = region == 0 ? n.channels : 1;
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

Result<KernelPtr> MakeGroupNorm(const Node& node, const KernelOptions& options) {
  if (Converts(node, true)) return MakeViaFloat(*FindOp(node.type), node, options);
  SpatialNorm n = Dims(node.inputs[0]->shape);
  n.epsilon = node.Float("epsilon");
  n.group = static_cast<size_t>(node.Int("group"));
  return KernelPtr(new SpatialNormKernel(node, n));
}

}  // namespace qnnrt
