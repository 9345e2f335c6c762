#include "ops/fixed/affine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/elementwise/fixed/fused.h"
#include "ops/fixed/codec.h"
#include "ops/rules.h"

namespace qnnrt::fixed {
namespace {

constexpr size_t kGrain = 32 * 1024;  // elements worth a thread
constexpr size_t kRow = 1024;         // elements that one call takes, at least
constexpr size_t kFewPixels = 16;     // too few for a look at all codes of every channel
constexpr size_t kCodes = 256;
constexpr double kMostSteps = 1 << 20;  // far from what the loops saturate at

class AffineKernel final : public Kernel {
 public:
  AffineKernel(AffineLoop loop, const Node& node, size_t input)
      : loop_(loop),
        input_(input),
        count_(node.outputs[0]->elements()),
        channels_(node.outputs[0]->shape.back()),
        row_(channels_ * std::max<size_t>(1, kRow / channels_)),
        zero_(-node.outputs[0]->quantization.offsets[0]) {}

  Status Allocate() {
    constants_ = AlignedBytes::Make(2 * row_ * sizeof(float));
    return constants_ ? Status::Ok() : OutOfMemory();
  }

  // Finds the constants of a channel, in steps of the output; false where there are none.
  bool Find(size_t channel, double factor, double addend, const uint8_t* right) {
    uint8_t codes[kCodes], got[kCodes];
    float factors[kCodes], addends[kCodes];
    for (size_t i = 0; i < kCodes; ++i) codes[i] = static_cast<uint8_t>(i);
    for (int f : kNudges) {
      for (int a : kNudges) {
        std::fill_n(factors, kCodes, Nudged(static_cast<float>(factor), f));
        std::fill_n(addends, kCodes, Nudged(static_cast<float>(addend), a));
        loop_(codes, factors, addends, got, kCodes, zero_);
        if (std::memcmp(got, right, kCodes) != 0) continue;
        for (size_t i = channel; i < row_; i += channels_) {
          Factors()[i] = factors[0];
          Addends()[i] = addends[0];
        }
        return true;
      }
    }
    return false;
  }

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[input_]);
    char* out = static_cast<char*>(args.out[0]);
    args.threads.For(count_, kGrain, [&](size_t begin, size_t end) {
      for (size_t at = begin; at < end;) {
        const size_t phase = at % channels_;
        const size_t n = std::min(end - at, row_ - phase);
        loop_(in + at, Factors() + phase, Addends() + phase, out + at, n, zero_);
        at += n;
      }
    });
    return Status::Ok();
  }

 private:
  float* Factors() const { return static_cast<float*>(constants_->data()); }
  float* Addends() const { return Factors() + row_; }

  const AffineLoop loop_;
  const size_t input_, count_, channels_, row_;
  const int32_t zero_;
  std::shared_ptr<AlignedBytes> constants_;  // of channels, repeated
};

}  // namespace

Result<KernelPtr> MakeFixedAffine(const Node& node, size_t input,
                                  FunctionRef<Affine(size_t)> affine,
                                  FunctionRef<void(size_t, uint8_t*)> exact) {
  const Tensor &in = *node.inputs[input], &out = *node.outputs[0];
  const size_t channels = out.shape.empty() ? 0 : out.shape.back();
  if (in.dtype != out.dtype || in.shape != out.shape || !OneScale(in.quantization) ||
      !OneScale(out.quantization) || out.elements() < kFewPixels * channels || channels == 0) {
    return KernelPtr();
  }
  const FixedRange range = RangeOf(out.dtype, out.quantization.bitwidth);
  const AffineLoop loop = range.high - range.low == 255 ? PickAffine8(out.dtype) : nullptr;
  if (loop == nullptr) return KernelPtr();
  auto kernel = std::make_unique<AffineKernel>(loop, node, input);
  QNNRT_RETURN_IF_ERROR(kernel->Allocate());
  const double in_scale = in.quantization.scales[0], out_scale = out.quantization.scales[0];
  for (size_t c = 0; c < channels; ++c) {
    const Affine real = affine(c);
    const double factor = real.factor * in_scale / out_scale;
    const double addend = factor * in.quantization.offsets[0] + real.addend / out_scale;
    uint8_t right[kCodes];
    if (!(std::fabs(factor) * kCodes + std::fabs(addend) < kMostSteps)) return KernelPtr();
    exact(c, right);
    if (!kernel->Find(c, factor, addend, right)) return KernelPtr();
  }
  return KernelPtr(std::move(kernel));
}

}  // namespace qnnrt::fixed
