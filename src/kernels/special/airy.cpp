// Airy's function Ai and its derivative: polynomials in the middle, an exponential to the right,
// waves to the left.
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/elementwise/loops.h"
#include "kernels/special/fits.h"

namespace adjoint::Base {
namespace {

using namespace special;  // NOLINT: the tables

constexpr double kLeft = -4.5, kRight = 2.1, kUnderflow = 110;
constexpr double kPhaseLost = 1e18;  // zeta in two numbers has no digits behind the point there

// zeta = 2/3 y^(3/2) in two numbers: its sine and its exponential need more digits than one has.
TwoNumbers zeta(double y) {
  const double root = std::sqrt(y);
  const double missing = __builtin_fma(-root, root, y) / (2 * root);
  const TwoNumbers power = exact_product(y, root);
  const double low = power.low + y * missing;
  const TwoNumbers z = exact_product(power.high, 2.0 / 3);
  // 2/3 itself is rounded by a third of a unit in its last place.
  return {z.high, z.low + 2.0 / 3 * low + power.high * 3.7007434154171886e-17};
}

template <bool Derivative>
double airy(double x) {
  if (x != x) return x;
  if (x > kRight) {
    if (x > kUnderflow) return Derivative ? -0.0 : 0.0;
    const TwoNumbers z = zeta(x);
    const double fourth = std::sqrt(std::sqrt(x));
    const double half = std::exp(-z.high / 2);
    const double f = Derivative ? -kAiPrimeFar(1 / z.high) * fourth : kAiFar(1 / z.high) / fourth;
    return f * half * (1 - z.low) * half;
  }
  if (x >= kLeft) return (Derivative ? kAiPrime : kAi)(x);
  const double y = -x;
  if (y > kPhaseLost) return std::numeric_limits<double>::quiet_NaN();
  const TwoNumbers z = zeta(y);
  const double s0 = std::sin(z.high), c0 = std::cos(z.high);
  const double s1 = std::sin(z.low), c1 = std::cos(z.low);
  const double s = s0 * c1 + c0 * s1, c = c0 * c1 - s0 * s1;
  const double w = 1 / (z.high * z.high), fourth = std::sqrt(std::sqrt(y));
  const double cosine = (c + s) / std::numbers::sqrt2, sine = (s - c) / std::numbers::sqrt2;
  if (Derivative)
    return (sine * kAiR(w) - cosine * (kAiS(w) / z.high)) * fourth * std::numbers::inv_sqrtpi;
  return (cosine * kAiP(w) + sine * (kAiQ(w) / z.high)) * std::numbers::inv_sqrtpi / fourth;
}

const bool registered = [] {
  same<float, double>("airy_ai", [](auto x) { return decltype(x)(airy<false>(x)); });
  same<float, double>("airy_ai_prime", [](auto x) { return decltype(x)(airy<true>(x)); });
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
