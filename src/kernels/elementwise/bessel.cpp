// Modified Bessel functions of the first kind, of order 0 and 1, as plain loops: they are rarely
// hot. Read next: ops/elementwise/bessel.cpp for their derivatives.
#include <cmath>
#include <numbers>

#include "kernels/elementwise/loops.h"

namespace adjoint::Base {
namespace {

// From here on the asymptotic series reaches all digits; below, the power series does with few
// terms.
constexpr long double kFar = 30;

// sum of (x/2)^(2k + order) / (k! (k + order)!): no term is negative, so nothing cancels.
long double power_series(int order, long double x) {
  const long double z = x * x / 4;
  long double term = order ? x / 2 : 1, sum = term;
  for (int k = 1; term > sum * 1e-21L; ++k) {
    term *= z / (static_cast<long double>(k) * (k + order));
    sum += term;
  }
  return sum;
}

// The same times sqrt(2 pi x) exp(-x), in powers of 1/x; at kFar the terms shrink for long.
long double far_series(int order, long double x) {
  long double term = 1, sum = 1;
  for (int k = 1; std::abs(term) > 1e-21L; ++k) {
    const long double odd = 2 * k - 1;
    term *= (odd * odd - 4 * order) / (8 * x * k);
    sum += term;
  }
  return sum;
}

// I_order(x), times exp(-|x|) if scaled; in long double, which on most processors has digits to
// spare, so that the result is rounded once.
double bessel_i(int order, double x, bool scaled) {
  const long double a = std::abs(x);
  if (std::isnan(x)) return x;
  long double value;
  if (a < kFar) {
    value = power_series(order, a) * (scaled ? std::exp(-a) : 1.0L);
  } else if (std::isinf(x)) {
    value = scaled ? 0.0L : a;
  } else {
    const long double half = scaled ? 1 : std::exp(a / 2);  // exp(a) itself may be too large
    value =
        half * (far_series(order, a) / std::sqrt(2 * std::numbers::pi_v<long double> * a)) * half;
  }
  return static_cast<double>(order && std::signbit(x) ? -value : value);
}

template <int Order, bool Scaled>
void register_bessel(const char* name) {
  same<float, double>(name, [](auto x) { return decltype(x)(bessel_i(Order, x, Scaled)); });
}

const bool registered = [] {
  register_bessel<0, false>("i0");
  register_bessel<0, true>("i0e");
  register_bessel<1, false>("i1");
  register_bessel<1, true>("i1e");
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
