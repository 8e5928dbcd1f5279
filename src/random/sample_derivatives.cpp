// Derivatives of samples. Read sample_derivatives.h first.
//
// Note [Derivatives of distribution functions]: dF/da is an integral of the density times the
// derivative of its logarithm, from 0 to x or, with the other sign, from x on. Over the density at
// x, and with t = x e^-v (or t = x + v), it becomes
//   integral over v > 0 of  (d log density / da at t)  *  density(t) / density(x)  *  dt/dv,
// where the ratio of densities is 1 at v = 0 and falls from there, if the side is taken on which x
// is away from the mean. Such integrals are what the double-exponential rule is for:
// v = width * exp(pi/2 sinh s) in equal steps of s finds ten digits and more, over all decades of v
// that matter, for parameters from 1e-3 to 1e8.
//
// Note [Series of distribution functions]: where few terms do, a tenth of that time is enough. Over
// the density, F is x times a sum of terms that follow from one another by products,
//   x^n / (a (a+1) ... (a+n))  for gamma,  (a+b) ... (a+b+n-1) x^n / (a ... (a+n))  for beta,
// and the derivative by a of the logarithm of each differs from the one before by 1 / (a+n) and
// 1 / (a+b+n-1). Terms of one sign are added, except beyond the mean of a gamma variable, where
// what is lost is the inverse of the probability that is left.
#include "random/sample_derivatives.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "random/elements.h"
#include "random/errors.h"

namespace adjoint::random {
namespace {

struct Nodes {
  static constexpr int kCount = 108;
  static constexpr double kFirst = -3.9, kStep = 1.0 / 16;
  std::array<double, kCount> at, weight;
  Nodes() {
    for (int i = 0; i < kCount; ++i) {
      double s = kFirst + i * kStep, half_pi = std::numbers::pi / 2;
      at[i] = std::exp(half_pi * std::sinh(s));
      weight[i] = kStep * at[i] * half_pi * std::cosh(s);
    }
  }
};

// The integral of f from 0 on; f changes over `width`.
template <class F>
double integral(double width, F f) {
  static const Nodes nodes;
  double sum = 0;
  for (int i = 0; i < Nodes::kCount; ++i) sum += nodes.weight[i] * f(width * nodes.at[i]);
  return width * sum;
}

double digamma(double x) {
  double down = 0;
  for (; x < 10; ++x) down += 1 / x;
  double q = 1 / (x * x);
  double series =
      q * (1.0 / 12 - q * (1.0 / 120 - q * (1.0 / 252 - q * (1.0 / 240 - q * (1.0 / 132)))));
  return std::log(x) - 0.5 / x - series - down;
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Parameters up to here need some hundred terms at most.
constexpr double kSeries = 300;
constexpr double kNegligible = 1e-17;

// `offset`: log(x) - digamma(a).
double gamma_series(double a, double x, double offset) {
  double at = a, term = 1 / a, slope = offset - term, sum = term * slope;
  for (double last = 1; at <= x + 1 || std::abs(last) > kNegligible * std::abs(sum);) {
    const double inverse = 1 / ++at;
    term *= x * inverse;
    slope -= inverse;
    sum += last = term * slope;
  }
  return -x * sum;
}

// The sum for x (or for 1 - x, with the parameters exchanged). `slope`: log(x) - digamma(a) +
// digamma(total) with the a of the derivative, which is `a` if `by_a`.
template <bool by_a>
double beta_series(double a, double total, double x, double slope) {
  double term = 1 / a, sum = 0, last = 0;
  const double enough = kNegligible * (1 - x);
  if (by_a) slope -= term;
  do {
    sum += last = term * slope;
    slope += 1 / total;
    term *= x * total;
    const double inverse = 1 / ++a;
    term *= inverse;
    if (by_a) slope -= inverse;
    ++total;
  } while (x * total > a || std::abs(last) > enough * std::abs(sum));
  return sum;
}

double gamma_one(double a, double x) {
  if (!(a > 0) || !(x > 0) || std::isinf(a) || std::isinf(x)) return kNaN;
  const double offset = std::log(x) - digamma(a);
  if (a <= kSeries && x <= a + 4 * std::sqrt(a) + 4) return gamma_series(a, x, offset);
  if (x <= a) {
    return -x * integral(1 / ((a - x) + std::sqrt(x)), [=](double v) {
      return (offset - v) * std::exp(-a * v - x * std::expm1(-v));
    });
  }
  double slope = std::max(0.0, 1 - (a - 1) / x);
  return integral(1 / (slope + std::sqrt(a) / x), [=](double v) {
    double log_ratio = std::log1p(v / x);
    return (offset + log_ratio) * std::exp((a - 1) * log_ratio - v);
  });
}

double dirichlet_one(double x, double a, double total) {
  const double b = total - a;
  if (!(a > 0) || !(b > 0) || !(x > 0) || !(x < 1) || std::isinf(total)) return kNaN;
  const double offset = digamma(total) - digamma(a), y = 1 - x;
  const bool below = x * total <= a;
  if (total <= kSeries && (below ? x : y) <= 0.8) {
    const double slope = std::log(x) + offset;
    return below ? -x * beta_series<true>(a, total, x, slope)
                 : x * beta_series<false>(b, total, y, slope);
  }
  if (below) {
    double width = 1 / (std::abs(a - (b - 1) * x / y) + std::sqrt(b * x) / y);
    double from = std::log(x), rest = std::log1p(-x);
    return -x / y * integral(width, [=](double v) {
      double log_rest = std::log1p(-x * std::exp(-v)) - rest;
      return (from - v + offset) * std::exp(-a * v + (b - 1) * log_rest);
    });
  }
  double width = 1 / (std::abs(b - (a - 1) * y / x) + std::sqrt(a * y) / x);
  double from = std::log(x);
  return integral(width, [=](double v) {
    double log_t = std::log1p(-y * std::exp(-v));
    return (log_t + offset) * std::exp(-b * v + (a - 1) * (log_t - from));
  });
}

}  // namespace

void gamma_grad(DType dtype, void* out, int64_t n, const void* alpha, const void* x) {
  if (!is_floating(dtype)) throw unsupported_dtype("_standard_gamma_grad", dtype);
  visit_floating(dtype, [&]<class T>(Type<T>) {
    const T *a = static_cast<const T*>(alpha), *at = static_cast<const T*>(x);
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) to[i] = cast<T>(gamma_one(widen(a[i]), widen(at[i])));
  });
}

void dirichlet_grad(DType dtype, void* out, int64_t n, const void* x, const void* alpha,
                    const void* total) {
  if (!is_floating(dtype)) throw unsupported_dtype("_dirichlet_grad", dtype);
  visit_floating(dtype, [&]<class T>(Type<T>) {
    const T *at = static_cast<const T*>(x), *a = static_cast<const T*>(alpha);
    const T* sum = static_cast<const T*>(total);
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i)
      to[i] = cast<T>(dirichlet_one(widen(at[i]), widen(a[i]), widen(sum[i])));
  });
}

}  // namespace adjoint::random
