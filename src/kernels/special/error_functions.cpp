// The scaled complementary error function, the normal distribution with its logarithm and inverse,
// and products with a logarithm.
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/elementwise/loops.h"
#include "kernels/special/fits.h"

namespace adjoint::Base {
namespace {

using namespace special;  // NOLINT: the tables

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kRootHalf = 0.70710678118654752440, kRootHalfRest = -4.833646656726456726e-17;

// exp(x^2 * factor), factor a power of two: the square in two numbers.
double exp_of_square(double x, double factor) {
  const TwoNumbers square = exact_product(x, x);
  const double high = std::exp(square.high * factor);
  return high == 0 || high == kInf ? high : high + high * (square.low * factor);
}

// x >= 0
double erfcx_right(double x) {
  if (x <= 8) return kErfcx(x);
  const double v = 1 / x;
  return v * std::numbers::inv_sqrtpi * kErfcxFar(v * v);
}

double erfcx(double x) {
  if (x != x) return x;
  if (x >= 0) return erfcx_right(x);
  if (x < -26.7) return kInf;
  return 2 * exp_of_square(x, 1) - erfcx_right(-x);
}

// erfcx(x / sqrt(2)), x >= 0: the quotient in two numbers, the second by the derivative
// 2 t erfcx(t) - 2 / sqrt(pi).
double erfcx_of_half(double x) {
  const TwoNumbers t = exact_product(x, kRootHalf);
  const double f = erfcx_right(t.high), low = t.low + x * kRootHalfRest;
  if (x > 1e8) return f;  // where the derivative cancels to nothing
  return f + low * 2 * (t.high * f - std::numbers::inv_sqrtpi);
}

// The share of a normal distribution below x: half of erfc(-x / sqrt(2)).
double ndtr(double x) {
  if (x != x) return x;
  if (x < -1) return x < -39 ? 0 : 0.5 * exp_of_square(x, -0.5) * erfcx_of_half(-x);
  if (x > 1) return x > 9 ? 1 : 1 - 0.5 * exp_of_square(x, -0.5) * erfcx_of_half(x);
  return 0.5 + 0.5 * std::erf(x * kRootHalf);
}

double log_ndtr(double x) {
  if (x != x) return x;
  if (x < 0) {
    if (x == -kInf) return x;
    const TwoNumbers square = exact_product(x, x);
    if (square.high == kInf) return -kInf;
    return std::log(0.5 * erfcx_of_half(-x)) - square.low / 2 - square.high / 2;
  }
  if (x > 39) return -0.0;
  return std::log1p(-0.5 * exp_of_square(x, -0.5) * erfcx_of_half(x));
}

// log_ndtr(x) = log(p) by Newton's method, p < 1/4: its logarithm is nearly a parabola there.
double ndtri_left(double p) {
  const double wanted = std::log(p);
  // x^2 = -2 log(p) - log(2 pi) - log(x^2), a few times.
  double square = -2 * wanted - 1.8378770664093453;
  square = -2 * wanted - 1.8378770664093453 - std::log(square > 0.4 ? square : 0.4);
  double x = -std::sqrt(square > 0.4 ? square : 0.4);
  for (int step = 0; step < 8; ++step) {
    // The slope is the density over the share, sqrt(2 / pi) / erfcx(-x / sqrt(2)); its own slope is
    // -slope (x + slope).
    const double slope = 2 * kRootHalf * std::numbers::inv_sqrtpi / erfcx_of_half(-x);
    const double newton = (log_ndtr(x) - wanted) / slope;
    const double move = newton / (1 + 0.5 * newton * (x + slope));
    x -= move;
    if (std::abs(move) <= 1e-9 * std::abs(x)) break;  // the next is its third power
  }
  return x;
}

double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  if (p < 0.25) return ndtri_left(p);
  if (p > 0.75) return -ndtri_left(1 - p);
  // erf(x / sqrt(2)) / 2 = q, by Newton's method with a second-order step.
  const double q = p - 0.5;
  double x = 2.5066282746310002 * q * (1 + q * q * 1.05);
  for (int step = 0; step < 6; ++step) {
    const double density = kRootHalf * std::numbers::inv_sqrtpi * std::exp(-0.5 * x * x);
    const double newton = (0.5 * std::erf(x * kRootHalf) - q) / density;
    const double move = newton / (1 + 0.5 * newton * x);
    x -= move;
    if (std::abs(move) <= 1e-9 * std::abs(x)) break;
  }
  return x;
}

double entr(double x) { return x > 0 ? -x * std::log(x) : x == 0 ? 0 : x < 0 ? -kInf : x; }

double xlog1py(double x, double y) { return y != y ? y : x == 0 ? 0 : x * std::log1p(y); }

const bool registered = [] {
  same<float, double>("erfcx", [](auto x) { return decltype(x)(erfcx(x)); });
  same<float, double>("ndtr", [](auto x) { return decltype(x)(ndtr(x)); });
  same<float, double>("log_ndtr", [](auto x) { return decltype(x)(log_ndtr(x)); });
  same<float, double>("ndtri", [](auto x) { return decltype(x)(ndtri(x)); });
  same<float, double>("entr", [](auto x) { return decltype(x)(entr(x)); });
  same<float, double>("xlog1py", [](auto x, auto y) { return decltype(x)(xlog1py(x, y)); });
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
