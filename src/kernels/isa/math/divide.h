// Division with a remainder, as Python and PyTorch define it for floats.
#pragma once
#include "kernels/isa/math/basic.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

static inline float fmod_libm(float x, float y) { return __builtin_fmodf(x, y); }
static inline double fmod_libm(double x, double y) { return __builtin_fmod(x, y); }

// The remainder is always representable: with the integer quotient q of |x| by |y| at most one off,
// |x| - q|y| is exact, and one step back or forth makes it right. Quotients too large to be
// integers, and what is not finite, go to the C library.
template <class V>
ADJOINT_INLINE V fmod(V x, V y) {
  V a = abs(x), b = abs(y);
  V ratio = a / b;
  V q = trunc(ratio);
  auto p = two_product(q, b);
  V r = (a - p.hi) - p.lo;
  r = r < 0 ? r + b : r;
  r = r >= b ? r - b : r;
  r = with_sign_of(r, x);
  constexpr ScalarOf<V> most = sizeof(ScalarOf<V>) == 4 ? 0x1p22 : 0x1p51;
  constexpr ScalarOf<V> least =
      sizeof(ScalarOf<V>) == 4 ? 0x1p-90 : 0x1p-900;  // the product's rest is exact
  constexpr ScalarOf<V> huge = sizeof(ScalarOf<V>) == 4 ? 0x1p100 : 0x1p900;
  auto hard =
      ~((ratio < most) & (a < huge) & (b < huge) & ((a >= least) | (a == 0)) & (b >= least));
  if (__builtin_expect(any(hard), 0)) r = patch_lanes<V>(r, x, y, hard, fmod_libm);
  return r;
}

// The result has the sign of the divisor.
template <class V>
ADJOINT_INLINE V remainder(V x, V y) {
  V m = fmod(x, y);
  return ((m != 0) & ((y < 0) ^ (m < 0))) ? m + y : m;
}

// floor(x / y) computed from the exact remainder, so that x == y*floor_divide(x, y) + remainder(x,
// y) holds where a rounded quotient would step to the next integer.
template <class V>
ADJOINT_INLINE V floor_divide(V x, V y) {
  V m = fmod(x, y);
  V q = (x - m) / y;
  q = ((m != 0) & ((y < 0) ^ (m < 0))) ? q - 1 : q;
  V f = floor(q);
  f = q - f > ScalarOf<V>(0.5) ? f + 1 : f;
  V exact = x / y;
  f = q == 0 ? with_sign_of(V{}, exact) : f;
  return y == 0 ? exact : f;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
