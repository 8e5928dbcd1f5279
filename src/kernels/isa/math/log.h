// log, log2, log10, log1p.
//
// x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f):
//   log(m) = f - f^2/2 + s (f^2/2 + R(s^2)),  R from 2 atanh(s) = 2s + s R,
// which keeps f, exact, as the leading term (K. C. Ng's arrangement).
#pragma once
#include "kernels/isa/vec.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V>
struct LogTable;
template <>
struct LogTable<f32> {
  static constexpr float ln2_hi = 0.693359375f, ln2_lo = -2.12194440e-4f;
  static constexpr float smallest = 0x1p-126f, up = 0x1p24f, up_log2 = 24.0f;
  static constexpr float r[] = {0.666667819f, 0.399767905f, 0.298935264f};
};
template <>
struct LogTable<f64> {
  static constexpr double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;
  static constexpr double smallest = 0x1p-1022, up = 0x1p54, up_log2 = 54.0;
  static constexpr double r[] = {0.666666666666671,   0.3999999999953971,  0.2857142871956016,
                                 0.22222200580405774, 0.18183472511085033, 0.1531615587113028,
                                 0.14776824673494676};
};

// x = 2^k m for normal x > 0.
ADJOINT_INLINE f32 split_exponent(f32 x, f32& m) {
  i32 k = wrapping_add(bits(x), i32{} - 0x3f3504f3) >> 23;  // 0x3f3504f3 is sqrt(1/2)
  m = from_bits((i32)((u32)bits(x) - (u32)(k << 23)));
  return __builtin_convertvector(k, f32);
}
// AVX2 has neither an arithmetic shift nor a conversion of 64-bit integers: k + 1023 is kept
// positive and becomes a double by setting the exponent of 2^52 above it.
ADJOINT_INLINE f64 split_exponent(f64 x, f64& m) {
  constexpr uint64_t one = 0x3ff0000000000000, sqrt_half = 0x3fe6a09e667f3bcd,
                     exponent = 0xfff0000000000000;
  u64 shifted = (u64)bits(x) + (one - sqrt_half);
  m = from_bits((i64)((u64)bits(x) - (shifted & exponent) + one));
  return from_bits((i64)((shifted >> 52) | 0x4330000000000000)) - (0x1p52 + 1023);
}

// log(1 + f + c) + k ln 2, c a small correction of f.
template <class V>
ADJOINT_INLINE V log_parts(V f, V k, V c) {
  using C = LogTable<V>;
  V s = f / (2 + f);
  V z = s * s;
  V half_square = ScalarOf<V>(0.5) * f * f;
  V r = z * poly(z, C::r);
  return k * C::ln2_hi - ((half_square - (s * (half_square + r) + (k * C::ln2_lo + c))) - f);
}

template <class V>
ADJOINT_INLINE V log_normal(V x) {
  V m;
  V k = split_exponent(x, m);
  return log_parts(m - 1, k, V{});
}

template <class V>
ADJOINT_INLINE IntOf<V> is_positive_normal(V x) {
  return (x >= LogTable<V>::smallest) & (x < kInf<V>);
}

// Zero, negative numbers, infinities and NaN, given the function's value elsewhere.
template <class V>
ADJOINT_INLINE V log_limits(V x, V r) {
  r = x == 0 ? splat<V>(-kInf<V>) : r;
  r = x < 0 ? splat<V>(kNaN<V>) : r;
  return ((x == kInf<V>) | (x != x)) ? x : r;
}

template <class V>
__attribute__((noinline)) static V log_extreme(V x) {
  using C = LogTable<V>;
  auto tiny = x < C::smallest;
  V m;
  V k = split_exponent(tiny ? x * C::up : x, m);
  return log_limits(x, log_parts(m - 1, tiny ? k - C::up_log2 : k, V{}));
}

template <class V>
ADJOINT_INLINE V log(V x) {
  if (__builtin_expect(any(~is_positive_normal(x)), 0)) return log_extreme(x);
  return log_normal(x);
}

// Another base B: log_B(m) = hi*inv_hi + ..., hi the leading half of the bits of f - f^2/2, so that
// the product with a short inv_hi = 1/ln(B) is exact; k log_B(2) likewise in two pieces.
template <class V>
struct Base2;
template <class V>
struct Base10;
template <>
struct Base2<f64> {
  static constexpr double inv_hi = 1.44269504072144627571e+00, inv_lo = 1.67517131648865118353e-10;
  static constexpr double two_hi = 1, two_lo = 0;
};
template <>
struct Base10<f64> {
  static constexpr double inv_hi = 4.34294481878168880939e-01, inv_lo = 2.50829467116452752298e-11;
  static constexpr double two_hi = 3.01029995663611771306e-01, two_lo = 3.69423907715893078616e-13;
};
template <>
struct Base2<f32> {
  static constexpr float inv_hi = 1.4428710938f, inv_lo = -1.7605285393e-04f;
  static constexpr float two_hi = 1, two_lo = 0;
};
template <>
struct Base10<f32> {
  static constexpr float inv_hi = 4.3432617188e-01f, inv_lo = -3.1689971365e-05f;
  static constexpr float two_hi = 3.0102920532e-01f, two_lo = 7.9034151668e-07f;
};

template <class B, class V>
ADJOINT_INLINE V log_in_base(V x) {
  using C = LogTable<V>;
  auto tiny = x < C::smallest;
  V m;
  V k = split_exponent(tiny ? x * C::up : x, m);
  k = tiny ? k - C::up_log2 : k;
  V f = m - 1;
  V s = f / (2 + f);
  V z = s * s;
  V half_square = ScalarOf<V>(0.5) * f * f;
  V r = z * poly(z, C::r);
  V hi = from_bits(bits(f - half_square) & (sizeof(ScalarOf<V>) == 4 ? -0x1000 : -0x100000000));
  V lo = ((f - hi) - half_square) + s * (half_square + r);
  V y = k * B::two_hi;
  V v_hi = hi * B::inv_hi;
  V v_lo = k * B::two_lo + ((lo + hi) * B::inv_lo + lo * B::inv_hi);
  V w = y + v_hi;
  v_lo += (y - w) + v_hi;
  return log_limits(x, v_lo + w);
}
template <class V>
ADJOINT_INLINE V log2(V x) {
  return log_in_base<Base2<V>>(x);
}
template <class V>
ADJOINT_INLINE V log10(V x) {
  return log_in_base<Base10<V>>(x);
}

// log(1 + x): u = 1 + x rounded, and what the rounding lost as the correction c. Where u needs no
// shift of the exponent, f is x itself.
template <class V>
ADJOINT_INLINE V log1p(V x) {
  V u = 1 + x;
  V m;
  V k = split_exponent(u, m);
  V lost = x < 1 ? x - (u - 1) : 1 - (u - x);
  V c = lost / u;
  auto whole = k == 0;
  V r = log_parts(whole ? x : m - 1, k, whole ? V{} : c);
  r = abs(x) < ScalarOf<V>(0x1p-54) ? x : r;  // keeps -0 and denormals
  r = x == -1 ? splat<V>(-kInf<V>) : r;
  r = x < -1 ? splat<V>(kNaN<V>) : r;
  return ((x == kInf<V>) | (x != x)) ? x : r;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
