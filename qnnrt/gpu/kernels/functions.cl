// Once before all kernels of a program: functions of single elements, by the cpu backend's rules.

// Before a loop whose array is to stay in registers. PoCL's compiler takes minutes where such loops
// are written out.
#ifdef __NV_CL_C_VERSION
#define WRITTEN_OUT _Pragma("unroll")
#else
#define WRITTEN_OUT
#endif

// ---- floats. A NaN among the operands is the result.

static inline float maximum(float a, float b) { return a > b || a != a ? a : b; }
static inline float minimum(float a, float b) { return a < b || a != a ? a : b; }
static inline float squared(float a) { return a * a; }
static inline float prelu(float a, float slope) { return a < 0.0f ? a * slope : a; }
static inline float sign_of(float a) { return a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : a; }
static inline float power(float a, float b) { return b == 2.0f ? a * a : pow(a, b); }

// a / b rounded as IEEE says: what a device may do itself can miss a whole number.
static inline float quotient(float a, float b) {
  const float q = a / b;
  const float better = q + fma(-q, b, a) / b;
  return isfinite(better) ? better : q;
}
static inline float floor_div(float a, float b) { return floor(quotient(a, b)); }

// The remainder with the sign of the divisor; fmod has that of the dividend.
static inline float mod(float a, float b) {
  const float r = fmod(a, b);
  if (r == 0.0f) return copysign(r, b);
  return (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

static inline float relu(float a) { return a < 0.0f ? 0.0f : a; }
static inline float bounded(float a, float low, float high) {
  a = a < low ? low : a;
  return a > high ? high : a;
}
static inline float elu(float a, float alpha) { return a > 0.0f ? a : alpha * expm1(a); }
static inline float hard_sigmoid(float a, float alpha, float beta) {
  return bounded(alpha * a + beta, 0.0f, 1.0f);
}
static inline float hard_swish(float a) { return a * (bounded(a + 3.0f, 0.0f, 6.0f) / 6.0f); }
static inline float sigmoid(float a) {
  const float e = exp(-fabs(a));
  return (a < 0.0f ? e : 1.0f) / (1.0f + e);
}
// log(1 + exp(b a)) / b, without overflow; linear where b a is above the threshold
static inline float softplus(float a, float b, float threshold) {
  const float x = b * a;
  return x > threshold ? a : ((x < 0.0f ? 0.0f : x) + log1p(exp(-fabs(x)))) / b;
}
// a Phi(a) with Phi(a) = erfc(-a / sqrt 2) / 2, so that the left tail keeps its accuracy:
// erfc(t) = exp(-t^2) s P(s), s = 1 / (1 + 0.4 t)
static inline float gelu(float a) {
  const float z = fabs(a);
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
  const float q = 0.5f * s * p * exp(-0.5f * z * z);
  const float product = a * (a < 0.0f ? q : 1.0f - q);
  return z > 14.5f ? (a < 0.0f ? -0.0f : a) : product;
}
// a P(a^2) / Q(a^2), which is 1 in floats from 3.92 on
static inline float error_function(float a) {
  const float size = fabs(a), z = size > 3.92f ? 3.92f : size, t = z * z;
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
  const float y = size > 3.92f ? 1.0f : z * p / q;
  return copysign(y > 1.0f ? 1.0f : y, a);
}
static inline float swish(float a, float alpha) { return a * sigmoid(alpha * a); }
// a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2, since (1 + tanh u) / 2 is sigmoid(2 u)
static inline float gelu_tanh(float a) {
  return a * sigmoid(a * (1.59576912160573f + 0.0713548162726009f * (a * a)));
}
// a tanh(log(1 + e)) with e = exp(a)
static inline float mish(float a) {
  const float e = exp(a > 20.0f ? 20.0f : a), n = e * (e + 2.0f);
  return a > 20.0f ? a : a * (n / (n + 2.0f));
}
// log(a / (1 - a)); around 1/2 the quotient is near 1, and log1p keeps what rounding would lose
static inline float logit(float a) {
  const float near = log1p((2.0f * a - 1.0f) / (1.0f - a));
  return fabs(a - 0.5f) < 0.25f ? near : log(a / (1.0f - a));
}

// sum + term, and what rounding took from it is added to `lost`
static inline float plus_exactly(float sum, float term, float* lost) {
  const float next = sum + term, back = next - sum;
  if (isfinite(next)) *lost += (sum - (next - back)) + (term - back);
  return next;
}

// The integer that stands for a float: real = scale (q + offset). NaN counts as 0.
static inline int encoded(float a, float scale, int offset, int low, int high) {
  const float q = rint(quotient(a == a ? a : 0.0f, scale));
  return (int)bounded(q, (float)low + (float)offset, (float)high + (float)offset) - offset;
}
static inline float decoded(int q, float scale, int offset) {
  return scale * ((float)q + (float)offset);
}
// Of 32 bits, of which a float has 24
static inline int encoded_wide(float a, float scale, int offset) {
  return convert_int_sat_rte(rint(quotient(a == a ? a : 0.0f, scale)) - (float)offset);
}

// ---- integers: what overflows wraps, what is divided by 0 is 0, Divide truncates

#define INTEGER_FUNCTIONS(T, U, SIGNED, NAME)                                                  \
  static inline T NAME##_divide(T a, T b) {                                                    \
    if (b == 0) return 0;                                                                      \
    if (SIGNED && b == (T)-1) return (T)((U)0 - (U)a);                                         \
    return a / b;                                                                              \
  }                                                                                            \
  static inline T NAME##_fmod(T a, T b) { return b == 0 || (SIGNED && b == (T)-1) ? 0 : a % b; } \
  static inline T NAME##_floor_div(T a, T b) {                                                 \
    const T rest = NAME##_fmod(a, b);                                                          \
    return NAME##_divide(a, b) - (SIGNED && rest != 0 && (rest < 0) != (b < 0) ? 1 : 0);       \
  }                                                                                            \
  static inline T NAME##_mod(T a, T b) {                                                       \
    const T rest = NAME##_fmod(a, b);                                                          \
    return SIGNED && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;                     \
  }                                                                                            \
  static inline T NAME##_power(T a, T b) {                                                     \
    if (SIGNED && b < 0) return a == 1 ? 1 : a == (T)-1 ? (b % 2 == 0 ? 1 : (T)-1) : 0;        \
    U result = 1, base = (U)a;                                                                 \
    for (U e = (U)b; e != 0; e >>= 1) {                                                        \
      if (e & 1) result *= base;                                                               \
      base *= base;                                                                            \
    }                                                                                          \
    return (T)result;                                                                          \
  }                                                                                            \
  static inline T NAME##_squared_difference(T a, T b) {                                        \
    const U d = (U)a - (U)b;                                                                   \
    return (T)(d * d);                                                                         \
  }
INTEGER_FUNCTIONS(int, uint, 1, int)
INTEGER_FUNCTIONS(uint, uint, 0, uint)
INTEGER_FUNCTIONS(long, ulong, 1, long)
INTEGER_FUNCTIONS(ulong, ulong, 0, ulong)

// i / divisor for 31-bit numbers: a product and a shift instead of a division
static inline uint over(uint i, int magic, int shift) {
  return (mul_hi(i, (uint)magic) + i) >> shift;
}
