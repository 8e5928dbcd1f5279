// Activations of neural networks, their derivatives, and the sums of exponentials behind losses.
// (gelu and its derivative are in erf.h.)
#pragma once
#include "kernels/isa/math/basic.h"
#include "kernels/isa/math/exp.h"
#include "kernels/isa/math/log.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

// x sigmoid(z + z_lo). For negative z, where the result is close to x e^z, the product is formed
// before the factor 2^n, so that it is accurate even where e^z alone would be a denormal number.
template <Scale How, class V>
ADJOINT_INLINE V times_sigmoid_scaled(V x, V z, V z_lo) {
  auto e = exp_parts(at_least(-abs(z), ExpTable<V>::lowest * ScalarOf<V>(1.05)));
  V q = e.q + (z < 0 ? z_lo : -z_lo) * (1 + e.q);
  V d = 1 + scale<How>(1 + q, e.t);
  V r = (z < 0 ? x + x * q : x) / d;
  return z < 0 ? scale<How>(r, e.t) : r;
}
template <class V>
__attribute__((noinline)) static V times_sigmoid_extreme(V x, V z, V z_lo) {
  return times_sigmoid_scaled<Scale::Any>(x, z, z_lo);
}
template <class V>
ADJOINT_INLINE V times_sigmoid(V x, V z, V z_lo) {
  using S = ScalarOf<V>;
  // the exponents of x and of e^z together stay within the normal numbers; zeros do not
  auto plain = (abs(z) <= ExpTable<V>::safe * S(0.7)) & (abs(x) >= S(1e-7)) & (abs(x) <= S(1e3));
  if (__builtin_expect(any(~plain), 0)) return times_sigmoid_extreme(x, z, z_lo);
  return times_sigmoid_scaled<Scale::Normal>(x, z, z_lo);
}

template <class V>
ADJOINT_INLINE V silu(V x) {
  return times_sigmoid(at_least(x, ExpTable<V>::lowest * ScalarOf<V>(1.05)), x, V{});
}

template <class V>
ADJOINT_INLINE V silu_grad(V g, V x) {
  V s = sigmoid(x);
  V tail = x * s * (1 - s);
  tail = ((s == 0) | (s == 1)) ? V{} : tail;  // inf * 0
  return g * (s + tail);
}

// x tanh(log(1 + e)) with e = e^x is x e (e + 2) / (e^2 + 2 e + 2): silu's x e / (1 + e) times a
// factor between 1 and 1.2, so that it keeps silu's accuracy where e is a denormal number.
template <class V>
ADJOINT_INLINE V mish(V x) {
  V e = exp(at_most(x, ScalarOf<V>(40)));  // beyond, the factor is 1 in every dtype
  V n = e * (e + 2);
  return silu(x) * ((1 + e) * (e + 2) / (n + 2));
}

// x + 3 limited to [0, 6].
template <class V>
ADJOINT_INLINE V six(V x) {
  return at_most(at_least(x + 3, ScalarOf<V>(0)), ScalarOf<V>(6));
}

// gelu_tanh(x) = x (1 + tanh u)/2 = x sigmoid(2u), 2u = x (c1 + c2 x^2), as a sum of two numbers
// because exp multiplies its relative error by its size.
template <class V>
struct GeluTable;
template <>
struct GeluTable<f32> {
  static constexpr float c1 = 1.595769167f, c1_lo = -4.534068054e-8f, c2 = 0.07135481387f,
                         c2_lo = 2.398832466e-9f;
  static constexpr float last = 30.0f;  // where |2u| is beyond any exponent
};
template <>
struct GeluTable<f64> {
  static constexpr double c1 = 1.5957691216057308, c1_lo = -9.96930880911092e-17,
                          c2 = 0.07135481627260025, c2_lo = -4.1218577217431825e-18;
  static constexpr double last = 60.0;
};

template <class V>
ADJOINT_INLINE Sum2<V> gelu_argument(V x) {
  using C = GeluTable<V>;
  auto w = two_product(x, x);
  auto p = two_product(w.hi, splat<V>(C::c2));
  auto s = two_sum(splat<V>(C::c1), p.hi);
  V s_lo = (s.lo + p.lo) + (C::c1_lo + (w.lo * C::c2 + w.hi * C::c2_lo));
  auto u = two_product(s.hi, x);
  return {u.hi, u.lo + s_lo * x};
}

template <class V>
ADJOINT_INLINE V gelu_tanh(V x) {
  using C = GeluTable<V>;
  V c = at_least(at_most(x, C::last), -C::last);
  auto u = gelu_argument(c);
  V r = times_sigmoid(c, u.hi, u.lo);
  return x > C::last ? x : r;
}

template <class V>
ADJOINT_INLINE V gelu_tanh_grad(V g, V x) {
  using C = GeluTable<V>;
  V c = at_least(at_most(x, C::last), -C::last);
  V z = c * c;
  V s = sigmoid(c * (C::c1 + C::c2 * z));
  V tail = c * s * (1 - s) * (C::c1 + 3 * C::c2 * z);
  return g * (s + tail);
}

template <class V>
ADJOINT_INLINE V log_sigmoid(V x) {
  return (x < 0 ? x : x != x ? x : V{}) - log1p(exp(-abs(x)));
}

// PyTorch's softplus is the identity where beta*x exceeds the threshold.
template <class V>
ADJOINT_INLINE V softplus(V x, V beta, V threshold) {
  V z = x * beta;
  V positive = z > 0 ? z : z != z ? z : V{};
  return z > threshold ? x : (positive + log1p(exp(-abs(z)))) / beta;
}

template <class V>
ADJOINT_INLINE V softplus_grad(V g, V x, V beta, V threshold) {
  V z = x * beta;
  return z > threshold ? g : g * sigmoid(z);
}

template <class V>
ADJOINT_INLINE V logaddexp(V x, V y) {
  V r = maximum(x, y) + log1p(exp(-abs(x - y)));
  return ((x == y) & (abs(x) == kInf<V>)) ? x : r;  // inf - inf
}

template <class V>
ADJOINT_INLINE V logaddexp2(V x, V y) {
  V r = maximum(x, y) + log1p(exp2(-abs(x - y))) * ScalarOf<V>(kLog2e);
  return x == y ? x + ScalarOf<V>(1) : r;  // exact, and not inf - inf
}

// 0 * log(0) is 0 here; a NaN in y wins.
template <class V>
ADJOINT_INLINE V xlogy(V x, V y) {
  V r = x * log(y);
  return y != y ? y : x == 0 ? V{} : r;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
