// lgamma, digamma, trigamma, in double.
#pragma once
#include "kernels/isa/math/inverse_trig.h"
#include "kernels/isa/math/log.h"
#include "kernels/special/digamma_roots.h"

extern "C" double lgamma_r(double,
                           int*);  // POSIX; unlike lgamma it does not write the global signgam

namespace adjoint {
namespace ADJOINT_ISA_TAG {

static inline double lgamma_scalar(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

// digamma(x) / (x - root) on [1, 2], in x - 1.5: near the root only this form keeps its digits.
inline constexpr double kDigammaRoot = 1.4616321449683622, kDigammaRootRest = 9.549995429965697e-17;
inline constexpr double kDigammaNear[] = {
    0.9510558760318328,    -0.4236274212814606,     0.24054248424078722,   -0.14840492305388028,
    0.09498872445284977,   -0.06192213327554257,    0.04076083394339038,   -0.02697579665762855,
    0.017907248235613363,  -0.011908220153131522,   0.007927023326590364,  -0.005279936636128157,
    0.003518088715304651,  -0.002345499835681718,   0.0015635033253625704, -0.0010364320169615785,
    0.0006902824648451012, -0.00048603463569055005, 0.0003258798852217698, -0.0001446563812308779,
    9.32963975445995e-05,  -0.00017833337776423342, 0.0001211724807159918};

// B(2k)/2k and B(2k).
inline constexpr double kDigammaSeries[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                            1.0 / 132, -691.0 / 32760, 1.0 / 12};
inline constexpr double kTrigammaSeries[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                             5.0 / 66, -691.0 / 2730, 7.0 / 6};

// x > 0: towards [1, 2] by the recurrence below 10, the asymptotic series above. NaN stays NaN.
ADJOINT_INLINE f64 digamma_positive(f64 x) {
  auto large = x >= 10;
  f64 v = x, sum{};
  auto below = v < 1;
  sum = below ? -1 / v : sum;
  v = below ? v + 1 : large ? splat<f64>(1.5) : v;
  for (int step = 0; step < 8 && any(v > 2); ++step) {
    auto move = v > 2;
    v = move ? v - 1 : v;
    sum += move ? 1 / v : f64{};
  }
  f64 near = sum + ((v - kDigammaRoot) - kDigammaRootRest) * poly(v - 1.5, kDigammaNear);
  if (!any(large)) return near;
  f64 u = at_least(x, 10.0);
  f64 inverse = 1 / u, z = inverse * inverse;
  f64 far = log(u) - (0.5 * inverse + z * poly(z, kDigammaSeries));
  return large ? far : near;
}

// x > 0: the recurrence up to 12 with the rounding errors of its sum carried along, then the
// series.
ADJOINT_INLINE f64 trigamma_positive(f64 x) {
  f64 v = x, sum{}, lost{};
  for (int step = 0; step < 12 && any(v < 12); ++step) {
    auto move = v < 12;
    f64 term = move ? 1 / (v * v) : f64{};
    f64 next = sum + term;
    lost += sum >= term ? term - (next - sum) : sum - (next - term);
    sum = next;
    v = move ? v + 1 : v;
  }
  f64 inverse = 1 / v, z = inverse * inverse;
  f64 tail = inverse + (0.5 * z + z * inverse * poly(z, kTrigammaSeries));
  return sum == kInf<f64> ? sum : sum + (tail + lost);
}

// Reflection. Poles: +-inf at +-0 as PyTorch has it, NaN at the negative integers for digamma, inf
// for trigamma.
static inline double digamma_mirrored(double x, double at_one_minus_x) {
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  double f = x - __builtin_rint(x);  // tan and sin have the period of the poles
  if (f == 0 || x == -__builtin_inf()) return __builtin_nan("");
  return special::digamma_near_root(x, at_one_minus_x - kPi / __builtin_tan(kPi * f));
}
static inline double trigamma_mirrored(double x, double at_one_minus_x) {
  double f = x - __builtin_rint(x);
  if (f == 0) return __builtin_inf();
  double s = kPi / __builtin_sin(kPi * f);
  return s * s - at_one_minus_x;
}

template <class F>
ADJOINT_INLINE f64 with_mirror(f64 x, F f, double (*mirrored)(double, double)) {
  auto negative = x <= 0;
  f64 r = f(negative ? 1 - x : x);
  if (any(negative)) r = patch_lanes<f64>(r, x, r, negative, mirrored);
  return r;
}
ADJOINT_INLINE f64 digamma(f64 x) {
  return with_mirror(
      x, [](f64 a) __attribute__((always_inline)) { return digamma_positive(a); },
      digamma_mirrored);
}
ADJOINT_INLINE f64 trigamma(f64 x) {
  return with_mirror(
      x, [](f64 a) __attribute__((always_inline)) { return trigamma_positive(a); },
      trigamma_mirrored);
}

ADJOINT_INLINE f64 lgamma(f64 x) { return each_lane(x, lgamma_scalar); }

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
