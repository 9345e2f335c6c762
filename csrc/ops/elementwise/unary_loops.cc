// Loops of the elementwise ops with one input.
#include <cmath>
#include <type_traits>

#include "ops/elementwise/unary.h"
#include "ops/isa.h"
#include "ops/stream.h"
#include "ops/vector_math.h"

namespace qnnrt {
namespace {

template <typename Op, typename R>
struct Loop {
  static QNNRT_INLINE void Run(const void* in, void* out, size_t n, UnaryParams p) {
    const float* x = static_cast<const float*>(in);
    R* o = static_cast<R*>(out);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) o[i] = Op::Do(x[i], p);
  }
};

#define QNNRT_UNARY(NAME, RESULT, EXPRESSION)                                                     \
  struct NAME {                                                                                   \
    static QNNRT_INLINE RESULT Do(float x, [[maybe_unused]] UnaryParams p) { return EXPRESSION; } \
  };
QNNRT_UNARY(Abs, float, std::fabs(x))
QNNRT_UNARY(Asin, float, std::asin(x))
QNNRT_UNARY(Atan, float, vmath::Atan(x))
QNNRT_UNARY(Ceil, float, std::ceil(x))
QNNRT_UNARY(Exp, float, vmath::Exp(x))
QNNRT_UNARY(Floor, float, std::floor(x))
QNNRT_UNARY(Log, float, vmath::Log(x))
QNNRT_UNARY(Neg, float, -x)
QNNRT_UNARY(Reciprocal, float, 1.0f / x)
QNNRT_UNARY(Round, float, std::nearbyint(x))  // half to even, as ONNX
QNNRT_UNARY(Rsqrt, float, 1.0f / std::sqrt(x))
QNNRT_UNARY(Sign, float, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x)  // 0 and NaN are their own
QNNRT_UNARY(Sqrt, float, std::sqrt(x))
QNNRT_UNARY(Elu, float, vmath::Elu(x, p.alpha))
QNNRT_UNARY(Gelu, float, vmath::Gelu(x))
QNNRT_UNARY(HardSigmoid, float, vmath::HardSigmoid(x, p.alpha, p.beta))
QNNRT_UNARY(HardSwish, float, vmath::HardSwish(x))
QNNRT_UNARY(Relu, float, x < 0.0f ? 0.0f : x)
QNNRT_UNARY(ReluMinMax, float, vmath::Clamp(x, p.alpha, p.beta))
QNNRT_UNARY(Sigmoid, float, vmath::Sigmoid(x))
QNNRT_UNARY(Softplus, float, p.alpha* x > p.beta ? x : vmath::Softplus(p.alpha * x) / p.alpha)
QNNRT_UNARY(Tanh, float, vmath::Tanh(x))
QNNRT_UNARY(IsInf, uint8_t,
            (x == -INFINITY && p.alpha != 0.0f) || (x == INFINITY && p.beta != 0.0f))
QNNRT_UNARY(IsNan, uint8_t, x != x)
#undef QNNRT_UNARY

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
  static const auto fast = PickIsa<Loop<TrigOp<cosine>, float>>();
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

template <typename Op, typename R = float>
UnaryLoop Pick() {
  return PickIsa<Loop<Op, R>>();
}

template <typename Op>
struct Stream {
  static QNNRT_INLINE void Run(const void* in, void* out, size_t n, UnaryParams p) {
    const float* x = static_cast<const float*>(in);
    StreamFloats(static_cast<float*>(out), n, [&](size_t i) { return Op::Do(x[i], p); });
  }
};

template <typename T, UnaryOp op>
void IntLoop(const void* in, void* out, size_t n, UnaryParams) {
  using U = std::make_unsigned_t<T>;
  const T* x = static_cast<const T*>(in);
  T* o = static_cast<T*>(out);
  QNNRT_SIMD
  for (size_t i = 0; i < n; ++i) {
    const T negative = static_cast<T>(U{0} - static_cast<U>(x[i]));  // the least value stays itself
    if constexpr (op == UnaryOp::kAbs) o[i] = x[i] < 0 ? negative : x[i];
    if constexpr (op == UnaryOp::kNeg) o[i] = negative;
    if constexpr (op == UnaryOp::kSign) o[i] = static_cast<T>((x[i] > 0) - (x[i] < 0));
    if constexpr (op == UnaryOp::kRelu) o[i] = x[i] < 0 ? T{0} : x[i];
  }
}

template <typename T>
UnaryLoop ForInt(UnaryOp op) {
  switch (op) {
    case UnaryOp::kAbs:
      return IntLoop<T, UnaryOp::kAbs>;
    case UnaryOp::kNeg:
      return IntLoop<T, UnaryOp::kNeg>;
    case UnaryOp::kSign:
      return IntLoop<T, UnaryOp::kSign>;
    case UnaryOp::kRelu:
      return IntLoop<T, UnaryOp::kRelu>;
    default:
      return nullptr;
  }
}

void Not(const void* in, void* out, size_t n, UnaryParams) {
  const uint8_t* x = static_cast<const uint8_t*>(in);
  uint8_t* o = static_cast<uint8_t*>(out);
  QNNRT_SIMD
  for (size_t i = 0; i < n; ++i) o[i] = x[i] == 0;
}

}  // namespace

