// Loops over FLOAT_32, and which of BFLOAT_16 there are.
#include <cmath>
#include <limits>

#include "ops/elementwise/binary.h"
#include "ops/isa.h"
#include "ops/simd.h"
#include "ops/stream.h"

namespace qnnrt {
namespace {

template <typename Op, typename R>
struct Vv {
  static QNNRT_INLINE void Run(const void* a, const void* b, void* out, size_t n) {
    const float* x = static_cast<const float*>(a);
    const float* y = static_cast<const float*>(b);
    R* o = static_cast<R*>(out);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) o[i] = Op::Do(x[i], y[i]);
  }
};
template <typename Op, typename R>
struct Vs {
  static QNNRT_INLINE void Run(const void* a, const void* b, void* out, size_t n) {
    const float* x = static_cast<const float*>(a);
    const float y = *static_cast<const float*>(b);
    R* o = static_cast<R*>(out);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) o[i] = Op::Do(x[i], y);
  }
};
template <typename Op, typename R>
struct Sv {
  static QNNRT_INLINE void Run(const void* a, const void* b, void* out, size_t n) {
    const float x = *static_cast<const float*>(a);
    const float* y = static_cast<const float*>(b);
    R* o = static_cast<R*>(out);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) o[i] = Op::Do(x, y[i]);
  }
};

// A call to libm for each element: no use in compiling it more than once.
template <typename Op>
struct Scalar {
  static void Vv(const void* a, const void* b, void* out, size_t n) {
    qnnrt::Vv<Op, float>::Run(a, b, out, n);
  }
  static void Vs(const void* a, const void* b, void* out, size_t n) {
    qnnrt::Vs<Op, float>::Run(a, b, out, n);
  }
  static void Sv(const void* a, const void* b, void* out, size_t n) {
    qnnrt::Sv<Op, float>::Run(a, b, out, n);
  }
  static BinaryLoops All() { return {Vv, Vs, Sv}; }
};

template <typename Op, typename R = float>
BinaryLoops All() {
  return {PickIsa<Vv<Op, R>>(), PickIsa<Vs<Op, R>>(), PickIsa<Sv<Op, R>>()};
}

#define QNNRT_FLOAT_OP(NAME, RESULT, EXPRESSION)                           \
  struct NAME {                                                            \
    static QNNRT_INLINE RESULT Do(float a, float b) { return EXPRESSION; } \
  };
QNNRT_FLOAT_OP(Add, float, a + b)
QNNRT_FLOAT_OP(Subtract, float, a - b)
QNNRT_FLOAT_OP(Multiply, float, a* b)
QNNRT_FLOAT_OP(Divide, float, a / b)
QNNRT_FLOAT_OP(FloorDiv, float, std::floor(a / b))
// A NaN on either side is the result, as in ONNX and numpy.
QNNRT_FLOAT_OP(Maximum, float, (a > b || a != a) ? a : b)
QNNRT_FLOAT_OP(Minimum, float, (a < b || a != a) ? a : b)
QNNRT_FLOAT_OP(SquaredDifference, float, (a - b) * (a - b))
QNNRT_FLOAT_OP(Prelu, float, a < 0.0f ? a * b : a)
QNNRT_FLOAT_OP(Equal, uint8_t, a == b)
QNNRT_FLOAT_OP(NotEqual, uint8_t, a != b)
QNNRT_FLOAT_OP(Greater, uint8_t, a > b)
QNNRT_FLOAT_OP(GreaterEqual, uint8_t, a >= b)
QNNRT_FLOAT_OP(Less, uint8_t, a < b)
QNNRT_FLOAT_OP(LessEqual, uint8_t, a <= b)
#undef QNNRT_FLOAT_OP

template <typename Op>
struct Stream {
  static QNNRT_INLINE void Run(const void* a, const void* b, void* out, size_t n) {
    const float* x = static_cast<const float*>(a);
    const float* y = static_cast<const float*>(b);
    StreamFloats(static_cast<float*>(out), n, [&](size_t i) { return Op::Do(x[i], y[i]); });
  }
};

