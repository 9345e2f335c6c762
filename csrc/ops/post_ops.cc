#include "ops/post_ops.h"

#include <algorithm>
#include <iterator>

#include "ops/isa.h"
#include "ops/simd.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

template <Activation a>
QNNRT_INLINE float Activate(float x, [[maybe_unused]] float alpha, [[maybe_unused]] float beta) {
  if constexpr (a == Activation::kRelu) return x < 0.0f ? 0.0f : x;
  if constexpr (a == Activation::kRelu6) return vmath::Clamp(x, 0.0f, 6.0f);
  if constexpr (a == Activation::kReluMinMax) return vmath::Clamp(x, alpha, beta);
  if constexpr (a == Activation::kSigmoid) return vmath::Sigmoid(x);
  if constexpr (a == Activation::kTanh) return vmath::Tanh(x);
  if constexpr (a == Activation::kElu) return vmath::Elu(x, alpha);
  if constexpr (a == Activation::kGelu) return vmath::Gelu(x);
  if constexpr (a == Activation::kHardSwish) return vmath::HardSwish(x);
  if constexpr (a == Activation::kHardSigmoid) return vmath::HardSigmoid(x, alpha, beta);
  if constexpr (a == Activation::kSoftplus) return vmath::Softplus(x);
  if constexpr (a == Activation::kLeakyRelu) return x < 0.0f ? x * alpha : x;
  if constexpr (a == Activation::kSwish) return x * vmath::Sigmoid(x);
}

template <Activation a>
struct Row {
  static QNNRT_INLINE void Run(float* x, size_t count, float alpha, float beta) {
    QNNRT_SIMD
    for (size_t i = 0; i < count; ++i) x[i] = Activate<a>(x[i], alpha, beta);
  }
};

using RowFn = void (*)(float*, size_t, float, float);

// Indexed by Activation.
const RowFn* Rows() {
  static const RowFn rows[] = {
      PickIsa<Row<Activation::kRelu>>(),        PickIsa<Row<Activation::kRelu6>>(),
      PickIsa<Row<Activation::kReluMinMax>>(),  PickIsa<Row<Activation::kSigmoid>>(),
      PickIsa<Row<Activation::kTanh>>(),        PickIsa<Row<Activation::kElu>>(),
      PickIsa<Row<Activation::kGelu>>(),        PickIsa<Row<Activation::kHardSwish>>(),
      PickIsa<Row<Activation::kHardSigmoid>>(), PickIsa<Row<Activation::kSoftplus>>(),
      PickIsa<Row<Activation::kLeakyRelu>>(),   PickIsa<Row<Activation::kSwish>>(),
  };
  static_assert(sizeof rows / sizeof rows[0] == static_cast<size_t>(Activation::kSwish) + 1);
  return rows;
}

}  // namespace

float ApplyActivation(Activation a, float x, float alpha, float beta) {
  ApplyActivation(a, &x, 1, alpha, beta);
  return x;
}

void ApplyActivation(Activation a, float* x, size_t count, float alpha, float beta) {
  Rows()[static_cast<size_t>(a)](x, count, alpha, beta);
}

void PostOps::Apply(const ExecArgs& args, float* values, size_t offset, size_t count) const {
  for (const PostOp& op : ops_) {
    if (op.kind == PostOp::Kind::kAdd) {
      Simd().add(values, static_cast<const float*>(args.in[op.input]) + offset, count);
    } else {
      ApplyActivation(op.activation, values, count, op.alpha, op.beta);
    }
  }
}

bool TakesFixedPostOp(const Node& node, const PostOp& op) {
  const bool clamps = op.kind == PostOp::Kind::kActivation &&
                      (op.activation == Activation::kRelu || op.activation == Activation::kRelu6 ||
                       op.activation == Activation::kReluMinMax);
  const auto is_8_bit = [](const Tensor* t) {
    return t != nullptr && (TypeBit(t->dtype) & types::kFixed8) != 0;
  };
  static constexpr const char* kProducts[] = {
      "Conv1d",          "Conv2d",          "Conv3d",         "DepthWiseConv1d",
      "DepthWiseConv2d", "TransposeConv2d", "FullyConnected", "MatMul"};
  const bool product = std::any_of(std::begin(kProducts), std::end(kProducts),
                                   [&](const char* type) { return node.type == type; });
  return clamps && product && node.inputs.size() > 1 && is_8_bit(node.inputs[0]) &&
         is_8_bit(node.inputs[1]) && node.HasOutput(0) && is_8_bit(node.outputs[0]);
}

}  // namespace qnnrt
