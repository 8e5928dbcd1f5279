// gelu and its derivative of one argument by one loop: read kernels/kernel_pair.h first, math/erf.h for the functions.
#include "kernels/isa/kernel_lines.h"
#include "kernels/isa/math/erf.h"
#include "kernels/kernel_pair.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

// Each as it is by itself; where one leaves the plain form, it is computed by itself.
template <class V>
ADJOINT_INLINE void gelu_and_slope(V x, V* value, V* slope) {
  using S = ScalarOf<V>;
  const V a = abs(x);
  if (__builtin_expect(any_above(a, ErfTable<V>::normal_tail) || any_above(-a, -S(1e-10)), 0)) {
    *value = gelu(x);
    *slope = gelu_grad(splat<V>(1), x);
    return;
  }
  auto n = normal_tail(a);
  V v = scale_normal(a * n.tail, n.t);
  *value = x < 0 ? -v : x - v;
  V d = scale_normal(n.tail, n.t) - a * scale_normal(n.density, n.t);
  *slope = x < 0 ? d : 1 - d;
}

template <class T, class V>
static void gelu_and_slope_loop(char* const* p, int64_t n) {
  T *value = reinterpret_cast<T*>(p[0]), *slope = reinterpret_cast<T*>(p[1]);
  const T* in = reinterpret_cast<const T*>(p[2]);
  V y, d;
  int64_t i = 0;
  for (; i + kLanes<V> <= n; i += kLanes<V>) {
    gelu_and_slope(load<T, V>(in + i), &y, &d);
    store<T, V>(value + i, y);
    store<T, V>(slope + i, d);
  }
  if (i == n) return;
  gelu_and_slope(load_part<T, V>(in + i, n - i), &y, &d);
  store_part<T, V>(value + i, y, n - i);
  store_part<T, V>(slope + i, d, n - i);
}

static const PairRegistrar of_float{kIsa,        "gelu",         nullptr,
                                    "gelu_grad", DType::Float32, gelu_and_slope_loop<float, f32>};
static const PairRegistrar of_double{kIsa,        "gelu",         nullptr,
                                     "gelu_grad", DType::Float64, gelu_and_slope_loop<double, f64>};

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
