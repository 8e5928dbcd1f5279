// The inverse of erf, after M. Giles: erfinv(x) / x is smooth in w = -log(1 - x^2), and in sqrt(w)
// for large w. float64 takes one step of Halley's method from there, which triples the digits.
#pragma once
#include "kernels/isa/math/basic.h"
#include "kernels/isa/math/erf.h"
#include "kernels/isa/math/log.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V>
struct ErfinvTable;
template <>
struct ErfinvTable<f32> {
  static constexpr float near_center = 3.125f, far_center = 3.0f;  // of w and of sqrt(w)
  static constexpr float near[] = {1.65365458f,      0.24015817f,     -0.00603368785f,
                                   -0.000740661868f, 0.00018675896f,  -1.39118038e-5f,
                                   -1.37841675e-6f,  4.32384581e-7f,  -2.60264059e-8f,
                                   -5.40029177e-9f,  7.22624793e-10f, 3.38886905e-11f};
  static constexpr float far[] = {2.83297682f,      1.00167525f,    0.00944483746f, -0.00764263049f,
                                  0.00569437398f,   -0.0035727378f, 0.00144563417f, -8.1247148e-5f,
                                  -0.000245663192f, 8.91719465e-5f};
};
template <>
struct ErfinvTable<f64> {
  static constexpr double near_center = 3, far_center = 4.25;
  static constexpr double near[] = {
      1.623542010004743,       0.24163039412756296,    -0.005738164761448205,
      -0.0008361575881097458,  0.00019510081057089667, -1.2733389348216152e-05,
      -1.7672206140293215e-06, 4.551949683564733e-07,  -1.945362942716013e-08,
      -6.273231720992996e-09,  6.760228636022842e-10,  3.384227139655921e-11};
  static constexpr double far[] = {4.092223895065875,      1.009979013035205,
                                   0.0007047849451426962,  -0.0006126355605789552,
                                   0.00023421641196205356, -5.764366665557921e-05,
                                   -2.175810299344817e-07, -1.2545469191544482e-05,
                                   1.5423048506954836e-05, -4.020445933608352e-06};
};

template <class V>
ADJOINT_INLINE V erfinv_guess(V a) {
  using C = ErfinvTable<V>;
  V w = -log((1 - a) * (1 + a));
  V far = poly(sqrt(w) - C::far_center, C::far);
  V near = poly(w - C::near_center, C::near);
  return a * (w < 6 ? near : far);
}

template <class V>
ADJOINT_INLINE V erfinv_limits(V x, V a, V r) {
  return with_sign_of(a == 1 ? splat<V>(kInf<V>) : r, x);
}

ADJOINT_INLINE f32 erfinv(f32 x) {
  f32 a = abs(x);
  return erfinv_limits(x, a, erfinv_guess(a));
}

// The step's numerator is erf(y) - a, or erfc(y) - (1 - a) where that keeps more digits, times
// e^(y^2).
ADJOINT_INLINE f64 erfinv(f64 x) {
  f64 a = abs(x), y = erfinv_guess(a);
  auto square = two_product(y, y);
  auto e = exp_parts(at_most(square.hi, 40.0));
  f64 grown = scale_normal(1 + (e.q + square.lo * (1 + e.q)), e.t);
  f64 z = square.hi;
  f64 erf_near = y + y * (kTwoOverSqrtPi - 1 + z * poly(z, ErfTable<f64>::near));
  f64 error = a < 0.75 ? (erf_near - a) * grown : (1 - a) * grown - erfcx(y);
  f64 u = error * (1 / kTwoOverSqrtPi);
  return erfinv_limits(x, a, y - u / (1 + y * u));
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
