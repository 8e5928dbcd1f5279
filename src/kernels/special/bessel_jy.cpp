// Bessel functions of the first and second kind, of order 0 and 1. Up to 8 by polynomials; from
// there on J = (P cos - Q sin) / sqrt(x), where P and Q are polynomials in 1/x^2.
//
// Errors are a few ulp, counted at the size of the waves: next to the roots beyond 8 the relative
// error is larger, as that of any formula with a sine of x is. At infinity they are NaN, as sines are
// and as PyTorch has it.
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/elementwise/loops.h"
#include "kernels/special/fits.h"

namespace adjoint::Base {
namespace {

using namespace special;  // NOLINT: the tables

constexpr double kTwoOverPi = 2 / std::numbers::pi;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// What both kinds are made of, at x > 8.
struct Wave {
  double p, q, sum, difference, scale;  // sum and difference of sin(x) and cos(x)
  Wave(const Fit& even, const Fit& odd, double x) {
    const double v = 8 / x, w = v * v;
    p = even(w);
    q = odd(w) / x;
    const double s = std::sin(x), c = std::cos(x);
    sum = s + c;
    difference = s - c;
    scale = std::sqrt(std::numbers::pi * x);
  }
};

double j0(double x) {
  const double a = std::abs(x);
  if (a <= 1.5) return kJ0Near(a * a);
  if (a <= 8) return kJ0(a);
  if (!(a < kInf)) return kNaN;
  const Wave w(kP0, kQ0, a);
  return (w.p * w.sum - w.q * w.difference) / w.scale;
}

double j1(double x) {
  const double a = std::abs(x);
  double value;
  if (a <= 2) return x * kJ1Near(x * x);
  if (a <= 8) {
    value = kJ1(a);
  } else if (!(a < kInf)) {
    return kNaN;
  } else {
    const Wave w(kP1, kQ1, a);
    value = (w.p * w.difference + w.q * w.sum) / w.scale;
  }
  return x < 0 ? -value : value;
}

double y0(double x) {
  if (!(x > 0)) return x == 0 ? -kInf : kNaN;
  if (x <= 0.5) return kTwoOverPi * std::log(x) * kJ0Near(x * x) + kY0Near(x * x);
  if (x <= 8) return kY0(x);
  if (x == kInf) return kNaN;
  const Wave w(kP0, kQ0, x);
  return (w.p * w.difference + w.q * w.sum) / w.scale;
}

double y1(double x) {
  if (!(x > 0)) return x == 0 ? -kInf : kNaN;
  if (x <= 1) {
    const double smooth = x * (kTwoOverPi * std::log(x) * kJ1Near(x * x) + kY1Near(x * x));
    return smooth - kTwoOverPi / x;
  }
  if (x <= 8) return kY1(x);
  if (x == kInf) return kNaN;
  const Wave w(kP1, kQ1, x);
  return (w.q * w.difference - w.p * w.sum) / w.scale;
}

// sin(x) / x.
double spherical_j0(double x) {
  if (std::isinf(x)) return 0;
  return std::abs(x) < 1e-8 ? 1 : std::sin(x) / x;
}

// Its derivative, -j1, and that of higher order where Order is: by the series near zero, where the
// terms cancel.
double spherical_j1(double x) {
  if (std::isinf(x)) return 0;
  if (std::abs(x) < 1) {
    const double w = -x * x / 2;
    double term = x / 3, sum = term;
    for (int k = 1; k < 12; ++k) {
      term *= w / (k * (2 * k + 3.0));
      sum += term;
    }
    return sum;
  }
  return (std::sin(x) / x - std::cos(x)) / x;
}

const bool registered = [] {
  same<float, double>("bessel_j0", [](auto x) { return decltype(x)(j0(x)); });
  same<float, double>("bessel_j1", [](auto x) { return decltype(x)(j1(x)); });
  same<float, double>("bessel_y0", [](auto x) { return decltype(x)(y0(x)); });
  same<float, double>("bessel_y1", [](auto x) { return decltype(x)(y1(x)); });
  same<float, double>("spherical_bessel_j0", [](auto x) { return decltype(x)(spherical_j0(x)); });
  same<float, double>("spherical_bessel_j1", [](auto x) { return decltype(x)(spherical_j1(x)); });
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