UnaryLoop FloatStreamLoop(UnaryOp op) {
  if (!kCanStream) return nullptr;
  switch (op) {
    case UnaryOp::kAbs:
      return PickIsa<Stream<Abs>>();
    case UnaryOp::kNeg:
      return PickIsa<Stream<Neg>>();
    case UnaryOp::kRelu:
      return PickIsa<Stream<Relu>>();
    case UnaryOp::kReluMinMax:
      return PickIsa<Stream<ReluMinMax>>();
    default:
      return nullptr;
  }
}

UnaryLoop FloatLoop(UnaryOp op) {
  switch (op) {
    case UnaryOp::kAbs:
      return Pick<Abs>();
    case UnaryOp::kAsin:
      return Loop<Asin, float>::Run;
    case UnaryOp::kAtan:
      return Pick<Atan>();
    case UnaryOp::kCeil:
      return Pick<Ceil>();
    case UnaryOp::kCos:
      return Trig<true>;
    case UnaryOp::kExp:
      return Pick<Exp>();
    case UnaryOp::kFloor:
      return Pick<Floor>();
    case UnaryOp::kLog:
      return Pick<Log>();
    case UnaryOp::kNeg:
      return Pick<Neg>();
    case UnaryOp::kNot:
      return nullptr;
    case UnaryOp::kReciprocal:
      return Pick<Reciprocal>();
    case UnaryOp::kRound:
      return Pick<Round>();
    case UnaryOp::kRsqrt:
      return Pick<Rsqrt>();
    case UnaryOp::kSign:
      return Pick<Sign>();
    case UnaryOp::kSin:
      return Trig<false>;
    case UnaryOp::kSqrt:
      return Pick<Sqrt>();
    case UnaryOp::kElu:
      return Pick<Elu>();
    case UnaryOp::kGelu:
      return Pick<Gelu>();
    case UnaryOp::kHardSigmoid:
      return Pick<HardSigmoid>();
    case UnaryOp::kHardSwish:
      return Pick<HardSwish>();
    case UnaryOp::kRelu:
      return Pick<Relu>();
    case UnaryOp::kReluMinMax:
      return Pick<ReluMinMax>();
    case UnaryOp::kSigmoid:
      return Pick<Sigmoid>();
    case UnaryOp::kSoftplus:
      return Pick<Softplus>();
    case UnaryOp::kTanh:
      return Pick<Tanh>();
    case UnaryOp::kIsInf:
      return Pick<IsInf, uint8_t>();
    case UnaryOp::kIsNan:
      return Pick<IsNan, uint8_t>();
    case UnaryOp::kLogit:
      return Pick<Logit>();
  }
  return nullptr;
}

UnaryLoop OtherLoop(UnaryOp op, Qnn_DataType_t in) {
  switch (in) {
    case QNN_DATATYPE_INT_8:
      return ForInt<int8_t>(op);
    case QNN_DATATYPE_INT_16:
      return ForInt<int16_t>(op);
    case QNN_DATATYPE_INT_32:
      return ForInt<int32_t>(op);
    case QNN_DATATYPE_INT_64:
      return ForInt<int64_t>(op);
    case QNN_DATATYPE_BOOL_8:
      return op == UnaryOp::kNot ? Not : nullptr;
    default:
      return nullptr;
  }
}

TypeSet UnaryTypes(UnaryOp op) {
  switch (op) {
    case UnaryOp::kNot:
      return types::kBool;
    case UnaryOp::kAbs:
    case UnaryOp::kNeg:
    case UnaryOp::kSign:
    case UnaryOp::kRelu:
      return types::kFloat | types::kSigned;
    default:
      return types::kFloat;
  }
}

}  // namespace qnnrt
