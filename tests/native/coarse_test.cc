// Activations for results of BFLOAT_16: near the exact ones, and nothing far below zero.
#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "ops/elementwise/coarse.h"

using namespace qnnrt;

namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Swish(double x) { return x * Sigmoid(x); }
double GeluTanh(double x) {
  return x * Sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

struct Case {
  Activation activation;
  double (*exact)(double);
};
const Case kCases[] = {{Activation::kSigmoid, Sigmoid},
                       {Activation::kTanh, [](double x) { return std::tanh(x); }},
                       {Activation::kSwish, Swish},
                       {Activation::kGeluTanh, GeluTanh}};

std::vector<float> Of(const Case& c, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  if (const UnaryLoop loop = CoarseLoop(c.activation)) {
    loop(x.data(), y.data(), x.size(), {1, 0});
  } else {  // this processor has none
    for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(c.exact(double{x[i]}));
  }
  return y;
}

}  // namespace

TEST(they_are_near_the_exact_ones) {
  std::vector<float> x;
  for (float a = 1e-6f; a < 1e6f; a *= 1.0037f) x.insert(x.end(), {a, -a});
  for (const Case& c : kCases) {
    const std::vector<float> y = Of(c, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = c.exact(double{x[i]});
      CHECK(std::fabs(double{y[i]} - exact) <= std::fabs(exact) * 0x1p-16 + 1e-35);
    }
  }
}

// The least normal number times x is no small one there.
TEST(far_below_zero_nothing_is_left) {
  const std::vector<float> x = {-1e2f, -1e10f, -1e30f, -1e37f, -1e38f, -3.4e38f};
  for (const Case& c : kCases) {
    if (c.activation == Activation::kTanh) continue;
    for (const float y : Of(c, x)) CHECK(std::fabs(y) < 1e-30f);
  }
}

TEST(infinity_has_its_limit_and_what_is_no_number_stays_none) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Case& c : kCases) {
    const std::vector<float> y = Of(c, {kInf, -kInf, std::nanf("")});
    const bool gates = c.activation == Activation::kSwish || c.activation == Activation::kGeluTanh;
    if (gates) {
      CHECK(y[0] == kInf);
    } else {
      CHECK(std::fabs(y[0] - 1) < 1e-5f);
      CHECK(std::fabs(y[1] - (c.activation == Activation::kTanh ? -1.0 : 0.0)) < 1e-5);
    }
    CHECK(std::isnan(y[2]));
  }
}

CHECK_MAIN("coarse_test")
