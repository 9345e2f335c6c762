// Loops of ElementWiseUnary, IsInf, IsNan and Logit.
#include "ops/elementwise/unary_loops.h"

#include <cmath>
#include <iterator>
#include <type_traits>

#include "ops/vector_math.h"

namespace qnnrt {
namespace {

QNNRT_UNARY(Asin, float, vmath::Asin(x))
QNNRT_UNARY(Atan, float, vmath::Atan(x))
QNNRT_UNARY(Ceil, float, std::ceil(x))
QNNRT_UNARY(Erf, float, vmath::Erf(x))
QNNRT_UNARY(Exp, float, vmath::Exp(x))
QNNRT_UNARY(Floor, float, std::floor(x))
QNNRT_UNARY(Log, float, vmath::Log(x))
QNNRT_UNARY(Reciprocal, float, 1.0f / x)
QNNRT_UNARY(Round, float, std::nearbyint(x))  // half to even, as ONNX
QNNRT_UNARY(Rsqrt, float, 1.0f / std::sqrt(x))
QNNRT_UNARY(Sqrt, float, std::sqrt(x))
QNNRT_UNARY(IsInf, uint8_t,
            (x == -INFINITY && p.alpha != 0.0f) || (x == INFINITY && p.beta != 0.0f))
QNNRT_UNARY(IsNan, uint8_t, x != x)

// The least value stays itself.
template <typename T>
T Negative(T x) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(U{0} - static_cast<U>(x));
}
struct Abs {
  static QNNRT_INLINE float Do(float x, UnaryParams) { return std::fabs(x); }
  template <typename T>
  static T Do(T x) {  // no branch, which signs in no order would mispredict
    using U = std::make_unsigned_t<T>;
    const U sign = static_cast<U>(U{0} - static_cast<U>(x < 0));
    return static_cast<T>((static_cast<U>(x) ^ sign) - sign);
  }
};
struct Neg {
  static QNNRT_INLINE float Do(float x, UnaryParams) { return -x; }
  template <typename T>
  static T Do(T x) {
    return Negative(x);
  }
};
struct Sign {  // 0 and NaN are their own
  static QNNRT_INLINE float Do(float x, UnaryParams) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
  }
  template <typename T>
  static T Do(T x) {
    return static_cast<T>((x > 0) - (x < 0));
  }
};

struct Logit {
  static QNNRT_INLINE float Do(float x, UnaryParams p) {
    const float c = p.alpha < 0.0f ? x : vmath::Clamp(x, p.alpha, 1.0f - p.alpha);
    // Around 1/2 the quotient is near 1, and log(1 + f) keeps what its rounding would lose.
    const float f = (2.0f * c - 1.0f) / (1.0f - c);
    const float near = vmath::Log1p(f), far = vmath::Log(c / (1.0f - c));
    return std::fabs(c - 0.5f) < 0.25f ? near : far;
  }
};

// The vector form is good for |x| up to vmath::kTrigLimit: look first, it costs little.
struct AnyBeyond {
  static QNNRT_INLINE bool Run(const float* x, size_t n) {
    uint32_t beyond = 0;
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) beyond |= std::fabs(x[i]) <= vmath::kTrigLimit ? 0u : 1u;
    return beyond != 0;
  }
};
template <bool cosine>
struct TrigOp {
  static QNNRT_INLINE float Do(float x, UnaryParams) {
    return cosine ? vmath::Cos(x) : vmath::Sin(x);
  }
};
template <bool cosine>
void Trig(const void* in, void* out, size_t n, UnaryParams params) {
  static const auto beyond = PickIsa<AnyBeyond>();
  static const auto fast = PickIsa<unary::Loop<TrigOp<cosine>, float>>();
  const float* x = static_cast<const float*>(in);
  float* o = static_cast<float*>(out);
  constexpr size_t kBlock = 1024;
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t count = n - i < kBlock ? n - i : kBlock;
    if (!beyond(x + i, count)) {
      fast(x + i, o + i, count, params);
      continue;
    }
    for (size_t k = i; k < i + count; ++k) o[k] = cosine ? std::cos(x[k]) : std::sin(x[k]);
  }
}

