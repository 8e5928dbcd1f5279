// sin, cos, tan.
//
// |x| = n pi/2 + r with r kept as a sum r + rest of two numbers, |r| <= pi/4; sin or cos of it by
// minimax polynomials, chosen and signed by n mod 4. The reduction subtracts n times three pieces
// of pi/2; beyond its range the C library (which has all the digits of pi) answers, lane by lane.
#pragma once
#include "kernels/isa/vec.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V>
struct TrigTable;
template <>
struct TrigTable<f32> {
  static constexpr float limit = 30000.0f;
  // 24 bits each, for fma; without it float32 is reduced in float64
  static constexpr float piece[] = {0x1.921fb6p+0f, -0x1.777a5cp-25f, -0x1.ee59dap-50f};
  static constexpr float sin[] = {-0.166666552f, 0.0083321901f, -0.000195184053f};
  static constexpr float cos[] = {0.0416666456f, -0.00138873095f, 2.44323273e-5f};
};
template <>
struct TrigTable<f64> {
  static constexpr double limit = 1.0e6;
  // 33 bits each: n below 2^20 times a piece is exact; the last has 53
  static constexpr double piece[] = {1.57079632673412561417e+00, 6.07710050630396597660e-11,
                                     2.02226624871116645580e-21, 8.47842766036889956997e-32};
  static constexpr double sin[] = {-0.16666666666666632,    0.008333333333322455,
                                   -0.00019841269829813413, 2.7557313687569823e-06,
                                   -2.5050756713397508e-08, 1.589668176457781e-10};
  static constexpr double cos[] = {0.041666666666666595,   -0.0013888888888873307,
                                   2.4801587288965227e-05, -2.7557314203077084e-07,
                                   2.087570313900495e-09,  -1.1358616962356878e-11};
};

template <class V>
struct Reduced {
  V r, rest;
  IntOf<V> n;  // the quadrant, in the low two bits
};

// 0 <= a <= limit. Each subtraction's rounding error is recovered: Sterbenz for the first, (a - b)
// - w after.
ADJOINT_INLINE Reduced<f64> reduce(f64 a) {
  using C = TrigTable<f64>;
  f64 t = a * 0.63661977236758134308 + kMagic<f64>;
  f64 n = t - kMagic<f64>;
  f64 r1 = a - n * C::piece[0];
  f64 w2 = n * C::piece[1];
  f64 r2 = r1 - w2;
  f64 e2 = (r1 - r2) - w2;
  f64 w3 = n * C::piece[2];
  f64 r3 = r2 - w3;
  f64 e3 = (r2 - r3) - w3;
  f64 lo = (e3 - n * C::piece[3]) + e2;
  f64 r = r3 + lo;
  return {r, (r3 - r) + lo, bits(t)};
}

#if ADJOINT_FMA
ADJOINT_INLINE Reduced<f32> reduce(f32 a) {
  using C = TrigTable<f32>;
  f32 t = a * 0.636619772f + kMagic<f32>;
  f32 n = t - kMagic<f32>;
  f32 r1 = minus_product(n, splat<f32>(C::piece[0]), a);  // exact: the difference fits
  auto w = two_product(n, splat<f32>(C::piece[1]));
  f32 r = r1 - w.hi;
  f32 rest = ((r1 - r) - w.hi) - (n * C::piece[2] + w.lo);
  return {r, rest, bits(t)};
}
#endif

template <class V>
ADJOINT_INLINE V sin_near_zero(const Reduced<V>& a, V z) {
  return a.r + (a.r * z * poly(z, TrigTable<V>::sin) + a.rest);
}
// 1 - z/2 with the rounding of that difference put back.
template <class V>
ADJOINT_INLINE V cos_near_zero(const Reduced<V>& a, V z) {
  V half = ScalarOf<V>(0.5) * z;
  V w = 1 - half;
  return w + (((1 - w) - half) + (z * z * poly(z, TrigTable<V>::cos) - a.r * a.rest));
}

// Sines and cosines of a turn by n quarters change sign where bit 1 of n is set; here it is the sign
// bit. What is below it is of no use: masked where it is put in, by one instruction for both.
template <class V>
ADJOINT_INLINE IntOf<V> turned_sign(IntOf<V> n) {
  return n << (kMantissa<V> == 23 ? 30 : 62);
}
template <class V>
ADJOINT_INLINE V flipped(V v, IntOf<V> sign) {
  return from_bits(bits(v) ^ (sign & kSignBit<V>));
}

// sin(|x| + quarter*pi/2) with the sign bit of `sign` flipped in.
template <class V>
ADJOINT_INLINE V sin_shifted(V magnitude, int quarter, IntOf<V> sign) {
  auto a = reduce(magnitude);
  V z = a.r * a.r;
  IntOf<V> n = wrapping_add(a.n, IntOf<V>{} + quarter);
  V v = (n & 1) != 0 ? cos_near_zero(a, z) : sin_near_zero(a, z);
  return flipped(v, turned_sign<V>(n) ^ sign);
}

template <class V>
ADJOINT_INLINE IntOf<V> beyond_reduction(V x) {
  return ~(abs(x) <= TrigTable<V>::limit);
}

static inline float sin_libm(float x) { return static_cast<float>(__builtin_sin(x)); }
static inline double sin_libm(double x) { return __builtin_sin(x); }
static inline float cos_libm(float x) { return static_cast<float>(__builtin_cos(x)); }
static inline double cos_libm(double x) { return __builtin_cos(x); }
static inline float tan_libm(float x) { return static_cast<float>(__builtin_tan(x)); }
static inline double tan_libm(double x) { return __builtin_tan(x); }

template <class V>
ADJOINT_INLINE V sin(V x);
template <class V>
ADJOINT_INLINE V cos(V x);
template <class V>
ADJOINT_INLINE V tan(V x);

template <class V>
ADJOINT_INLINE V sin(V x) {
#if !ADJOINT_FMA
  if constexpr (sizeof(ScalarOf<V>) == 4)
    return in_f64(x, [](f64 a) { return sin(a); });
  else
#endif
  {
    V r = sin_shifted(abs(x), 0, bits(x));
    auto far = beyond_reduction(x);
    if (__builtin_expect(any(far), 0)) r = patch_lanes<V>(r, x, far, sin_libm);
    return r;
  }
}

template <class V>
ADJOINT_INLINE V cos(V x) {
#if !ADJOINT_FMA
  if constexpr (sizeof(ScalarOf<V>) == 4)
    return in_f64(x, [](f64 a) { return cos(a); });
  else
#endif
  {
    V r = sin_shifted(abs(x), 1, IntOf<V>{});
    auto far = beyond_reduction(x);
    if (__builtin_expect(any(far), 0)) r = patch_lanes<V>(r, x, far, cos_libm);
    return r;
  }
}

template <class V>
ADJOINT_INLINE V tan(V x) {
#if !ADJOINT_FMA
  if constexpr (sizeof(ScalarOf<V>) == 4)
    return in_f64(x, [](f64 a) { return tan(a); });
  else
#endif
  {
    auto a = reduce(abs(x));
    V z = a.r * a.r;
    V s = sin_near_zero(a, z), c = cos_near_zero(a, z);
    auto odd = (a.n & 1) != 0;
    V r = (odd ? -c : s) / (odd ? s : c);
    r = from_bits(bits(r) ^ sign_bit(x));
    auto far = beyond_reduction(x);
    if (__builtin_expect(any(far), 0)) r = patch_lanes<V>(r, x, far, tan_libm);
    return r;
  }
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
