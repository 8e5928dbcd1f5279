// Modified Bessel functions of the second kind, of order 0 and 1, and the same times exp(x). Those of
// the first kind are in kernels/elementwise/bessel.cpp.
#include <cmath>
#include <limits>

#include "kernels/elementwise/loops.h"
#include "kernels/special/fits.h"

namespace adjoint::Base {
namespace {

using namespace special;  // NOLINT: the tables

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <int Order, bool Scaled>
double bessel_k(double x) {
  if (!(x > 0)) return x == 0 ? kInf : kNaN;
  if (x <= 1) {
    const double u = x * x, log_half = std::log(x / 2);
    const double value = Order ? x * (kK1Near(u) + log_half * kI1Near(u)) + 1 / x
                               : kK0Near(u) - log_half * kI0Near(u);
    return Scaled ? value * std::exp(x) : value;
  }
  if (x == kInf) return 0;
  const double scaled = (Order ? kK1Far : kK0Far)(1 / x) / std::sqrt(x);
  if (Scaled) return scaled;
  // Far out the product would be rounded to a denormal number before it is one.
  const double half = std::exp(-x / 2);
  return x < 600 ? scaled * std::exp(-x) : scaled * half * half;
}

template <int Order, bool Scaled>
void add(const char* name) {
  same<float, double>(name, [](auto x) { return decltype(x)(bessel_k<Order, Scaled>(x)); });
}

const bool registered = [] {
  add<0, false>("modified_bessel_k0");
  add<1, false>("modified_bessel_k1");
  add<0, true>("scaled_modified_bessel_k0");
  add<1, true>("scaled_modified_bessel_k1");
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
