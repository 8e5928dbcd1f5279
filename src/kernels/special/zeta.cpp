// The Hurwitz zeta function, and derivatives of digamma, which are made of it.
#include <cmath>
#include <limits>

#include "kernels/elementwise/loops.h"
#include "kernels/special/wider.h"

namespace adjoint::Base {
namespace {

// Computed in R, one precision more than the result has.
template <class R>
constexpr R kInf = std::numeric_limits<R>::infinity();
template <class R>
constexpr R kNaN = std::numeric_limits<R>::quiet_NaN();

// B_2j / (2j)!
template <class R>
constexpr R kBernoulli[] = {R(1) / 12,
                            R(-1) / 720,
                            R(1) / 30240,
                            R(-1) / 1209600,
                            R(1) / 47900160,
                            R(-691) / 1307674368000,
                            R(1) / 74724249600,
                            R(-3617) / R(10670622842880000),
                            R(43867) / R(5109094217170944000),
                            R(-174611) / R(802857662698291200000.0L),
                            R(77683) / R(14101100039391805440000.0L),
                            R(-236364091) / R(1693824136731743669452800000.0L)};

// The sum of (q + k)^-s over k = 0, 1, ..., for q > 0: Euler and Maclaurin's formula from where its
// terms shrink.
template <class R>
R zeta_sum(R s, R q) {
  const R eps = std::numeric_limits<R>::epsilon() / 8, far = 12 + s / 2;
  R sum = 0, x = q;
  for (; x < far; x += 1) {
    const R term = std::pow(x, -s);
    sum += term;
    // What is left is less than term * x / (s - 1).
    if (term == 0 || term * x < eps * sum) return sum;
  }
  const R power = std::pow(x, -s);
  sum += x * power / (s - 1) + power / 2;
  R term = power * s / x, next = s;
  for (R b : kBernoulli<R>) {
    const R part = b * term;
    sum += part;
    if (std::abs(part) < eps * sum) break;
    term *= (next + 1) * (next + 2) / (x * x);
    next += 2;
  }
  return sum;
}

template <class R>
R zeta(R s, R q) {
  if (s != s || q != q || s < 1) return kNaN<R>;
  if (s == 1) return kInf<R>;
  if (q > 0) {
    if (q == kInf<R>) return 0;
    if (s == kInf<R>) return q > 1 ? R(0) : q == 1 ? R(1) : kInf<R>;
    return zeta_sum(s, q);
  }
  if (q == std::floor(q)) return q == -kInf<R> ? kNaN<R> : kInf<R>;
  if (s != std::floor(s) || s == kInf<R>) return kNaN<R>;
  // The sum over all integers on both sides, without those left of q.
  const R f = q - std::floor(q), left = zeta_sum(s, 1 - f) - zeta_sum(s, 1 - q);
  return zeta_sum(s, f) + (std::fmod(s, R(2)) == 0 ? left : -left);
}

// The n-th derivative of digamma, n >= 1: (-1)^(n+1) n! zeta(n + 1, x).
template <class R>
R polygamma(R n, R x) {
  const R value = std::tgamma(n + 1) * zeta(n + 1, x);
  return std::fmod(n, R(2)) == 0 ? -value : value;
}

const bool registered = [] {
  same<float, double>("zeta", [](auto s, auto q) {
    using R = special::wider_t<decltype(s)>;
    return decltype(s)(zeta<R>(s, q));
  });
  same<float, double>("polygamma", [](auto n, auto x) {
    return decltype(x)(polygamma<long double>(n, x));  // n! is large
  });
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
