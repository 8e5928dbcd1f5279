// erf, erfc, and the normal distribution's integral as gelu uses it.
//
// Near zero (below 1 for erf, 1/2 for erfc, where 1 - erf would cancel), erf(x) = x + x (2/sqrt(pi)
// - 1 + z P(z)), z = x^2. Beyond, erfc(a) = exp(-a^2) erfcx(a), where (1 + 2a) erfcx(a) is smooth
// on the whole half-line and a polynomial in (a - K)/(a + K). The square is split into two numbers,
// because exp would turn its rounding into hundreds of ulp.
#pragma once
#include "math_exp.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V>
struct ErfTable;
template <>
struct ErfTable<f32> {
  static constexpr float k = 2.5f;
  static constexpr float last = 10.2f;       // erfc is 0 from here
  static constexpr float last_erf = 4.5f;    // erf is 1 from here
  static constexpr float last_tail = 14.5f;  // exp(-x^2/2) is 0 from here
  static constexpr float small[] = {-0.37612617f, 0.11282941f, -0.0267631318f, 0.00472777896f};
  static constexpr float near[] = {-0.376126379f,  0.112837695f,     -0.0268645436f,
                                   0.00521831913f, -0.000844263006f, 0.000109566507f,
                                   -8.76911599e-6f};
  static constexpr float tail[] = {
      1.26483822f,   -0.122356772f,   -0.0990243703f,  0.157630309f,    -0.102970675f,
      0.0327554233f, 0.000958491757f, -0.00434806431f, 0.000411329704f, 0.000533997256f};
};
template <>
struct ErfTable<f64> {
  static constexpr double k = 3.5;
  static constexpr double last = 27.3, last_erf = 6.5, last_tail = 38.7;
  static constexpr double small[] = {
      -0.37612638903183754,    0.11283791670955211,    -0.026866170645131558,
      0.005223977624561248,    -0.000854832678766717,  0.00012055303990694863,
      -1.4923672022939749e-05, 1.6384834768595886e-06, -1.4736502647075358e-07};
  static constexpr double near[] = {
      -0.3761263890318375,     0.11283791670954847,    -0.02686617064507721,
      0.005223977624921539,    -0.0008548326992668022, 0.00012055331739076441,
      -1.4925614431357874e-05, 1.6461363512157065e-06, -1.6354654457598864e-07,
      1.4691728669970925e-08,  -1.150511038355828e-09, 6.1930099887081e-11};
  static constexpr double tail[] = {
      1.2423492448711544,      -0.14000918013762023,   -0.010555596332222195,
      0.097519095153361,       -0.11508959815995515,   0.0879831538210608,
      -0.048823325833444495,   0.019099331007266213,   -0.0042150198422352065,
      -0.00030226848574589177, 0.0005643839744828585,  -0.00012150898898254675,
      -4.2780414516731195e-05, 2.424878751969109e-05,  2.323714338153795e-06,
      -3.787244677008487e-06,  -3.722828167644669e-08, 5.629671768476751e-07,
      -1.3843491861575002e-08, -6.449271748171265e-08, 2.6912763068000507e-09,
      1.0184095770350445e-09};
};

inline constexpr double kTwoOverSqrtPi = 1.12837916709551257390, kSqrtHalf = 0.70710678118654752440,
                        kInvSqrt2Pi = 0.39894228040143267794;

// erfcx(a) = exp(a^2) erfc(a) for a >= 1/2.
template <class V>
ADJOINT_INLINE V erfcx(V a) {
  using C = ErfTable<V>;
  V q = (a - C::k) / (a + C::k);
  return poly(q, C::tail) / (1 + 2 * a);
}

// exp(-x^2 * factor) for a factor of 1 or 1/2, as parts.
template <class V>
ADJOINT_INLINE ExpParts<V> exp_of_square(V x, ScalarOf<V> factor) {
  auto square = two_product(x, x);
  auto e = exp_parts(-factor * square.hi);
  V lo = factor * square.lo;
  return {e.t, e.q - lo * (1 + e.q)};
}

template <class V>
ADJOINT_INLINE V erf_small(V x) {
  using S = ScalarOf<V>;
  V z = x * x;
  return x + x * (S(kTwoOverSqrtPi - 1) + z * poly(z, ErfTable<V>::small));
}

template <class V>
ADJOINT_INLINE V erf(V x) {
  using S = ScalarOf<V>;
  V a = abs(x), z = a * a;
  V near = a + a * (S(kTwoOverSqrtPi - 1) + z * poly(z, ErfTable<V>::near));
  V b = at_most(a, ErfTable<V>::last_erf);
  auto e = exp_of_square(b, 1);
  V c = erfcx(b);
  V far = 1 - scale_normal(c + c * e.q, e.t);
  return with_sign_of(a >= 1 ? far : near, x);
}

template <class V>
ADJOINT_INLINE V erfc(V x) {
  V a = abs(x);
  V b = at_most(a, ErfTable<V>::last);
  auto e = exp_of_square(b, 1);
  V c = erfcx(b);
  V tail = scale_any(c + c * e.q, e.t);
  return a >= ScalarOf<V>(0.5) ? (x < 0 ? 2 - tail : tail) : 1 - erf_small(x);
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

// x Phi(x). Negative x multiplies the tail itself, so that nothing cancels, before the factor 2^n,
// so that nothing underflows early.
template <class V>
ADJOINT_INLINE V gelu(V x) {
  using S = ScalarOf<V>;
  V a = at_most(abs(x), ErfTable<V>::last_tail);
  auto n = normal_tail(a);
  V negative = scale_any(-a * n.tail, n.t);
  V positive = x - a * scale_any(n.tail, n.t);
  V near = x * (S(0.5) + S(0.5) * erf_small(x * S(kSqrtHalf)));
  return a >= S(0.7071068) ? (x < 0 ? negative : positive) : near;
}

// g (Phi(x) + x phi(x)).
template <class V>
ADJOINT_INLINE V gelu_grad(V g, V x) {
  using S = ScalarOf<V>;
  V a = at_most(abs(x), ErfTable<V>::last_tail);
  auto n = normal_tail(a);
  V density = scale_any(n.density, n.t);
  V far = scale_any(n.tail, n.t);
  V near = S(0.5) - S(0.5) * erf_small(a * S(kSqrtHalf));
  V d = (a >= S(0.7071068) ? far : near) - a * density;
  return g * (x < 0 ? d : 1 - d);
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
