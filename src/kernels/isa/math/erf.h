// erf, erfc, and the normal distribution's integral as gelu uses it.
//
// erfc(a) = exp(-a^2) erfcx(a) for a >= 0, where (a + K) erfcx(a) is smooth on the whole half-line
// and a polynomial in (a - K)/(a + K); K is such that the leading coefficients are almost
// representable. Below 1, erf(x) = x + x (2/sqrt(pi) - 1 + z P(z)), z = x^2, instead. The square is
// split into two numbers, because exp would turn its rounding into hundreds of ulp.
#pragma once
#include "kernels/isa/math/exp.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V>
struct ErfTable;
template <>
struct ErfTable<f32> {
  static constexpr float k = 2.06640625f;
  static constexpr float last = 10.2f;         // erfc is 0 from here
  static constexpr float last_erf = 4.5f;      // erf is 1 from here
  static constexpr float last_tail = 14.5f;    // exp(-x^2/2) is 0 from here
  static constexpr float normal = 9.0f;        // below, erfc is a normal number
  static constexpr float normal_tail = 12.5f;  // and so is exp(-x^2/2)
  static constexpr float near[] = {-0.376126379f,  0.112837695f,     -0.0268645436f,
                                   0.00521831913f, -0.000844263006f, 0.000109566507f,
                                   -8.76911599e-6f};
  static constexpr float tail[] = {1.02693629f,     -0.705722034f,   0.304811805f,
                                   -0.0527892783f,  -0.0183136966f,  0.00849717017f,
                                   0.0022628929f,   -0.00122692087f, -0.000478727859f,
                                   0.000131524372f, 7.81506096e-5f};
};
template <>
struct ErfTable<f64> {
  static constexpr double k = 2.796875;
  static constexpr double last = 27.3, last_erf = 6.5, last_tail = 38.7;
  static constexpr double normal = 26.4, normal_tail = 37.4;
  static constexpr double near[] = {
      -0.3761263890318375,     0.11283791670954847,    -0.02686617064507721,
      0.005223977624921539,    -0.0008548326992668022, 0.00012055331739076441,
      -1.4925614431357874e-05, 1.6461363512157065e-06, -1.6354654457598864e-07,
      1.4691728669970925e-08,  -1.150511038355828e-09, 6.1930099887081e-11};
  static constexpr double tail[] = {
      1.0669554766587948,     -0.8549941964690138,    0.5391944988410554,
      -0.2550323079377567,    0.0793946476013863,     -0.008127990022670619,
      -0.0052942731721570425, 0.002082105487267045,   0.000301873942674866,
      -0.0003118533129254582, -2.360247573293732e-05, 4.8409594123535054e-05,
      4.906555202203346e-06,  -8.01018295172577e-06,  -1.643966940984613e-06,
      1.2902061653935126e-06, 5.227807643916464e-07,  -1.6322289007115125e-07,
      -1.402173653668864e-07, 3.5637213334239703e-09, 2.8470778713150962e-08,
      5.192767433468107e-09,  -3.245374886754385e-09, -1.1227509609778567e-09};
};

inline constexpr double kTwoOverSqrtPi = 1.12837916709551257390, kSqrtHalf = 0.70710678118654752440,
                        kInvSqrt2Pi = 0.39894228040143267794;

// exp(a^2) erfc(a) for a >= 0.
template <class V>
ADJOINT_INLINE V erfcx(V a) {
  using C = ErfTable<V>;
  V d = a + C::k;
  V inverse = 1 / d;
  // what a + K and the quotient lost, relative to the result
#if ADJOINT_FMA
  V lost = minus_product(inverse, d, splat<V>(1)) - inverse * (a - (d - C::k));
#else
  V lost = -inverse * (a - (d - C::k));
#endif
  V v = poly_careful((a - C::k) * inverse, C::tail) * inverse;
  return v + v * lost;
}

// exp(-x^2 * factor) for a factor of 1 or 1/2, as parts.
template <class V>
ADJOINT_INLINE ExpParts<V> exp_of_square(V x, ScalarOf<V> factor) {
  auto square = two_product(x, x);
  auto e = exp_parts(-factor * square.hi);
  V lo = factor * square.lo;
  return {e.t, e.q - lo * (1 + e.q)};
}

