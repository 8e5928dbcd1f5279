// First versions: the C library's functions lane by lane.
#pragma once
#include "math_basic.h"
#include "math_scalar.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

ADJOINT_INLINE f64 exp(f64 x) {
  return each_lane(x, [](double a) { return __builtin_exp(a); });
}
ADJOINT_INLINE f64 exp2(f64 x) {
  return each_lane(x, [](double a) { return __builtin_exp2(a); });
}
ADJOINT_INLINE f64 expm1(f64 x) {
  return each_lane(x, [](double a) { return __builtin_expm1(a); });
}
ADJOINT_INLINE f64 log(f64 x) {
  return each_lane(x, [](double a) { return __builtin_log(a); });
}
ADJOINT_INLINE f64 log2(f64 x) {
  return each_lane(x, [](double a) { return __builtin_log2(a); });
}
ADJOINT_INLINE f64 log10(f64 x) {
  return each_lane(x, [](double a) { return __builtin_log10(a); });
}
ADJOINT_INLINE f64 log1p(f64 x) {
  return each_lane(x, [](double a) { return __builtin_log1p(a); });
}
ADJOINT_INLINE f64 sin(f64 x) {
  return each_lane(x, [](double a) { return __builtin_sin(a); });
}
ADJOINT_INLINE f64 cos(f64 x) {
  return each_lane(x, [](double a) { return __builtin_cos(a); });
}
ADJOINT_INLINE f64 tan(f64 x) {
  return each_lane(x, [](double a) { return __builtin_tan(a); });
}
ADJOINT_INLINE f64 asin(f64 x) {
  return each_lane(x, [](double a) { return __builtin_asin(a); });
}
ADJOINT_INLINE f64 acos(f64 x) {
  return each_lane(x, [](double a) { return __builtin_acos(a); });
}
ADJOINT_INLINE f64 atan(f64 x) {
  return each_lane(x, [](double a) { return __builtin_atan(a); });
}
ADJOINT_INLINE f64 sinh(f64 x) {
  return each_lane(x, [](double a) { return __builtin_sinh(a); });
}
ADJOINT_INLINE f64 cosh(f64 x) {
  return each_lane(x, [](double a) { return __builtin_cosh(a); });
}
ADJOINT_INLINE f64 tanh(f64 x) {
  return each_lane(x, [](double a) { return __builtin_tanh(a); });
}
ADJOINT_INLINE f64 asinh(f64 x) {
  return each_lane(x, [](double a) { return __builtin_asinh(a); });
}
ADJOINT_INLINE f64 acosh(f64 x) {
  return each_lane(x, [](double a) { return __builtin_acosh(a); });
}
ADJOINT_INLINE f64 atanh(f64 x) {
  return each_lane(x, [](double a) { return __builtin_atanh(a); });
}
ADJOINT_INLINE f64 erf(f64 x) {
  return each_lane(x, [](double a) { return __builtin_erf(a); });
}
ADJOINT_INLINE f64 erfc(f64 x) {
  return each_lane(x, [](double a) { return __builtin_erfc(a); });
}
ADJOINT_INLINE f64 lgamma(f64 x) { return each_lane(x, lgamma_scalar); }
ADJOINT_INLINE f64 digamma(f64 x) { return each_lane(x, digamma_scalar); }
ADJOINT_INLINE f64 trigamma(f64 x) { return each_lane(x, trigamma_scalar); }
ADJOINT_INLINE f64 erfinv(f64 x) { return each_lane(x, erfinv_scalar); }
ADJOINT_INLINE f64 pow(f64 x, f64 y) {
  return each_lane(x, y, [](double a, double b) { return __builtin_pow(a, b); });
}
ADJOINT_INLINE f64 atan2(f64 x, f64 y) {
  return each_lane(x, y, [](double a, double b) { return __builtin_atan2(a, b); });
}
ADJOINT_INLINE f64 hypot(f64 x, f64 y) {
  return each_lane(x, y, [](double a, double b) { return __builtin_hypot(a, b); });
}

ADJOINT_INLINE f64 sigmoid(f64 x) {
  f64 e = exp(-abs(x)), d = 1 + e;
  return x < 0 ? e / d : 1 / d;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
