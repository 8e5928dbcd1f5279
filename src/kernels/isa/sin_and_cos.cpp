// sin and cos of one argument by one loop: read kernels/kernel_pair.h first, math/trig.h for the functions.
#include "kernels/isa/kernel_lines.h"
#include "kernels/isa/math/trig.h"
#include "kernels/kernel_pair.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

// Each as it is by itself. Float32 needs fma, without which it is computed in f64.
template <class V>
ADJOINT_INLINE void sin_and_cos(V x, V* sine, V* cosine) {
  auto a = reduce(abs(x));
  V z = a.r * a.r;
  V near_zero = sin_near_zero(a, z), near_quarter = cos_near_zero(a, z);
  // cos is sin a quarter further: the other of the two values, and the sign of n + 1.
  auto odd = (a.n & 1) != 0;
  auto turn = turned_sign<V>(a.n);
  *sine = flipped(odd ? near_quarter : near_zero, turn ^ bits(x));
  *cosine =
      flipped(odd ? near_zero : near_quarter, wrapping_add(turn, turned_sign<V>(IntOf<V>{} + 1)));
  auto far = beyond_reduction(x);
  if (__builtin_expect(any(far), 0)) {
    *sine = patch_lanes<V>(*sine, x, far, sin_libm);
    *cosine = patch_lanes<V>(*cosine, x, far, cos_libm);
  }
}

template <class T, class V>
static void sin_and_cos_loop(char* const* p, int64_t n) {
  T *sine = reinterpret_cast<T*>(p[0]), *cosine = reinterpret_cast<T*>(p[1]);
  const T* in = reinterpret_cast<const T*>(p[2]);
  V s, c;
  int64_t i = 0;
  for (; i + kLanes<V> <= n; i += kLanes<V>) {
    sin_and_cos(load<T, V>(in + i), &s, &c);
    store<T, V>(sine + i, s);
    store<T, V>(cosine + i, c);
  }
  if (i == n) return;
  sin_and_cos(load_part<T, V>(in + i, n - i), &s, &c);
  store_part<T, V>(sine + i, s, n - i);
  store_part<T, V>(cosine + i, c, n - i);
}

#if ADJOINT_FMA
static const PairRegistrar of_float{kIsa,      "sin",          "cos",
                                    "mul_cos", DType::Float32, sin_and_cos_loop<float, f32>};
#endif
static const PairRegistrar of_double{kIsa,      "sin",          "cos",
                                     "mul_cos", DType::Float64, sin_and_cos_loop<double, f64>};

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
