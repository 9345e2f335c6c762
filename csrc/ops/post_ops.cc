#include "ops/post_ops.h"

#include <algorithm>

#include "ops/fixed/codec.h"
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

int64_t Encoded(float value, const Tensor& tensor) {
  uint8_t code = 0;
  Codec(tensor).Encode(&value, &code, 0, 1);
  return tensor.dtype == QNN_DATATYPE_SFIXED_POINT_8 ? int64_t{static_cast<int8_t>(code)} : code;
}

// What is left of a range of integers behind a clamp of the numbers that they stand for.
FixedRange Clamped(FixedRange range, const PostOp& op, const Tensor& tensor) {
  const bool relu = op.activation == Activation::kRelu;
  const bool given = op.activation == Activation::kReluMinMax;
  const int64_t least = Encoded(given ? op.alpha : 0.0f, tensor);
  const int64_t most = relu ? range.high : Encoded(given ? op.beta : 6.0f, tensor);
  const auto clamp = [&](int64_t x) { return std::min(std::max(x, least), most); };
  return {clamp(range.low), clamp(range.high)};
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
  if (!clamps || node.inputs.size() < 2 || !node.HasOutput(0)) return false;
  const Tensor *a = node.inputs[0], *b = node.inputs[1], *out = node.outputs[0];
  for (const Tensor* tensor : {a, b, out}) {
    if (tensor == nullptr || (TypeBit(tensor->dtype) & types::kFixed8) == 0) return false;
  }
  const OpDef* def = FindOp(node.type);
  if (def == nullptr) return false;
  if (def->sums_products()) return true;
  const bool arithmetic = def->linear != OpDef::kNotLinear && def->linear != OpDef::kMultiplyAdd;
  return arithmetic && a->shape == b->shape && a->dtype == b->dtype && a->dtype == out->dtype &&
         OneScale(a->quantization) && OneScale(b->quantization) && OneScale(out->quantization);
}

FixedRange OutputRange(const Node& node) {
  const Tensor& out = *node.outputs[0];
  FixedRange range = RangeOf(out.dtype, out.quantization.bitwidth);
  for (const PostOp& op : node.post_ops) range = Clamped(range, op, out);
  return range;
}

}  // namespace qnnrt
