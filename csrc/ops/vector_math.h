// exp, log, tanh, ... of one float, without branches or calls, so that a loop over them vectorizes.
// Errors against the exact value where it is a normal float, as measured over every 977th float of
// each function's range: 1 ulp for Log, 1.2 for Exp, 1.5 for Expm1, Atan, Sin, Cos, 1.8 for
// Asin, 2.3 for Log1p, 2.5 for Tanh, Sigmoid, 2.7 for Softplus, 4.6 for Erf (6.3 without fused
// multiply-adds). Gelu: 7 from -3 on; below, rounding z^2 shows: 11 at -5, 66 at -13. The
// polynomials are minimax fits of this project (relative error below 2^-26 each).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ops/isa.h"

namespace qnnrt::vmath {

QNNRT_INLINE int32_t Bits(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
QNNRT_INLINE float FromBits(int32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
// Unsigned, so that what a NaN leads to is any number and not undefined.
QNNRT_INLINE int32_t Minus(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}
QNNRT_INLINE float Pow2(int32_t n) {  // -126 <= n <= 127; 0 of -127 and infinity of 128
  return FromBits(static_cast<int32_t>((static_cast<uint32_t>(n) + 127u) << 23));
}

constexpr float kRoundMagic = 12582912.0f;  // 1.5 x 2^23: adding it rounds to an integer

// exp(x) = 2^n exp(r): n, r = x - n ln 2 and exp(r) = 1 + r + r^2 p.
struct ExpParts {
  int32_t n;
  float r, p;
};
// exp(r), and without the 1, which keeps its relative accuracy.
QNNRT_INLINE float Whole(const ExpParts& e) { return (e.p * e.r + 1.0f) * e.r + 1.0f; }
QNNRT_INLINE float LessOne(const ExpParts& e) { return (e.r * e.r) * e.p + e.r; }
QNNRT_INLINE ExpParts ExpSplit(float x) {
  const float t = x * 1.44269504088896341f + kRoundMagic;
  const float n = t - kRoundMagic;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.381422160e-03f;
  p = p * r + 8.368899114e-03f;
  p = p * r + 4.166840389e-02f;
  p = p * r + 1.666651964e-01f;
  p = p * r + 4.999999404e-01f;
  return {Minus(Bits(t), Bits(kRoundMagic)), r, p};
}

QNNRT_INLINE float Exp(float x) {
  // Beyond these the result is 0 or infinity anyway; a NaN passes both comparisons.
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const ExpParts e = ExpSplit(x);
  const int32_t half = e.n >> 1;  // in two steps: 2^128 and 2^-149 are no normal floats
  return Whole(e) * Pow2(half) * Pow2(Minus(e.n, half));
}

// exp(x) of an x <= 0; what is no normal number becomes 0.
QNNRT_INLINE float ExpBelow(float x) {
  const ExpParts e = ExpSplit(x < -88.0f ? -88.0f : x);  // n = -127 there, of which Pow2 makes 0
  return Whole(e) * Pow2(e.n);
}

// exp(x) - 1 for x <= 88; a larger x counts as 88
QNNRT_INLINE float Expm1(float x) {
  x = x > 88.0f ? 88.0f : x;
  x = x < -30.0f ? -30.0f : x;
  const ExpParts e = ExpSplit(x);
  const float s = Pow2(e.n);
  return s * LessOne(e) + (s - 1.0f);
}

QNNRT_INLINE float Log(float x) {
  // Denormals are scaled up; what is not a positive number is put right at the end.
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 33554432.0f : x;
  const int32_t bits = Minus(Bits(scaled), 0x3f3504f3);  // mantissa into [sqrt(1/2), sqrt(2))
  const int32_t n = bits >> 23;
  const float f = FromBits((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const float e = static_cast<float>(n) - (tiny ? 25.0f : 0.0f);
  float p = -6.151514778e-02f;
  p = p * f + 1.074344080e-01f;
  p = p * f + -1.079404155e-01f;
  p = p * f + 1.101204119e-01f;
  p = p * f + -1.242509136e-01f;
  p = p * f + 1.428694454e-01f;
  p = p * f + -1.666943466e-01f;
  p = p * f + 2.000003581e-01f;
  p = p * f + -2.499996604e-01f;
  p = p * f + 3.333333286e-01f;
  const float f2 = f * f;
  float r = (f2 * f) * p + e * -2.12194440e-4f;
  r = r - 0.5f * f2;
  r = (r + f) + e * 0.693359375f;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  r = x == 0.0f ? -kInf : r;
  r = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : r;
  return x < kInf ? r : x;  // infinity and NaN are their own
}

// log(1 + x) for -1/2 <= x < infinity
QNNRT_INLINE float Log1p(float x) {
  const float u = 1.0f + x;
  return u == 1.0f ? x : Log(u) * (x / (u - 1.0f));
}

QNNRT_INLINE float Tanh(float x) {
  const float a = std::fabs(x);
  const float y = 2.0f * (a > 10.0f ? 10.0f : a);
  const ExpParts e = ExpSplit(y);
  const float s = Pow2(e.n);
  const float m = s * LessOne(e) + (s - 1.0f);  // expm1(2 |x|)
  return std::copysign(m / (m + 2.0f), x);
}

// Both tails keep their relative accuracy. Of n = 128 Pow2 makes infinity: 0 below -88.4, where no
// normal number is left.
QNNRT_INLINE float Sigmoid(float x) {
  float y = -x;
  y = y > 89.0f ? 89.0f : y;
  y = y < -88.0f ? -88.0f : y;
  const ExpParts e = ExpSplit(y);
  return 1.0f / (1.0f + Whole(e) * Pow2(e.n));
}

// log(1 + exp(x)), without overflow
QNNRT_INLINE float Softplus(float x) {
  return (x < 0.0f ? 0.0f : x) + Log1p(ExpBelow(-std::fabs(x)));
}

// x Phi(x) with Phi(x) = erfc(-x / sqrt 2) / 2, so that the left tail keeps its relative accuracy.
// erfc(t) = exp(-t^2) s P(s), s = 1 / (1 + 0.4 t).
QNNRT_INLINE float Gelu(float x) {
  const float z = std::fabs(x);
  const float s = 1.0f / (1.0f + 0.28284271247461901f * z);
  float p = -1.925171109e-02f;
  p = p * s + 8.276142671e-02f;
  p = p * s + -8.948144322e-02f;
  p = p * s + -7.484961690e-02f;
  p = p * s + 1.491458029e-01f;
  p = p * s + -3.574792454e-02f;
  p = p * s + 1.678133903e-01f;
  p = p * s + 1.586343960e-01f;
  p = p * s + 2.098275286e-01f;
  p = p * s + 2.254635285e-01f;
  p = p * s + 2.256846207e-01f;
  const float q = 0.5f * s * p * ExpBelow(-0.5f * z * z);  // Phi(-|x|)
  // beyond 14 Phi is 0 or 1 in floats, also for infinity (where x q would be NaN)
  const float product = x * (x < 0.0f ? q : 1.0f - q);
  return z > 14.5f ? (x < 0.0f ? -0.0f : x) : product;
}

// x P(x^2) / Q(x^2), which is 1 in floats from 3.92 on.
QNNRT_INLINE float Erf(float x) {
  const float a = std::fabs(x);
  const float z = a > 3.92f ? 3.92f : a;
  const float t = z * z;
  float p = -1.289243645e-08f;
  p = p * t + 4.626389909e-06f;
  p = p * t + 3.774105862e-04f;
  p = p * t + 3.841477912e-03f;
  p = p * t + 5.426170677e-02f;
  p = p * t + 1.851600111e-01f;
  p = p * t + 1.128379226e+00f;
  float q = 6.256031338e-05f;
  q = q * t + 1.302974415e-03f;
  q = q * t + 1.543807425e-02f;
  q = q * t + 1.138967648e-01f;
  q = q * t + 4.974271953e-01f;
  q = q * t + 1.0f;
  float y = z * p / q;
  y = a > 3.92f ? 1.0f : y;
  return std::copysign(y > 1.0f ? 1.0f : y, x);
}

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, since (1 + tanh u) / 2 is sigmoid(2 u)
QNNRT_INLINE float GeluTanh(float x) {
  return x * Sigmoid(x * (1.59576912160573f + 0.0713548162726009f * (x * x)));
}

// x tanh(softplus(x)) with e = exp(x): x e (e + 2) / (e (e + 2) + 2)
QNNRT_INLINE float Mish(float x) {
  const float e = Exp(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);
  return x > 20.0f ? x : x * (n / (n + 2.0f));
}

QNNRT_INLINE float Elu(float x, float alpha) { return x > 0.0f ? x : alpha * Expm1(x); }

QNNRT_INLINE float Clamp(float x, float low, float high) {  // NaN stays NaN
  x = x < low ? low : x;
  return x > high ? high : x;
}
QNNRT_INLINE float HardSigmoid(float x, float alpha, float beta) {
  return Clamp(alpha * x + beta, 0.0f, 1.0f);
}
// Divided first: the product alone does not fit where x is above a sixth of the largest number.
QNNRT_INLINE float HardSwish(float x) { return x * (Clamp(x + 3.0f, 0.0f, 6.0f) / 6.0f); }

QNNRT_INLINE float Atan(float x) {
  const float a = std::fabs(x);
  const bool invert = a > 1.0f;
  const float t = invert ? 1.0f / a : a;
  const float s = t * t;
  float p = -1.827184686e-03f;
  p = p * s + 1.106431519e-02f;
  p = p * s + -3.145546941e-02f;
  p = p * s + 5.823432039e-02f;
  p = p * s + -8.419445984e-02f;
  p = p * s + 1.095757186e-01f;
  p = p * s + -1.426524460e-01f;
  p = p * s + 1.999863855e-01f;
  p = p * s + -3.333330186e-01f;
  const float r = t + (t * s) * p;
  // pi/2 in two parts: the rounding error of the first would show
  return std::copysign(invert ? (1.57079637050628662f - r) - 4.37113883e-8f : r, x);
}

// Above 1/2 by half of the angle: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)); beyond 1 the root is
// NaN.
QNNRT_INLINE float Asin(float x) {
  const float a = std::fabs(x);
  const bool steep = a > 0.5f;
  const float s = steep ? (1.0f - a) * 0.5f : a * a;
  const float t = steep ? std::sqrt(s) : a;
  float p = 3.756516838e-02f;
  p = p * s + 1.440262812e-02f;
  p = p * s + 3.181760632e-02f;
  p = p * s + 4.451572076e-02f;
  p = p * s + 7.500510916e-02f;
  p = p * s + 1.666665987e-01f;
  const float r = t + (t * s) * p;
  return std::copysign(steep ? (1.57079637050628662f - 2.0f * r) - 4.37113883e-8f : r, x);
}

// The argument is reduced in double: good up to |x| = kTrigLimit; beyond it call std::sin.
constexpr float kTrigLimit = 1.0e6f;
QNNRT_INLINE float SinPlusQuarters(float x, int32_t quarters) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 x 2^52
  const double t = static_cast<double>(x) * 0.63661977236758134 + kMagic;
  const double n = t - kMagic;
  const double d = (x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
  const float r = static_cast<float>(d);
  const int32_t k = static_cast<int32_t>(n) + quarters;
  const float s = r * r;
  float a = 2.717564415e-06f;
  a = a * s + -1.983925663e-04f;
  a = a * s + 8.333329144e-03f;
  a = a * s + -1.666666664e-01f;
  const float sine = r + (r * s) * a;
  float b = 2.443120315e-05f;
  b = b * s + -1.388730602e-03f;
  b = b * s + 4.166664565e-02f;
  const float cosine = 1.0f + s * (s * b - 0.5f);
  const float value = (k & 1) != 0 ? cosine : sine;
  return (k & 2) != 0 ? -value : value;
}
QNNRT_INLINE float Sin(float x) { return SinPlusQuarters(x, 0); }
QNNRT_INLINE float Cos(float x) { return SinPlusQuarters(x, 1); }

}  // namespace qnnrt::vmath