// NaN takes the first form, where it survives.
template <class V>
ADJOINT_INLINE V erf(V x) {
  V a = abs(x), z = a * a;
  V near = a + a * (ScalarOf<V>(kTwoOverSqrtPi - 1) + z * poly(z, ErfTable<V>::near));
  V b = at_most(a, ErfTable<V>::last_erf);
  auto e = exp_of_square(b, 1);
  V c = erfcx(b);
  V far = 1 - scale_normal(c + c * e.q, e.t);
  return with_sign_of(a >= 1 ? far : near, x);
}

template <Scale How, class V>
ADJOINT_INLINE V erfc_scaled(V x) {
  V a = abs(x);
  V b = at_most(a, ErfTable<V>::last);
  auto e = exp_of_square(b, 1);
  V c = erfcx(b);
  V tail = scale<How>(c + c * e.q, e.t);
  V z = a * a;
  V near = x + x * (ScalarOf<V>(kTwoOverSqrtPi - 1) + z * poly(z, ErfTable<V>::near));
  return a < ScalarOf<V>(0.5) ? 1 - near : x < 0 ? 2 - tail : tail;
}
template <class V>
__attribute__((noinline)) static V erfc_extreme(V x) {
  return erfc_scaled<Scale::Any>(x);
}
template <class V>
ADJOINT_INLINE V erfc(V x) {
  auto plain = abs(x) <= ErfTable<V>::normal;  // false for NaN
  if (__builtin_expect(any(~plain), 0)) return erfc_extreme(x);
  return erfc_scaled<Scale::Normal>(x);
}

// 1 - Phi(a) = erfc(a/sqrt(2))/2 and the density at a, for a = |x|, without the factor 2^n.
template <class V>
struct NormalTail {
  V tail, density, t;
};
template <class V>
ADJOINT_INLINE NormalTail<V> normal_tail(V a) {
  using S = ScalarOf<V>;
  auto e = exp_of_square(a, S(0.5));
  V c = S(0.5) * erfcx(a * S(kSqrtHalf));
  V k = splat<V>(S(kInvSqrt2Pi));
  return {c + c * e.q, k + k * e.q, e.t};
}

// x Phi(x) = max(x, 0) - |x| (1 - Phi(|x|)): nothing cancels for negative x, and the product is
// formed before the factor 2^n, so that nothing underflows early.
template <Scale How, class V>
ADJOINT_INLINE V gelu_scaled(V x) {
  V a = at_most(abs(x), ErfTable<V>::last_tail);
  auto n = normal_tail(a);
  V v = scale<How>(a * n.tail, n.t);
  return x < 0 ? -v : x - v;
}
template <class V>
__attribute__((noinline)) static V gelu_extreme(V x) {
  return gelu_scaled<Scale::Any>(x);
}
template <class V>
ADJOINT_INLINE V gelu(V x) {
  using S = ScalarOf<V>;
  const V a = abs(x);
  if (__builtin_expect(any_above(a, ErfTable<V>::normal_tail) || any_above(-a, -S(1e-10)), 0))
    return gelu_extreme(x);
  return gelu_scaled<Scale::Normal>(x);
}

// Phi(x) + x phi(x).
template <Scale How, class V>
ADJOINT_INLINE V gelu_slope(V x) {
  V a = at_most(abs(x), ErfTable<V>::last_tail);
  auto n = normal_tail(a);
  V d = scale<How>(n.tail, n.t) - a * scale<How>(n.density, n.t);
  return x < 0 ? d : 1 - d;
}
template <class V>
__attribute__((noinline)) static V gelu_slope_extreme(V x) {
  // Compilers fuse other products in the second form: each element takes its own, whatever is
  // beside it.
  return abs(x) <= ErfTable<V>::normal_tail ? gelu_slope<Scale::Normal>(x)
                                            : gelu_slope<Scale::Any>(x);
}
template <class V>
ADJOINT_INLINE V gelu_grad(V g, V x) {
  if (__builtin_expect(any_above(abs(x), ErfTable<V>::normal_tail), 0))
    return g * gelu_slope_extreme(x);
  return g * gelu_slope<Scale::Normal>(x);
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
