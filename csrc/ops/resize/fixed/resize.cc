// Interpolation between fixed-point pixels.
#include "ops/resize/resize.h"
#include "ops/fixed/kernels.h"
#include "ops/isa.h"

namespace qnnrt {
namespace {

struct Scale {
  static QNNRT_INLINE void Run(float* out, const float* x, float s, size_t count) {
    QNNRT_SIMD
    for (size_t i = 0; i < count; ++i) out[i] = s * x[i];
  }
};

struct AddScaled {
  static QNNRT_INLINE void Run(float* out, const float* x, float s, size_t count) {
    QNNRT_SIMD
    for (size_t i = 0; i < count; ++i) out[i] += s * x[i];
  }
};

}  // namespace

Result<KernelPtr> MakeFixedResize(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const ResizeRule rule, ReadResizeRule(node));
  if (rule.interpolation == Interpolation::kNearest) return KernelPtr();
  return MakeBlend(node, rule, options.threads,
                   {PickIsa<Scale>(), PickIsa<AddScaled>(), PickIsa<BlendPixels<false>>()});
}

}  // namespace qnnrt
