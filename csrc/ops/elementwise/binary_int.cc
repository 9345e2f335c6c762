// Loops over integers, FLOAT_64 and BOOL_8. One form each, of two vectors.
//
// Integer arithmetic wraps. Division truncates, FloorDiv rounds down, Fmod has the sign of the
// dividend, Mod that of the divisor; all of them give 0 when the divisor is 0. Power with a
// negative exponent truncates too: 0, except for bases 1 and -1 (and for 0, where it is 0). And, Or
// and Xor are of each bit.
#include <cmath>
#include <type_traits>

#include "ir/visit.h"
#include "ops/elementwise/binary.h"
#include "ops/isa.h"

namespace qnnrt {
namespace {

template <typename T, BinaryOp op>
QNNRT_INLINE auto Do(T a, T b) {
  constexpr bool kInt = std::is_integral_v<T>;
  // Unsigned, and wide enough not to become int again: overflow wraps instead of being undefined.
  using U = std::conditional_t<kInt, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>, T>;
  const auto wrap = [](U u) { return static_cast<T>(u); };
  if constexpr (op == BinaryOp::kEqual) {
    return static_cast<uint8_t>(a == b);
  } else if constexpr (op == BinaryOp::kNotEqual) {
    return static_cast<uint8_t>(a != b);
  } else if constexpr (op == BinaryOp::kGreater) {
    return static_cast<uint8_t>(a > b);
  } else if constexpr (op == BinaryOp::kGreaterEqual) {
    return static_cast<uint8_t>(a >= b);
  } else if constexpr (op == BinaryOp::kLess) {
    return static_cast<uint8_t>(a < b);
  } else if constexpr (op == BinaryOp::kLessEqual) {
    return static_cast<uint8_t>(a <= b);
  } else if constexpr (op == BinaryOp::kAdd) {
    return wrap(static_cast<U>(a) + static_cast<U>(b));
  } else if constexpr (op == BinaryOp::kSubtract) {
    return wrap(static_cast<U>(a) - static_cast<U>(b));
  } else if constexpr (op == BinaryOp::kMultiply) {
    return wrap(static_cast<U>(a) * static_cast<U>(b));
  } else if constexpr (op == BinaryOp::kSquaredDifference) {
    const U d = static_cast<U>(a) - static_cast<U>(b);
    return wrap(d * d);
  } else if constexpr (op == BinaryOp::kMaximum) {
    return (a > b || a != a) ? a : b;
  } else if constexpr (op == BinaryOp::kMinimum) {
    return (a < b || a != a) ? a : b;
  } else if constexpr (op == BinaryOp::kAnd) {
    return static_cast<T>(a & b);
  } else if constexpr (op == BinaryOp::kOr) {
    return static_cast<T>(a | b);
  } else if constexpr (op == BinaryOp::kXor) {
    return static_cast<T>(a ^ b);
  } else if constexpr (!kInt) {
    if constexpr (op == BinaryOp::kDivide) return a / b;
    if constexpr (op == BinaryOp::kFloorDiv) return std::floor(a / b);
    if constexpr (op == BinaryOp::kFmod) return std::fmod(a, b);
    if constexpr (op == BinaryOp::kPower) return std::pow(a, b);
    if constexpr (op == BinaryOp::kMod) {
      const T r = std::fmod(a, b);
      if (r == 0) return std::copysign(r, b);
      return (r < 0) != (b < 0) ? r + b : r;
    }
  } else if constexpr (op == BinaryOp::kPower) {
    if constexpr (std::is_signed_v<T>) {
      if (b < 0) return a == 1 ? T{1} : a == -1 ? static_cast<T>(b % 2 == 0 ? 1 : -1) : T{0};
    }
    U result = 1, base = static_cast<U>(a);
    for (U e = static_cast<U>(b); e != 0; e >>= 1) {
      if (e & 1) result *= base;
      base *= base;
    }
    return wrap(result);
  } else {
    if constexpr (op == BinaryOp::kDivide && sizeof(T) <= 4 && std::is_signed_v<T>) {
      // The quotient of two doubles, cut off, is exact, and vectors have it. 0 - a wraps.
      const double by = b == 0 || b == -1 ? 1.0 : static_cast<double>(b);
      const T cut = static_cast<T>(static_cast<int32_t>(static_cast<double>(a) / by));
      const T quotient = b == -1 ? wrap(U{0} - static_cast<U>(a)) : cut;
      return b == 0 ? T{0} : quotient;
    }
    if (b == 0) return T{0};
    if constexpr (std::is_signed_v<T>) {
      // min / -1 overflows: it wraps to min, its remainder is 0
      if (b == -1) {
        return op == BinaryOp::kDivide || op == BinaryOp::kFloorDiv ? wrap(U{0} - static_cast<U>(a))
                                                                    : T{0};
      }
    }
    const T quotient = static_cast<T>(a / b), rest = static_cast<T>(a % b);
    bool adjust = false;  // towards minus infinity
    if constexpr (std::is_signed_v<T>) adjust = rest != 0 && (rest < 0) != (b < 0);
    if constexpr (op == BinaryOp::kDivide) return quotient;
    if constexpr (op == BinaryOp::kFloorDiv) return static_cast<T>(quotient - (adjust ? 1 : 0));
    if constexpr (op == BinaryOp::kMod) return static_cast<T>(adjust ? rest + b : rest);
    if constexpr (op == BinaryOp::kFmod) return rest;
  }
}

template <typename T, BinaryOp op>
struct Vv {
  static QNNRT_INLINE void Run(const void* a, const void* b, void* out, size_t n) {
    using R = decltype(Do<T, op>(T{}, T{}));
    const T* x = static_cast<const T*>(a);
    const T* y = static_cast<const T*>(b);
    R* o = static_cast<R*>(out);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) o[i] = Do<T, op>(x[i], y[i]);
  }
};

template <typename T>
BinaryLoop For(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return PickIsa<Vv<T, BinaryOp::kAdd>>();
    case BinaryOp::kSubtract:
      return PickIsa<Vv<T, BinaryOp::kSubtract>>();
    case BinaryOp::kMultiply:
      return PickIsa<Vv<T, BinaryOp::kMultiply>>();
    case BinaryOp::kDivide:
      return PickIsa<Vv<T, BinaryOp::kDivide>>();
    case BinaryOp::kFloorDiv:
      return Vv<T, BinaryOp::kFloorDiv>::Run;
    case BinaryOp::kFmod:
      return Vv<T, BinaryOp::kFmod>::Run;
    case BinaryOp::kMod:
      return Vv<T, BinaryOp::kMod>::Run;
    case BinaryOp::kPower:
      return Vv<T, BinaryOp::kPower>::Run;
    case BinaryOp::kMaximum:
      return PickIsa<Vv<T, BinaryOp::kMaximum>>();
    case BinaryOp::kMinimum:
      return PickIsa<Vv<T, BinaryOp::kMinimum>>();
    case BinaryOp::kSquaredDifference:
      return PickIsa<Vv<T, BinaryOp::kSquaredDifference>>();
    case BinaryOp::kEqual:
      return PickIsa<Vv<T, BinaryOp::kEqual>>();
    case BinaryOp::kNotEqual:
      return PickIsa<Vv<T, BinaryOp::kNotEqual>>();
    case BinaryOp::kGreater:
      return PickIsa<Vv<T, BinaryOp::kGreater>>();
    case BinaryOp::kGreaterEqual:
      return PickIsa<Vv<T, BinaryOp::kGreaterEqual>>();
    case BinaryOp::kLess:
      return PickIsa<Vv<T, BinaryOp::kLess>>();
    case BinaryOp::kLessEqual:
      return PickIsa<Vv<T, BinaryOp::kLessEqual>>();
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == BinaryOp::kAnd) return Vv<T, BinaryOp::kAnd>::Run;
    if (op == BinaryOp::kOr) return Vv<T, BinaryOp::kOr>::Run;
    if (op == BinaryOp::kXor) return Vv<T, BinaryOp::kXor>::Run;
  }
  return nullptr;
}

