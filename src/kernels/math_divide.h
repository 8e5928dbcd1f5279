// Division with a remainder, as Python and PyTorch define it for floats.
#pragma once
#include "math_basic.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

ADJOINT_INLINE f32 fmod(f32 x, f32 y) {
  return each_lane(x, y, [](float a, float b) { return __builtin_fmodf(a, b); });
}
ADJOINT_INLINE f64 fmod(f64 x, f64 y) {
  return each_lane(x, y, [](double a, double b) { return __builtin_fmod(a, b); });
}

// The result has the sign of the divisor.
template <class V>
ADJOINT_INLINE V remainder(V x, V y) {
  V m = fmod(x, y);
  return (m != 0) & ((y < 0) ^ (m < 0)) ? m + y : m;
}

// floor(x / y) computed from the exact remainder, so that x == y*floor_divide(x, y) + remainder(x,
// y) holds where a rounded quotient would step to the next integer.
template <class V>
ADJOINT_INLINE V floor_divide(V x, V y) {
  V m = fmod(x, y);
  V q = (x - m) / y;
  q = (m != 0) & ((y < 0) ^ (m < 0)) ? q - 1 : q;
  V f = floor(q);
  f = q - f > ScalarOf<V>(0.5) ? f + 1 : f;
  V exact = x / y;
  f = q == 0 ? with_sign_of(V{}, exact) : f;
  return y == 0 ? exact : f;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