// fmod, exact. A quotient below 2^28 times a float has no more digits than a double, and neither
// has what is left; the quotient may have been rounded up to the next whole number.
QNNRT_INLINE float Remainder(float a, float b) {
  const double x = std::fabs(static_cast<double>(a)), y = std::fabs(static_cast<double>(b));
  const double quotient = x / y;
  if (!(quotient < 268435456.0) || y > std::numeric_limits<float>::max()) return std::fmod(a, b);
  const double rest = x - static_cast<double>(static_cast<int32_t>(quotient)) * y;
  return std::copysign(static_cast<float>(rest < 0 ? rest + y : rest), a);
}
struct Fmod {  // sign of the dividend
  static QNNRT_INLINE float Do(float a, float b) { return Remainder(a, b); }
};
struct Mod {  // sign of the divisor
  static QNNRT_INLINE float Do(float a, float b) {
    const float r = Remainder(a, b);
    if (r == 0.0f) return std::copysign(r, b);
    return (r < 0.0f) != (b < 0.0f) ? r + b : r;
  }
};
struct Power {
  static QNNRT_INLINE float Do(float a, float b) { return std::pow(a, b); }
};
struct Cube {
  static QNNRT_INLINE float Do(float a, float) { return a * a * a; }
};
// Squares are by far the most frequent powers, then cubes, as in GELU by tanh.
void PowerVs(const void* a, const void* b, void* out, size_t n) {
  static const BinaryLoop multiply = PickIsa<Vv<Multiply, float>>();
  static const BinaryLoop cube = PickIsa<Vs<Cube, float>>();
  if (*static_cast<const float*>(b) == 2.0f) return multiply(a, a, out, n);
  if (*static_cast<const float*>(b) == 3.0f) return cube(a, b, out, n);
  Vs<Power, float>::Run(a, b, out, n);
}

}  // namespace

BinaryLoop FloatStreamLoop(BinaryOp op) {
  if (!kCanStream) return nullptr;
  switch (op) {
    case BinaryOp::kAdd:
      return PickIsa<Stream<Add>>();
    case BinaryOp::kSubtract:
      return PickIsa<Stream<Subtract>>();
    case BinaryOp::kMultiply:
      return PickIsa<Stream<Multiply>>();
    case BinaryOp::kDivide:
      return PickIsa<Stream<Divide>>();
    case BinaryOp::kMaximum:
      return PickIsa<Stream<Maximum>>();
    case BinaryOp::kMinimum:
      return PickIsa<Stream<Minimum>>();
    default:
      return nullptr;
  }
}

BinaryLoops BrainLoopsOf(BinaryOp op, bool wide) {
  const auto of = [wide](const BrainLoops* loops) {
    return BinaryLoops{loops[wide].vv, loops[wide].vs, loops[wide].sv};
  };
  switch (op) {
    case BinaryOp::kAdd:
      return of(Simd().brain.add);
    case BinaryOp::kSubtract:
      return of(Simd().brain.subtract);
    case BinaryOp::kMultiply:
      return of(Simd().brain.multiply);
    case BinaryOp::kDivide:
      return of(Simd().brain.divide);
    default:
      return {};
  }
}

BinaryLoops FloatLoops(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return All<Add>();
    case BinaryOp::kSubtract:
      return All<Subtract>();
    case BinaryOp::kMultiply:
      return All<Multiply>();
    case BinaryOp::kDivide:
      return All<Divide>();
    case BinaryOp::kFloorDiv:
      return All<FloorDiv>();
    case BinaryOp::kFmod:
      return Scalar<Fmod>::All();
    case BinaryOp::kMod:
      return Scalar<Mod>::All();
    case BinaryOp::kPower:
      return {Scalar<Power>::Vv, PowerVs, Scalar<Power>::Sv};
    case BinaryOp::kMaximum:
      return All<Maximum>();
    case BinaryOp::kMinimum:
      return All<Minimum>();
    case BinaryOp::kSquaredDifference:
      return All<SquaredDifference>();
    case BinaryOp::kPrelu:
      return All<Prelu>();
    case BinaryOp::kEqual:
      return All<Equal, uint8_t>();
    case BinaryOp::kNotEqual:
      return All<NotEqual, uint8_t>();
    case BinaryOp::kGreater:
      return All<Greater, uint8_t>();
    case BinaryOp::kGreaterEqual:
      return All<GreaterEqual, uint8_t>();
    case BinaryOp::kLess:
      return All<Less, uint8_t>();
    case BinaryOp::kLessEqual:
      return All<LessEqual, uint8_t>();
    default:
      return {};
  }
}

}  // namespace qnnrt
