// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P. In long double, so that
// powers and factorials lose nothing that shows in the result: a series for P, a continued fraction
// for Q, Temme's uniform expansion where a is large.
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/elementwise/loops.h"
#include "kernels/special/fits.h"

namespace adjoint::Base {
namespace {

using L = long double;

constexpr L kEps =
    std::numeric_limits<L>::epsilon() > 1e-25L ? std::numeric_limits<L>::epsilon() / 4 : 1e-22L;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr L kTwoPi = 2 * std::numbers::pi_v<L>;

// log(1 + t) - t
L log1p_rest(L t) {
  if (std::abs(t) > 0.4L) return std::log1p(t) - t;
  L power = t * t, sum = -power / 2;
  for (int k = 3; k < 200; ++k) {
    power *= -t;
    const L term = power / k;
    sum -= term;
    if (std::abs(term) < kEps * std::abs(sum)) break;
  }
  return sum;
}

// x^a exp(-x) / gamma(a + 1)
L prefix(L a, L x) {
  if (a < 1000 && x < 5000) return std::pow(x, a) * std::exp(-x) / std::tgamma(a + 1);
  // By Stirling's series, x = a (1 + t).
  const L t = (x - a) / a, b = 1 / (a * a);
  const L stirling = (1 / L(12) - (1 / L(360) - b / 1260) * b) / a;
  return std::exp(a * log1p_rest(t) - stirling) / std::sqrt(kTwoPi * a);
}

// P by sum of x^k / ((a + 1) ... (a + k))
L series(L a, L x) {
  L term = 1, sum = 1;
  for (L k = a + 1;; k += 1) {
    term *= x / k;
    sum += term;
    if (term < kEps * sum) break;
  }
  return sum * prefix(a, x);
}

// Q by Legendre's continued fraction, evaluated from the front (Lentz).
L fraction(L a, L x) {
  const L tiny = 1e-4000L;
  L b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int i = 1; i < 100000; ++i) {
    const L an = -i * (i - a);
    b += 2;
    d = an * d + b;
    if (d == 0) d = tiny;
    c = b + an / c;
    if (c == 0) c = tiny;
    d = 1 / d;
    const L factor = c * d;
    h *= factor;
    if (std::abs(factor - 1) < kEps * 8) break;
  }
  return h * prefix(a, x) * a;
}

// log(gamma(1 + a)), a small: its Taylor series.
L lgamma1p(L a) {
  if (std::abs(a) > 0.1L) return std::lgamma(1 + a);
  // zeta(k) / k, k = 2 .. 20
  static constexpr L zeta[] = {
      0.8224670334241132182362L, 0.4006856343865314284666L, 0.2705808084277845478790L,
      0.2073855510286739852663L, 0.1695571769974081899386L, 0.1440498967688461181200L,
      0.1255096695247430424223L, 0.1113342658695646905113L, 0.1000994575127818085337L,
      0.0909540171458290422205L, 0.0833538405461090036809L, 0.0769325164113521915203L,
      0.0714329462953613360749L, 0.0666687058824204680329L, 0.0625009551412130407420L,
      0.0588239786586845823390L, 0.0555557676274036111029L, 0.0526316793796166607338L,
      0.0500000476981016936398L};
  L sum = 0, power = a;
  for (L z : zeta) {
    power *= -a;
    sum -= z * power;
  }
  return sum - 0.577215664901532860606512L * a;
}

// Q for small a and x, where 1 - P would cancel.
L small_q(L a, L x) {
  L term = 1, sum = 0;
  for (int k = 1; k < 200; ++k) {
    term *= -x / k;
    const L part = term / (a + k);
    sum += part;
    if (std::abs(part) <= kEps * std::abs(sum)) break;
  }
  const L log_of = a * std::log(x) - lgamma1p(a);
  return -std::expm1(log_of) - a * std::exp(log_of) * sum;
}

// exp(t^2) erfc(t), t >= 0, in double: it is a factor of the whole.
double erfcx(double t) {
  if (t <= 8) return special::kErfcx(t);
  const double v = 1 / t;
  return v * std::numbers::inv_sqrtpi * special::kErfcxFar(v * v);
}

// Temme: P or Q, whichever is the smaller one, at eta^2 / 2 = lambda - 1 - log(lambda).
L uniform(L a, L half_square, bool left) {
  const double eta = static_cast<double>((left ? -1 : 1) * std::sqrt(2 * half_square));
  double sum = 0;
  for (int n = special::kTemmeTerms - 1; n >= 0; --n) {
    const double* c = special::kTemme + n * special::kTemmePowers;
    double part = c[special::kTemmePowers - 1];
    for (int k = special::kTemmePowers - 2; k >= 0; --k) part = part * eta + c[k];
    sum = sum / static_cast<double>(a) + part;
  }
  const L outside = std::exp(-a * half_square);
  const L rest = sum / std::sqrt(kTwoPi * a);
  const L wave = 0.5L * erfcx(static_cast<double>(std::sqrt(a * half_square)));
  return outside * (left ? wave - rest : wave + rest);
}

struct Answer {
  double p, q;
};
Answer from_p(L p) { return {static_cast<double>(p), static_cast<double>(1 - p)}; }
Answer from_q(L q) { return {static_cast<double>(1 - q), static_cast<double>(q)}; }

Answer incomplete_gamma(double a, double x) {
  if (!(a >= 0 && x >= 0)) return {kNaN, kNaN};
  if (a == 0) return x > 0 ? Answer{1, 0} : Answer{kNaN, kNaN};
  if (x == 0) return {0, 1};
  if (a == kInf) return x == kInf ? Answer{kNaN, kNaN} : Answer{0, 1};
  if (x == kInf) return {1, 0};
  const L la = a, lx = x;
  if (a > 1000) {
    const L half_square = -log1p_rest((lx - la) / la);
    if (half_square < 0.08L) {
      const bool left = x < a;
      const L small = uniform(la, half_square, left);
      return left ? from_p(small) : from_q(small);
    }
    if (la * half_square > 11000) return x < a ? Answer{0, 1} : Answer{1, 0};
  }
  if (x <= 1.1) {
    const bool much = x <= 0.5 ? -0.4 / std::log(x) < a : 1.1 * x < a;
    return much ? from_p(series(la, lx)) : from_q(small_q(la, lx));
  }
  return x < a + 1 ? from_p(series(la, lx)) : from_q(fraction(la, lx));
}

const bool registered = [] {
  same<float, double>("igamma",
                      [](auto a, auto x) { return decltype(a)(incomplete_gamma(a, x).p); });
  same<float, double>("igammac",
                      [](auto a, auto x) { return decltype(a)(incomplete_gamma(a, x).q); });
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