// Of BFLOAT_16: the sign is the highest bit.
constexpr uint16_t kSign = 0x8000;
void BrainAbs(const void* in, void* out, size_t n, UnaryParams) {
  const uint16_t* x = static_cast<const uint16_t*>(in);
  uint16_t* o = static_cast<uint16_t*>(out);
  QNNRT_SIMD
  for (size_t i = 0; i < n; ++i) o[i] = static_cast<uint16_t>(x[i] & ~kSign);
}
void BrainNeg(const void* in, void* out, size_t n, UnaryParams) {
  const uint16_t* x = static_cast<const uint16_t*>(in);
  uint16_t* o = static_cast<uint16_t*>(out);
  QNNRT_SIMD
  for (size_t i = 0; i < n; ++i) o[i] = static_cast<uint16_t>(x[i] ^ kSign);
}
UnaryLoops WithBrain(UnaryLoops loops, UnaryLoop brain) {
  loops.brain = brain;
  return loops;
}

// Of FLOAT_64, what <cmath> has no name for.
double Negated(double x) { return -x; }
double Inverse(double x) { return 1.0 / x; }
double InverseRoot(double x) { return 1.0 / std::sqrt(x); }
double SignOf(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
void WideIsInf(const void* in, void* out, size_t n, UnaryParams p) {
  const double* x = static_cast<const double*>(in);
  for (size_t i = 0; i < n; ++i)
    static_cast<uint8_t*>(out)[i] = std::isinf(x[i]) && (x[i] < 0.0 ? p.alpha : p.beta) != 0.0f;
}
void WideIsNan(const void* in, void* out, size_t n, UnaryParams) {
  const double* x = static_cast<const double*>(in);
  for (size_t i = 0; i < n; ++i) static_cast<uint8_t*>(out)[i] = std::isnan(x[i]);
}
void Not(const void* in, void* out, size_t n, UnaryParams) {
  const uint8_t* x = static_cast<const uint8_t*>(in);
  uint8_t* o = static_cast<uint8_t*>(out);
  QNNRT_SIMD
  for (size_t i = 0; i < n; ++i) o[i] = x[i] == 0;
}
UnaryLoop OfBool(Qnn_DataType_t type) { return type == QNN_DATATYPE_BOOL_8 ? Not : nullptr; }

}  // namespace

const UnaryLoops& LoopsOf(UnaryOp op) {
  using unary::Cheap, unary::Of, unary::Wide, unary::WithIntegers, unary::WithWide;
  static const UnaryLoops loops[] = {
      Wide<std::fabs>(WithBrain(WithIntegers<Abs>(Cheap<Abs>()), BrainAbs)),
      Wide<std::asin>(Of<Asin>()),
      Wide<std::atan>(Of<Atan>()),
      Wide<std::ceil>(Of<Ceil>()),
      Wide<std::cos>({Trig<true>}),
      Wide<std::exp>(Of<Exp>()),
      Wide<std::floor>(Of<Floor>()),
      Wide<std::log>(Of<Log>()),
      Wide<Negated>(WithBrain(WithIntegers<Neg>(Cheap<Neg>()), BrainNeg)),
      {nullptr, nullptr, OfBool},
      Wide<Inverse>(Of<Reciprocal>()),
      Wide<std::nearbyint>(Of<Round>()),
      Wide<InverseRoot>(Of<Rsqrt>()),
      Wide<SignOf>(WithIntegers<Sign>(Of<Sign>())),
      Wide<std::sin>({Trig<false>}),
      Wide<std::sqrt>(Of<Sqrt>()),
      WithWide(Of<IsInf, uint8_t>(), WideIsInf),
      WithWide(Of<IsNan, uint8_t>(), WideIsNan),
      Of<Logit>(),
      Wide<std::erf>(Of<Erf>()),
  };
  static_assert(std::size(loops) == static_cast<size_t>(UnaryOp::kErf) + 1);
  return loops[static_cast<size_t>(op)];
}

}  // namespace qnnrt
