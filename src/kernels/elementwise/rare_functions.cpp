// Elementwise functions that are rarely hot, as plain loops, and what the predicates and roundings
// mean for integers. Read next: loops.h, kernels/isa/unary_float.cpp for the hot ones.
#include <cmath>
#include <numbers>

#include "kernels/elementwise/loops.h"

namespace adjoint::Base {
namespace {

#define FLOATS float, double
#define INTS uint8_t, int8_t, int16_t, int32_t, int64_t

// A whole number is its own rounding, and neither NaN nor infinite.
void register_for_integers() {
  for (const char* name : {"floor", "ceil", "round", "trunc"}) {
    same<INTS>(name, [](auto x) { return x; });
  }
  for (const char* name : {"isnan", "isinf", "isposinf", "isneginf"}) {
    to_bool<bool, INTS>(name, [](auto) { return false; });
  }
  to_bool<bool, INTS>("isfinite", [](auto) { return true; });
  to_bool<INTS>("signbit", [](auto x) { return x < 0; });
  to_bool<bool>("signbit", [](bool) { return false; });
  same<INTS>("relu", [](auto x) { return x > 0 ? x : decltype(x)(0); });
  same<bool>("positive", [](bool x) { return x; });
  same<bool>("clamp_min", [](bool x, bool low) { return x | low; });
  same<bool>("clamp_max", [](bool x, bool high) { return x & high; });
  same<bool, INTS>("fmax", [](auto x, auto y) { return x < y ? y : x; });
  same<bool, INTS>("fmin", [](auto x, auto y) { return y < x ? y : x; });
  same<bool, INTS>("heaviside", [](auto x, auto y) {
    using T = decltype(x);
    return x == T(0) ? y : T(x > T(0));
  });
}

// log(x / (1 - x)); x is first brought into [eps, 1 - eps] where eps is not negative.
template <class T>
T logit(T x, T eps) {
  if (eps >= 0) x = x < eps ? eps : x > 1 - eps ? 1 - eps : x;
  return std::log(x / (1 - x));
}

template <class T>
T sinc(T x) {
  if (x == 0) return 1;
  const T y = std::numbers::pi_v<T> * x;
  return std::sin(y) / y;
}

// Rounds at 10^decimals, half to even, by PyTorch's formula: multiply, round, divide.
template <class T>
T round_at(T x, T scale, T inverse) {
  return inverse != 0 ? std::nearbyint(x / inverse) * inverse : std::nearbyint(x * scale) / scale;
}

template <class T>
T elu(T x, T alpha, T scale, T input_scale) {
  return x > 0 ? scale * x : scale * alpha * std::expm1(input_scale * x);
}

// The Hurwitz zeta function by Euler and Maclaurin: terms up to x + 12, then the tail's expansion.
double zeta(double s, double x) {
  double sum = 0;
  for (int k = 0; k < 12; ++k, x += 1) sum += std::pow(x, -s);
  const double power = std::pow(x, -s);
  sum += x * power / (s - 1) + power / 2;
  // B_2j / (2j)!
  constexpr double bernoulli[] = {1. / 12,          -1. / 720,
                                  1. / 30240,       -1. / 1209600,
                                  1. / 47900160,    -691. / 1307674368000,
                                  1. / 74724249600, -3617. / 10670622842880000};
  double term = power * s / x, next = s;
  for (double b : bernoulli) {
    sum += b * term;
    term *= (next + 1) * (next + 2) / (x * x);
    next += 2;
  }
  return sum;
}

// The n-th derivative of digamma, n >= 2: a sum of equal signs, (-1)^(n+1) n! zeta(n + 1, x).
double polygamma(double n, double x) {
  double sum = x <= 0 && x == std::floor(x) ? INFINITY : 0;
  for (; x < 1 && sum < INFINITY; x += 1) sum += std::pow(x, -(n + 1));
  const double value = std::tgamma(n + 1) * (sum < INFINITY ? sum + zeta(n + 1, x) : sum);
  return std::fmod(n, 2) == 0 ? -value : value;
}

void register_functions() {
  same<FLOATS>("logit", [](auto x, auto eps) { return logit(x, eps); });
  same<FLOATS>("sinc", [](auto x) { return sinc(x); });
  same<FLOATS>("round_at",
               [](auto x, auto scale, auto inverse) { return round_at(x, scale, inverse); });
  same<FLOATS>("elu", [](auto x, auto alpha, auto scale, auto input_scale) {
    return elu(x, alpha, scale, input_scale);
  });
  same<FLOATS>("polygamma", [](auto n, auto x) { return decltype(x)(polygamma(n, x)); });
  same<FLOATS>("threshold", [](auto x, auto limit, auto value) { return x <= limit ? value : x; });
  same<INTS>("threshold", [](auto x, auto limit, auto value) { return x <= limit ? value : x; });
}

const bool registered = [] {
  register_for_integers();
  register_functions();
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
