// HadamardTransform: each row along the last dim times the Hadamard matrix of its size, in
// Sylvester's order, over the square root of the size, times `scale`. What is left open elsewhere
// is as the vendor's HTP simulator has it.
#include <cmath>
#include <cstring>

#include "abi/qnn_op_names.h"
#include "ops/isa.h"
#include "ops/rules.h"
#include "ops/transform/transform.h"

namespace qnnrt {
namespace {

constexpr size_t kHadamardGrain = 16 * 1024;  // worth a thread

// One row in place: log2(n) rounds of sums and differences, instead of n products an element.
struct Butterflies {
  static QNNRT_INLINE void Run(float* x, size_t n, float factor) {
    for (size_t half = 1; half < n; half *= 2) {
      for (size_t at = 0; at < n; at += 2 * half) {
        float *low = x + at, *high = low + half;
        QNNRT_SIMD
        for (size_t i = 0; i < half; ++i) {
          const float a = low[i], b = high[i];
          low[i] = a + b;
          high[i] = a - b;
        }
      }
    }
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) x[i] *= factor;
  }
};

class HadamardKernel final : public Kernel {
 public:
  explicit HadamardKernel(const Node& node)
      : size_(node.inputs[0]->shape.back()),
        rows_(node.inputs[0]->elements() / size_),
        factor_(node.Float(QNN_OP_HADAMARD_TRANSFORM_PARAM_SCALE) /
                std::sqrt(static_cast<float>(size_))),
        row_(PickIsa<Butterflies>()) {}

  Status Run(const ExecArgs& args) override {
    const float* in = static_cast<const float*>(args.in[0]);
    float* out = static_cast<float*>(args.out[0]);
    args.threads.For(rows_, 1 + kHadamardGrain / size_, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        std::memcpy(out + row * size_, in + row * size_, size_ * sizeof(float));
        row_(out + row * size_, size_, factor_);
      }
    });
    return {};
  }

 private:
  const size_t size_, rows_;
  const float factor_;
  void (*const row_)(float*, size_t, float);
};

Status HadamardShape(const Node& node, std::vector<Shape>* outputs) {
  const uint32_t size = node.inputs[0]->shape.back();
  if (size == 0 || (size & (size - 1)) != 0) {
    return Invalid("the last dim of input 0 is %u; it must be a power of two", size);
  }
  return SameShapeAsInput(node, outputs);
}

Result<KernelPtr> MakeHadamard(const Node& node, const KernelOptions&) {
  return KernelPtr(std::make_unique<HadamardKernel>(node));
}

}  // namespace

OpDef HadamardTransformOp() {
  return {QNN_OP_HADAMARD_TRANSFORM,
          {{"in[0]", types::kFloat, PortSpec::kOne, -1, 1, 8}},
          {{"out[0]", types::kFloat, PortSpec::kOne, 0, 1, 8}},
          {{QNN_OP_HADAMARD_TRANSFORM_PARAM_SCALE, ParamSpec::kFloat, Default(1.0),
            "times 1 / sqrt(size of the last dim)"}},
          HadamardShape,
          MakeHadamard};
}

}  // namespace qnnrt
