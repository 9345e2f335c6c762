// What loops of elementwise ops with one input are made of. An op is a struct with
//   static float Do(float x, UnaryParams p)       (or uint8_t: a truth value)
//   template <typename T> static T Do(T x)        of an op that takes signed integers, too
#pragma once

#include <cstdint>
#include <type_traits>

#include "ir/visit.h"
#include "ops/elementwise/unary.h"
#include "ops/isa.h"
#include "ops/stream.h"

// NAME as such a struct; EXPRESSION is in x, and in p.alpha and p.beta.
#define QNNRT_UNARY(NAME, RESULT, EXPRESSION)                                                     \
  struct NAME {                                                                                   \
    static QNNRT_INLINE RESULT Do(float x, [[maybe_unused]] UnaryParams p) { return EXPRESSION; } \
  };

namespace qnnrt::unary {

template <typename Op, typename R>
struct Loop {
  static QNNRT_INLINE void Run(const void* in, void* out, size_t n, UnaryParams p) {
    const float* x = static_cast<const float*>(in);
    R* o = static_cast<R*>(out);
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) o[i] = Op::Do(x[i], p);
  }
};

template <typename Op>
struct Stream {
  static QNNRT_INLINE void Run(const void* in, void* out, size_t n, UnaryParams p) {
    const float* x = static_cast<const float*>(in);
    StreamFloats(static_cast<float*>(out), n, [&](size_t i) { return Op::Do(x[i], p); });
  }
};

template <typename Op, typename T>
void IntLoop(const void* in, void* out, size_t n, UnaryParams) {
  const T* x = static_cast<const T*>(in);
  T* o = static_cast<T*>(out);
  QNNRT_SIMD
  for (size_t i = 0; i < n; ++i) o[i] = Op::template Do<T>(x[i]);
}

// Of FLOAT_64, in it.
template <double (*Do)(double, UnaryParams)>
void WideLoop(const void* in, void* out, size_t n, UnaryParams p) {
  const double* x = static_cast<const double*>(in);
  double* o = static_cast<double*>(out);
  QNNRT_SIMD
  for (size_t i = 0; i < n; ++i) o[i] = Do(x[i], p);
}
template <double (*Do)(double)>
double Alone(double x, UnaryParams) {
  return Do(x);
}
inline UnaryLoops WithWide(UnaryLoops loops, UnaryLoop wide) {
  loops.wide = wide;
  return loops;
}
template <double (*Do)(double)>
UnaryLoops Wide(UnaryLoops loops) {
  return WithWide(loops, WideLoop<Alone<Do>>);
}

template <typename Op>
UnaryLoop ForIntegers(Qnn_DataType_t type) {
  return VisitNumber(type, [](auto t) -> UnaryLoop {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
      return IntLoop<Op, T>;
    else
      return nullptr;
  });
}

template <typename Op, typename R = float>
UnaryLoops Of() {
  return {PickIsa<Loop<Op, R>>()};
}

// An op so cheap that writing past the caches pays.
template <typename Op>
UnaryLoops Cheap() {
  return {PickIsa<Loop<Op, float>>(), kCanStream ? PickIsa<Stream<Op>>() : nullptr};
}

inline UnaryLoops WithIntegers(UnaryLoops loops, UnaryLoop (*other)(Qnn_DataType_t),
                               TypeSet types) {
  loops.other = other;
  loops.integers = types;
  return loops;
}
template <typename Op>
UnaryLoops WithIntegers(UnaryLoops loops) {
  return WithIntegers(loops, ForIntegers<Op>, types::kSigned);
}

}  // namespace qnnrt::unary
