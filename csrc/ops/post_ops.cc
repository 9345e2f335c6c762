#include "ops/post_ops.h"

#include <algorithm>

#include "support/multiversion.h"

namespace qnnrt {
namespace {

inline float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
// log(1 + e^x), without overflow for large x.
inline float Softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x))); }
inline float Gelu(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f)); }

// A NaN stays one: both comparisons are false for it.
inline float Clamp(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }

QNNRT_MULTIVERSION
void ClampRow(float* x, size_t count, float low, float high) {
  for (size_t i = 0; i < count; ++i) {
    float v = x[i];
    v = v < low ? low : v;
    x[i] = v > high ? high : v;
  }
}

QNNRT_MULTIVERSION
void ReluRow(float* x, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

QNNRT_MULTIVERSION
void LeakyRow(float* x, size_t count, float slope) {
  for (size_t i = 0; i < count; ++i) x[i] = x[i] < 0.0f ? x[i] * slope : x[i];
}

QNNRT_MULTIVERSION
void HardSigmoidRow(float* x, size_t count, float alpha, float beta) {
  for (size_t i = 0; i < count; ++i) {
    float v = alpha * x[i] + beta;
    v = v < 0.0f ? 0.0f : v;
    x[i] = v > 1.0f ? 1.0f : v;
  }
}

QNNRT_MULTIVERSION
void HardSwishRow(float* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float v = x[i] + 3.0f;
    v = v < 0.0f ? 0.0f : v;
    v = v > 6.0f ? 6.0f : v;
    x[i] = x[i] * v * (1.0f / 6.0f);
  }
}

QNNRT_MULTIVERSION
void AddRow(float* x, const float* y, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] += y[i];
}

}  // namespace

float ApplyActivation(Activation a, float x, float alpha, float beta) {
  switch (a) {
    case Activation::kRelu:
      return x < 0.0f ? 0.0f : x;
    case Activation::kRelu6:
      return Clamp(x, 0.0f, 6.0f);
    case Activation::kReluMinMax:
      return Clamp(x, alpha, beta);
    case Activation::kSigmoid:
      return Sigmoid(x);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kElu:
      return x < 0.0f ? alpha * std::expm1(x) : x;
    case Activation::kGelu:
      return Gelu(x);
    case Activation::kHardSwish:
      return x * Clamp(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f);
    case Activation::kHardSigmoid:
      return Clamp(alpha * x + beta, 0.0f, 1.0f);
    case Activation::kSoftplus:
      return Softplus(x);
    case Activation::kLeakyRelu:
      return x < 0.0f ? x * alpha : x;
    case Activation::kSwish:
      return x * Sigmoid(x);
  }
  return x;
}

void ApplyActivation(Activation a, float* x, size_t count, float alpha, float beta) {
  switch (a) {
    case Activation::kRelu:
      return ReluRow(x, count);
    case Activation::kRelu6:
      return ClampRow(x, count, 0.0f, 6.0f);
    case Activation::kReluMinMax:
      return ClampRow(x, count, alpha, beta);
    case Activation::kHardSwish:
      return HardSwishRow(x, count);
    case Activation::kHardSigmoid:
      return HardSigmoidRow(x, count, alpha, beta);
    case Activation::kLeakyRelu:
      return LeakyRow(x, count, alpha);
    default:
      for (size_t i = 0; i < count; ++i) x[i] = ApplyActivation(a, x[i], alpha, beta);
  }
}

void PostOps::Apply(const ExecArgs& args, float* values, size_t offset, size_t count) const {
  for (const PostOp& op : ops_) {
    if (op.kind == PostOp::Kind::kAdd) {
      AddRow(values, static_cast<const float*>(args.in[op.input]) + offset, count);
    } else {
      ApplyActivation(op.activation, values, count, op.alpha, op.beta);
    }
  }
}

}  // namespace qnnrt
