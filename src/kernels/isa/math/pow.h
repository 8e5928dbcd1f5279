// pow. y log|x| is needed to 64 bits or more, since exp multiplies its error by up to 700: the
// logarithm and the product are sums of two float64. float32 needs only float64. Zeros, infinities,
// NaN, denormal bases and exponents that overflow every product go to the C library, which knows
// the twenty special cases.
#pragma once
#include "kernels/isa/math/basic.h"
#include "kernels/isa/math/exp.h"
#include "kernels/isa/math/log.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

inline constexpr double kPowLog[] = {0.39999999999999974, 0.28571428571447044, 0.2222222221707011,
                                     0.18181818927114976, 0.15384553024426567, 0.1333646431717333,
                                     0.11671858619259938, 0.12013480597195547};

// log(a) = 2s + 2/3 s^3 + s^5 Q(s^2) + k ln 2, s = (m-1)/(m+1), the first two terms in twice the
// precision.
ADJOINT_INLINE Sum2<f64> log_twice(f64 a) {
  constexpr double two_thirds = 2.0 / 3, two_thirds_lo = 3.700743415417188e-17;
  f64 m;
  f64 k = split_exponent(a, m);
  f64 f = m - 1, d = m + 1;
  f64 d_lo = m - (d - 1);
  f64 inverse = 1 / d;
  f64 s = rounded(f * inverse);
  auto back = two_product(s, d);
  f64 s_lo = (((f - back.hi) - back.lo) - s * d_lo) * inverse;
  auto z = two_product(s, s);
  f64 z_lo = z.lo + 2 * s * s_lo;
  auto cube = two_product(z.hi, s);
  f64 cube_lo = cube.lo + (z_lo * s + z.hi * s_lo);
  auto third = two_product(cube.hi, splat<f64>(two_thirds));
  f64 third_lo = third.lo + (cube.hi * two_thirds_lo + cube_lo * two_thirds);
  f64 small = cube.hi * z.hi * poly(z.hi, kPowLog);
  auto sum = two_sum_ordered(2 * s, third.hi);
  f64 lo = sum.lo + ((2 * s_lo + third_lo) + small);
  auto whole = two_sum_ordered(rounded(k * LogTable<f64>::ln2_hi), sum.hi);
  return two_sum_ordered(whole.hi, whole.lo + (lo + k * LogTable<f64>::ln2_lo));
}

static inline double pow_libm(double x, double y) { return __builtin_pow(x, y); }

// From |x|^y to x^y, and the lanes for the C library.
ADJOINT_INLINE f64 pow_finish(f64 x, f64 y, f64 r) {
  auto whole = floor(y) == y;
  auto odd = whole & (floor(y * 0.5) * 2 != y);
  r = (x < 0) & odd ? -r : r;
  auto hard = ~(is_positive_normal(abs(x)) & (abs(y) < 0x1p900) & ((x > 0) | whole));
  if (__builtin_expect(any(hard), 0)) r = patch_lanes<f64>(r, x, y, hard, pow_libm);
  return r;
}

ADJOINT_INLINE f64 pow(f64 x, f64 y) {
  auto l = log_twice(abs(x));
  auto p = two_product(l.hi, y);
  f64 lo = abs(p.hi) < 1000.0 ? p.lo + l.lo * y : f64{};
  auto e = exp_parts(at_least(at_most(p.hi, 711.0), -747.0));
  return pow_finish(x, y, scale_any(1 + (e.q + lo * (1 + e.q)), e.t));
}

// For x and y that came from float32.
ADJOINT_INLINE f64 pow_of_float(f64 x, f64 y) {
  auto e = exp_parts(at_least(at_most(y * log_normal(abs(x)), 700.0), -700.0));
  return pow_finish(x, y, scale_normal(1 + e.q, e.t));
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
