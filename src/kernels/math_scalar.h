// Special functions that have no vector form: erfinv, lgamma, digamma, trigamma, in double.
#pragma once
#include "vec.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

extern "C" double lgamma_r(double, int*);  // does not write the global signgam
static constexpr double kPi = 3.14159265358979323846;

static double lgamma_scalar(double x) {
  int sign;
  if (x == -__builtin_inf()) return __builtin_inf();
  return lgamma_r(x, &sign);
}

static double digamma_scalar(double x) {
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  if (x < 0 && x == __builtin_floor(x)) return __builtin_nan("");
  double r = 0;
  if (x < 0) {  // reflection; the period is taken off first so that tan sees a small argument
    double f = x - __builtin_rint(x);
    r = -kPi / __builtin_tan(kPi * f);
    x = 1 - x;
  }
  while (x < 16) r -= 1 / x, x += 1;
  double z = 1 / (x * x);
  double s =
      z * (1. / 12 -
           z * (1. / 120 -
                z * (1. / 252 - z * (1. / 240 - z * (1. / 132 - z * (691. / 32760 - z / 12))))));
  return r + (__builtin_log(x) - 0.5 / x - s);
}

static double trigamma_scalar(double x) {
  double r = 0, sign = 1;
  if (x < 0.5) {
    double s = __builtin_sin(kPi * (x - __builtin_rint(x)));
    r = -(kPi * kPi) / (s * s);
    if (x == 0) return __builtin_inf();
    sign = -1;
    x = 1 - x;
  }
  while (x < 16) r += 1 / (x * x), x += 1;
  double z = 1 / (x * x);
  r += 1 / x + z / 2 +
       z / x *
           (1. / 6 -
            z * (1. / 30 -
                 z * (1. / 42 - z * (1. / 30 - z * (5. / 66 - z * (691. / 2730 - z * 7. / 6))))));
  return sign * r;
}

static double erfinv_scalar(double y) {
  double a = __builtin_fabs(y);
  if (!(a < 1)) return a == 1 ? __builtin_copysign(__builtin_inf(), y) : __builtin_nan("");
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

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
