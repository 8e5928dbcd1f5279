// asin, acos, atan, atan2, hypot.
#pragma once
#include "kernels/isa/math/basic.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

inline constexpr double kPi = 3.14159265358979323846, kPiRest = 1.2246467991473532e-16;

template <class V>
struct ArcTable;
template <>
struct ArcTable<f32> {
  static constexpr float asin[] = {0.166667312f, 0.074959375f, 0.0454052351f, 0.0244531184f,
                                   0.04175888f};
  static constexpr float atan[] = {-0.333333164f, 0.199985296f, -0.142444223f, 0.105993569f,
                                   -0.0609035492f};
  static constexpr float pi = 0x1.921fb6p+1f, pi_rest = -0x1.777a5cp-24f;
  static constexpr float quarter = 0x1.921fb0p-1f, quarter_rest = 0x1.5110b4p-23f;
  static constexpr float most = 0x1p126f, least = 0x1p-100f;
};
template <>
struct ArcTable<f64> {
  static constexpr double asin[] = {
      0.16666666666666763,  0.07499999999970063,  0.04464285716891839,  0.0303819433252308,
      0.022372188840019555, 0.01735221413546436,  0.01397230156180716,  0.011477229039554957,
      0.010302426581060814, 0.005629161774242906, 0.016799189772333512, -0.013792491366132168,
      0.027991705158901054};
  static constexpr double atan[] = {
      -0.333333333333332,   0.19999999999953766, -0.14285714280212072, 0.11111110784143911,
      -0.09090897775113672, 0.07692060486009222, -0.06663106705129676, 0.05847905545667016,
      -0.05039364122988956, 0.0380657278710581,  -0.01790812243058358};
  static constexpr double pi = kPi, pi_rest = kPiRest;
  // pi/4 with its last bits zero, so that three times it is exact
  static constexpr double quarter = 0x1.921fb54442d00p-1, quarter_rest = 0x1.8469898cc5170p-49;
  static constexpr double most = 0x1p1022, least = 0x1p-1000;
};

// asin(s) = s + s z P(z), z = s^2 <= 1/4; above 1/2 the half-angle form pi/2 - 2
// asin(sqrt((1-a)/2)).
template <class V>
struct ArcParts {
  V s, more;         // asin(s) = s + more
  IntOf<V> outside;  // |x| > 1/2
};
template <class V>
ADJOINT_INLINE ArcParts<V> arc_parts(V a) {
  using S = ScalarOf<V>;
  auto outside = a > S(0.5);
  V z = outside ? (1 - a) * S(0.5) : a * a;
  V s = outside ? sqrt(z) : a;
  return {s, s * z * poly(z, ArcTable<V>::asin), outside};
}

template <class V>
ADJOINT_INLINE V asin(V x) {
  using S = ScalarOf<V>;
  using C = ArcTable<V>;
  auto p = arc_parts(abs(x));
  V inner = p.s + p.more;
  V outer = S(C::pi / 2) - (2 * p.s - (S(C::pi_rest / 2) - 2 * p.more));
  return with_sign_of(p.outside ? outer : inner, x);
}

template <class V>
ADJOINT_INLINE V acos(V x) {
  using S = ScalarOf<V>;
  using C = ArcTable<V>;
  auto p = arc_parts(abs(x));
  V s = from_bits(bits(p.s) ^ sign_bit(x)), more = from_bits(bits(p.more) ^ sign_bit(x));
  V inner = S(C::pi / 2) - (s - (S(C::pi_rest / 2) - more));
  V right = 2 * (p.s + p.more);
  V left = C::pi - (2 * p.s - (C::pi_rest - 2 * p.more));
  return p.outside ? (x < 0 ? left : right) : inner;
}

// Three ranges meet at tan(pi/8) and tan(3 pi/8): atan(a), pi/4 + atan((a-1)/(a+1)), pi/2 +
// atan(-1/a).
template <class V>
ADJOINT_INLINE V atan(V x) {
  using S = ScalarOf<V>;
  using C = ArcTable<V>;
  V a = abs(x), one = splat<V>(1);
  auto middle = a > S(0.41421356237309503), large = a > S(2.4142135623730951);
  V t = (large ? -one : middle ? a - 1 : a) / (large ? a : middle ? a + 1 : one);
  V z = t * t;
  V more = t * z * poly(z, C::atan);
  V base = large ? splat<V>(C::pi / 2) : middle ? splat<V>(C::pi / 4) : V{};
  V rest = large ? splat<V>(C::pi_rest / 2) : middle ? splat<V>(C::pi_rest / 4) : V{};
  return with_sign_of(base + ((more + rest) + t), x);
}

static inline float atan2_libm(float y, float x) { return __builtin_atan2f(y, x); }
static inline double atan2_libm(double y, double x) { return __builtin_atan2(y, x); }
static inline double hypot_libm(double x, double y) { return __builtin_hypot(x, y); }

// The angle is k pi/4 plus or minus atan(t), |t| <= tan(pi/8), with one division. Zeros together,
// infinities, NaN and magnitudes whose sum overflows or whose products underflow go to the C
// library.
template <class V>
ADJOINT_INLINE V atan2(V y, V x) {
  using S = ScalarOf<V>;
  using C = ArcTable<V>;
  V a = abs(y), b = abs(x);
  auto steep = a > b;
  V high = steep ? a : b, low = steep ? b : a;
  auto middle = low > S(0.41421356237309503) * high;
  V t = (middle ? low - high : low) / (middle ? low + high : high);
  V z = t * t;
  V p = t + t * z * poly(z, C::atan);
  V k = middle ? splat<V>(1) : V{};
  k = steep ? 2 - k : k;
  p = steep ? -p : p;
  auto behind = bits(x) < 0;
  k = behind ? 4 - k : k;
  p = behind ? -p : p;
  V r = with_sign_of(k * C::quarter + (k * C::quarter_rest + p), y);
  auto hard = ~((high < C::most) & (high > C::least) & (low >= 0));
  if (__builtin_expect(any(hard), 0)) r = patch_lanes<V>(r, y, x, hard, atan2_libm);
  return r;
}

// Squares neither overflow nor lose digits between 2^-450 and 2^500; the rest goes to the C
// library.
ADJOINT_INLINE f64 hypot(f64 x, f64 y) {
  f64 a = abs(x), b = abs(y);
  f64 high = a > b ? a : b;
  auto xx = two_product(a, a), yy = two_product(b, b);
  f64 r = sqrt(xx.hi + (yy.hi + (xx.lo + yy.lo)));
  auto hard = ~((high < 0x1p500) & (high > 0x1p-450) & (a == a));
  if (__builtin_expect(any(hard), 0)) r = patch_lanes<f64>(r, x, y, hard, hypot_libm);
  return r;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
