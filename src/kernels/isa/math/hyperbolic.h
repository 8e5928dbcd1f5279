// Hyperbolic functions and their inverses.
#pragma once
#include "kernels/isa/math/basic.h"
#include "kernels/isa/math/exp.h"
#include "kernels/isa/math/log.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V>
struct TanhTable;
template <>
struct TanhTable<f32> {
  static constexpr float small = 0.65f, saturated = 10.0f;
  static constexpr float p[] = {-0.333333284f, 0.133331105f,    -0.0539348498f,
                                0.0216367561f, -0.00802322943f, 0.00200582575f};
};
template <>
struct TanhTable<f64> {
  static constexpr double small = 0.6, saturated = 20.0;
  static constexpr double p[] = {
      -0.3333333333333313,     0.1333333333330052,    -0.0539682539510287,    0.02186948807867513,
      -0.00886322822874642,    0.0035920523959179045, -0.0014553077766649618, 0.0005875370167894962,
      -0.00023118876419190123, 8.030951338172886e-05, -1.7711131726712526e-05};
};

// a + a^3 p(a^2) near zero, 1 - 2/(e^2a + 1) elsewhere: there the fraction is below 1/2, and so is
// what its rounding errors weigh. NaN takes the first form, where it survives.
template <class V>
ADJOINT_INLINE V tanh(V x) {
  using C = TanhTable<V>;
  V a = abs(x);
  V z = a * a;
  V near = a + a * (z * poly(z, C::p));
  V b = at_most(a, C::saturated);
  auto e = exp_parts_plain(b + b);
  V far = 1 - 2 / (scale_normal(1 + e.q, e.t) + 1);
  return with_sign_of(a >= C::small ? far : near, x);
}

template <class V>
struct SinhTable;
template <>
struct SinhTable<f32> {
  static constexpr float last = 89.5f;  // half of e^x overflows at 89.42
  static constexpr float p[] = {0.166666672f, 0.00833330676f, 0.000198438473f, 2.77634354e-6f};
};
template <>
struct SinhTable<f64> {
  static constexpr double last = 710.6;  // 710.48
  static constexpr double p[] = {
      0.16666666666666669,  0.008333333333332915,  0.0001984126984158925, 2.7557319108482654e-06,
      2.50521306759092e-08, 1.605668709759106e-10, 7.775690439968878e-13};
};

// e^|x| / 2, which overflows only where sinh and cosh do.
template <class V>
ADJOINT_INLINE V half_exp(V a) {
  auto e = exp_parts(at_most(a, SinhTable<V>::last));
  V s = exp2_of_magic(e.t - 2);  // n may be one more than the largest exponent
  return (s + s * e.q) * 2;
}

template <class V>
ADJOINT_INLINE V sinh(V x) {
  V a = abs(x), z = x * x;
  V near = a + a * (z * poly(z, SinhTable<V>::p));
  V h = half_exp(a);
  V far = h - ScalarOf<V>(0.25) / h;
  return with_sign_of(a >= 1 ? far : near, x);
}

template <class V>
ADJOINT_INLINE V cosh(V x) {
  V h = half_exp(abs(x));
  V r = h + ScalarOf<V>(0.25) / h;
  return x != x ? x : r;
}

// Above kBigArc the square root adds nothing to log(2a), and a^2 is still finite.
template <class V>
inline constexpr ScalarOf<V> kBigArc = sizeof(ScalarOf<V>) == 4 ? 0x1p14 : 0x1p28;

template <class V>
ADJOINT_INLINE V asinh(V x) {
  V a = abs(x);
  auto big = a > kBigArc<V>;
  V s = at_most(a, kBigArc<V>);
  V z = s * s;
  V r = log1p(big ? a - 1 : s + z / (1 + sqrt(1 + z))) + (big ? splat<V>(ScalarOf<V>(kLn2)) : V{});
  return with_sign_of(r, x);
}

template <class V>
ADJOINT_INLINE V acosh(V x) {
  auto big = x > kBigArc<V>;
  V t = at_most(x, kBigArc<V>) - 1;
  V r = log1p(big ? x - 1 : t + sqrt(t * (t + 2))) + (big ? splat<V>(ScalarOf<V>(kLn2)) : V{});
  return x < 1 ? splat<V>(kNaN<V>) : r;
}

template <class V>
ADJOINT_INLINE V atanh(V x) {
  V a = abs(x);
  return with_sign_of(ScalarOf<V>(0.5) * log1p((a + a) / (1 - a)), x);
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
