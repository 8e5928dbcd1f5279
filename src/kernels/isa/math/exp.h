// exp and what is made of it: exp2, expm1, sigmoid.
//
// exp(x) = 2^n * (1 + q(r)), n = round(x / ln 2), r = x - n*ln2 in two pieces of which the first
// has so few bits that n times it is exact, q(r) = r + r^2*p(r) a minimax polynomial. Measured
// errors stand in docs/reference/accuracy.md.
#pragma once
#include "kernels/isa/vec.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V>
struct ExpTable;
template <>
struct ExpTable<f32> {
  static constexpr float ln2_hi = 0.693359375f, ln2_lo = -2.12194440e-4f;
  // |x| below `safe` neither overflows nor leaves the normal numbers; outside [lowest, highest] the
  // result is 0 or inf.
  static constexpr float safe = 87.0f, lowest = -104.0f, highest = 89.0f;
  static constexpr float safe2 = 125.0f, lowest2 = -151.0f, highest2 = 129.0f;  // for exp2
  static constexpr float p[] = {0.49999994f, 0.166665167f, 0.0416681059f, 0.00836913101f,
                                0.00138364243f};
};
template <>
struct ExpTable<f64> {
  static constexpr double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;
  static constexpr double safe = 708.0, lowest = -746.0, highest = 710.0;
  static constexpr double safe2 = 1021.0, lowest2 = -1076.0, highest2 = 1025.0;
  static constexpr double p[] = {
      0.500000000000001,      0.1666666666666542,     0.04166666666654792,   0.008333333334200839,
      0.001388888893883193,   0.00019841267928290233, 2.480149729304832e-05, 2.755899695153809e-06,
      2.7629101543614417e-07, 2.4559663354439697e-08};
};

inline constexpr double kLog2e = 1.44269504088896340736, kLn2 = 0.69314718055994530942;

// e^x = 2^n (1 + q), with t = n + kMagic.
template <class V>
struct ExpParts {
  V t, q;
};

template <class V>
ADJOINT_INLINE ExpParts<V> exp_parts(V x) {
  using S = ScalarOf<V>;
  using C = ExpTable<V>;
  V t = x * S(kLog2e) + kMagic<V>;
  V n = t - kMagic<V>;
  V r_hi = x - n * C::ln2_hi;
  V r = r_hi - n * C::ln2_lo;
  V rest = (r_hi - r) - n * C::ln2_lo;
  return {t, (r * r * poly(r, C::p) + rest) + r};
}

// Without what the rounding of r lost, a quarter of an ulp of the result: for what weighs it less.
template <class V>
ADJOINT_INLINE ExpParts<V> exp_parts_plain(V x) {
  using C = ExpTable<V>;
  V t = x * ScalarOf<V>(kLog2e) + kMagic<V>;
  V n = t - kMagic<V>;
  V r = (x - n * C::ln2_hi) - n * C::ln2_lo;
  return {t, r * r * poly(r, C::p) + r};
}

// 2^x likewise: r = (x - n) ln 2, with the rounding of that product carried along in float64.
template <class V>
ADJOINT_INLINE ExpParts<V> exp2_parts(V x) {
  using S = ScalarOf<V>;
  V t = x + kMagic<V>;
  V u = x - (t - kMagic<V>);
  // ln 2 in two pieces, the first short, so that the leading product is exact with or without fma
  constexpr S hi = sizeof(S) == 4 ? S(0.693359375) : S(0x1.62e42fcp-1), lo = S(kLn2 - double(hi));
  V u_hi = from_bits(bits(u) & (sizeof(S) == 4 ? -0x1000 : -0x8000000));
  V r_hi = u_hi * hi, r_lo = (u - u_hi) * hi + u * lo;
  V r = r_hi + r_lo;
  V rest = (r_hi - r) + r_lo;
  return {t, (r * r * poly(r, ExpTable<V>::p) + rest) + r};
}

// 2^n s in two steps, so that n may be beyond the exponents and denormal results are rounded once.
template <class V>
ADJOINT_INLINE V scale_any(V s, V t) {
  V half = (t - kMagic<V>)*ScalarOf<V>(0.5) + kMagic<V>;
  V rest = (t - half) + kMagic<V>;
  return s * exp2_of_magic(half) * exp2_of_magic(rest);
}

// The second form is right only where s and the result are normal numbers; NaN may not survive it.
enum class Scale { Any, Normal };
template <Scale How, class V>
ADJOINT_INLINE V scale(V s, V t) {
  if constexpr (How == Scale::Any)
    return scale_any(s, t);
  else
    return scale_normal(s, t);
}

// Overflow, underflow, infinities and NaN.
template <class V>
__attribute__((noinline)) static V exp_extreme(V x) {
  using C = ExpTable<V>;
  auto e = exp_parts(at_least(at_most(x, C::highest), C::lowest));
  return scale_any(1 + e.q, e.t);
}
template <class V>
__attribute__((noinline)) static V exp2_extreme(V x) {
  using C = ExpTable<V>;
  auto e = exp2_parts(at_least(at_most(x, C::highest2), C::lowest2));
  return scale_any(1 + e.q, e.t);
}

template <class V>
ADJOINT_INLINE V exp(V x) {
  if (__builtin_expect(any_above(abs(x), ExpTable<V>::safe), 0)) return exp_extreme(x);
  auto e = exp_parts(x);
  return scale_normal(1 + e.q, e.t);
}

template <class V>
ADJOINT_INLINE V exp2(V x) {
  if (__builtin_expect(any_above(abs(x), ExpTable<V>::safe2), 0)) return exp2_extreme(x);
  auto e = exp2_parts(x);
  return scale_normal(1 + e.q, e.t);
}

// 2^n q + (2^n - 1), halved throughout because 2^n itself may overflow where the result does not.
template <class V>
ADJOINT_INLINE V expm1(V x) {
  using S = ScalarOf<V>;
  V c = at_least(at_most(x, ExpTable<V>::highest), S(-kMantissa<V> - 3));
  auto e = exp_parts(c);
  V s = exp2_of_magic(e.t - 1);
  V r = 2 * (e.q * s + (s - S(0.5)));
  return abs(x) < S(1e-30) ? x : r;  // keeps -0 and denormals
}

// e^-a for a >= 0. Where one number of a vector is extreme the others keep their bits: both ways
// have the same parts, and factors of two are exact among normal numbers.
template <class V>
__attribute__((noinline)) static V exp_of_minus_extreme(V a) {
  auto e = exp_parts_plain(at_least(-a, ExpTable<V>::lowest));
  return scale_any(1 + e.q, e.t);
}
template <class V>
ADJOINT_INLINE V exp_of_minus(V a) {
  if (__builtin_expect(any_above(a, ExpTable<V>::safe), 0)) return exp_of_minus_extreme(a);
  auto e = exp_parts_plain(-a);
  return scale_normal(1 + e.q, e.t);
}

// 1 / (1 + e^-x) as 1/d or e/d with e = exp(-|x|) <= 1; one step of correction takes the rounding
// of d = 1 + e and of the quotient back out.
template <class V>
ADJOINT_INLINE V sigmoid(V x) {
  V e = exp_of_minus(abs(x));
  V d = 1 + e;
  V d_rest = e - (d - 1);
  V inverse = 1 / d;
  V top = x < 0 ? e : splat<V>(1);
  V q = top * inverse;
#if ADJOINT_FMA
  V rest = minus_product(q, d, top) - q * d_rest;
#else
  auto back = two_product(q, d);
  V rest = ((top - back.hi) - back.lo) - q * d_rest;
#endif
  return q + rest * inverse;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