template <typename F>
void Logic(const void* a, const void* b, void* out, size_t n, const F& f) {
  const uint8_t* x = static_cast<const uint8_t*>(a);
  const uint8_t* y = static_cast<const uint8_t*>(b);
  uint8_t* o = static_cast<uint8_t*>(out);
  QNNRT_SIMD
  for (size_t i = 0; i < n; ++i) o[i] = static_cast<uint8_t>(f(x[i] != 0, y[i] != 0));
}

BinaryLoop ForBool(BinaryOp op) {
  using V = const void*;
  switch (op) {
    case BinaryOp::kAnd:
      return [](V a, V b, void* o, size_t n) {
        Logic(a, b, o, n, [](int x, int y) { return x & y; });
      };
    case BinaryOp::kOr:
      return [](V a, V b, void* o, size_t n) {
        Logic(a, b, o, n, [](int x, int y) { return x | y; });
      };
    case BinaryOp::kXor:
    case BinaryOp::kNotEqual:
      return [](V a, V b, void* o, size_t n) {
        Logic(a, b, o, n, [](int x, int y) { return x ^ y; });
      };
    case BinaryOp::kEqual:
      return [](V a, V b, void* o, size_t n) {
        Logic(a, b, o, n, [](int x, int y) { return x == y; });
      };
    default:
      return nullptr;
  }
}

}  // namespace

BinaryLoops OtherLoops(BinaryOp op, Qnn_DataType_t in) {
  BinaryLoops loops;
  if (in == QNN_DATATYPE_BOOL_8) {
    loops.vv = ForBool(op);
    return loops;
  }
  loops.vv = VisitNumber(in, [&](auto t) -> BinaryLoop {
    using T = decltype(t);
    if constexpr (std::is_same_v<T, float>) {
      return nullptr;  // FloatLoops
    } else {
      return For<T>(op);
    }
  });
  return loops;
}

}  // namespace qnnrt
