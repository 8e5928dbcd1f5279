// lgamma, digamma, trigamma and erfinv: scalar functions in double, lane by lane.
#pragma once
#include "math_inverse.h"

extern "C" double lgamma_r(double,
                           int*);  // POSIX; unlike lgamma it does not write the global signgam

namespace adjoint {
namespace ADJOINT_ISA_TAG {

static inline double lgamma_scalar(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

// digamma(x) / (x - root) on [1, 2], in x - 1.5: near the root only this form keeps its digits.
inline constexpr double kDigammaRoot = 1.4616321449683622, kDigammaRootRest = 9.549995429965697e-17;
inline constexpr double kDigammaNear[] = {
    0.9510558760318328,    -0.4236274212814606,     0.24054248424078722,   -0.14840492305388028,
    0.09498872445284977,   -0.06192213327554257,    0.04076083394339038,   -0.02697579665762855,
    0.017907248235613363,  -0.011908220153131522,   0.007927023326590364,  -0.005279936636128157,
    0.003518088715304651,  -0.002345499835681718,   0.0015635033253625704, -0.0010364320169615785,
    0.0006902824648451012, -0.00048603463569055005, 0.0003258798852217698, -0.0001446563812308779,
    9.32963975445995e-05,  -0.00017833337776423342, 0.0001211724807159918};

// B(2k) / 2k, the coefficients of both asymptotic series.
inline constexpr double kBernoulli[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                        1.0 / 132, -691.0 / 32760, 1.0 / 12};

static inline double horner(double x, const double* c, int n) {
  double r = c[n - 1];
  for (int k = n - 1; k-- > 0;) r = r * x + c[k];
  return r;
}

static inline double digamma_positive(double x) {
  double r = 0;
  if (x < 1) r = -1 / x, x += 1;
  for (; x > 2 && x < 10;) x -= 1, r += 1 / x;
  if (x <= 2)
    return r + ((x - kDigammaRoot) - kDigammaRootRest) * horner(x - 1.5, kDigammaNear, 23);
  if (x > 1e17) return __builtin_log(x);
  double z = 1 / (x * x);
  return __builtin_log(x) - 0.5 / x - z * horner(z, kBernoulli, 7);
}

// Poles: +-inf at +-0 as PyTorch has it, NaN at the negative integers.
static inline double digamma_scalar(double x) {
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  if (x > 0 || x != x) return digamma_positive(x);
  double f = x - __builtin_rint(x);  // tan has the period of the poles
  if (f == 0 || x == -__builtin_inf()) return __builtin_nan("");
  return digamma_positive(1 - x) - kPi / __builtin_tan(kPi * f);
}

// The recurrence up to 16 with the rounding errors of its sum carried along, then the series.
static inline double trigamma_positive(double x) {
  double sum = 0, lost = 0;
  for (; x < 16; x += 1) {
    double term = 1 / (x * x), next = sum + term;
    lost += sum >= term ? term - (next - sum) : sum - (next - term);
    sum = next;
  }
  if (x > 1e17) return 1 / x;
  constexpr double c[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                          5.0 / 66, -691.0 / 2730, 7.0 / 6};
  double z = 1 / (x * x);
  double tail = 1 / x + (z / 2 + z / x * horner(z, c, 7));
  return sum == __builtin_inf() ? sum : sum + (tail + lost);
}

static inline double trigamma_scalar(double x) {
  if (x == 0) return __builtin_inf();
  if (x > 0 || x != x) return trigamma_positive(x);
  double f = x - __builtin_rint(x);
  if (f == 0) return __builtin_inf();
  double s = kPi / __builtin_sin(kPi * f);
  return s * s - trigamma_positive(1 - x);
}

// A close formula (Winitzki), then Halley's steps on erf or erfc, whichever keeps digits.
static inline double erfinv_scalar(double y) {
  double a = __builtin_fabs(y);
  if (!(a < 1)) return a == 1 ? __builtin_copysign(__builtin_inf(), y) : __builtin_nan("");
  if (a < 1e-9) return y * 0.88622692545275801365;
  double w = -__builtin_log((1 - a) * (1 + a));
  double t = 2 / (kPi * 0.147) - w / 2;
  double x = __builtin_sqrt(__builtin_sqrt(t * t + w / 0.147) - t);
  for (int k = 0; k < 3; ++k) {
    double e = a < 0.5 ? __builtin_erf(x) - a : (1 - a) - __builtin_erfc(x);
    double u = e / (1.1283791670955126 * __builtin_exp(-x * x));
    x -= u / (1 + x * u);
  }
  return __builtin_copysign(x, y);
}

ADJOINT_INLINE f64 lgamma(f64 x) { return each_lane(x, lgamma_scalar); }
ADJOINT_INLINE f64 digamma(f64 x) { return each_lane(x, digamma_scalar); }
ADJOINT_INLINE f64 trigamma(f64 x) { return each_lane(x, trigamma_scalar); }
ADJOINT_INLINE f64 erfinv(f64 x) { return each_lane(x, erfinv_scalar); }

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
