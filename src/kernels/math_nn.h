// Activations of neural networks, their derivatives, and the sums of exponentials behind losses.
// Templates over the vector type; the kernel lines choose the precision they run in.
#pragma once
#include "math_lanes.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

inline constexpr double kSqrtHalf = 0.70710678118654752440, kInvSqrt2Pi = 0.39894228040143267794;
inline constexpr double kGeluA = 0.79788456080286535588, kGeluB = 0.044715;  // sqrt(2/pi)

template <class V>
ADJOINT_INLINE V log_sigmoid(V x) {
  return (x < 0 ? x : x != x ? x : V{}) - log1p(exp(-abs(x)));
}

// x * Phi(x); through erfc, since 1 + erf cancels for negative x. At -inf the limit, 0.
template <class V>
ADJOINT_INLINE V gelu(V x) {
  V r = x * 0.5 * erfc(-x * kSqrtHalf);
  return x == -kInf<V> ? V{} - 0 : r;
}

template <class V>
ADJOINT_INLINE V gelu_grad(V g, V x) {
  V pdf = kInvSqrt2Pi * exp(-0.5 * x * x);
  V slope = 0.5 * erfc(-x * kSqrtHalf) + (abs(x) == kInf<V> ? V{} : x * pdf);
  return g * slope;
}

// gelu_tanh(x) = x (1 + tanh u) / 2 = x sigmoid(2u), which does not cancel for negative x.
template <class V>
ADJOINT_INLINE V gelu_tanh(V x) {
  V s = sigmoid(2 * kGeluA * (x + kGeluB * x * x * x));
  return x == -kInf<V> ? V{} : x * s;
}

template <class V>
ADJOINT_INLINE V gelu_tanh_grad(V g, V x) {
  V s = sigmoid(2 * kGeluA * (x + kGeluB * x * x * x));
  V du = 2 * kGeluA * (1 + 3 * kGeluB * x * x);
  V tail = x * s * (1 - s) * du;
  tail = (s == 0) | (s == 1) ? V{} : tail;
  return g * (s + tail);
}

template <class V>
ADJOINT_INLINE V silu(V x) {
  V s = sigmoid(x);
  return x == -kInf<V> ? V{} : x * s;
}

template <class V>
ADJOINT_INLINE V silu_grad(V g, V x) {
  V s = sigmoid(x);
  V tail = x * s * (1 - s);
  tail = (s == 0) | (s == 1) ? V{} : tail;
  return g * (s + tail);
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
  V m = maximum(x, y);
  V r = m + log1p(exp(-abs(x - y)));
  return (x == y) & (abs(x) == kInf<V>) ? x : r;  // inf - inf
}

template <class V>
ADJOINT_INLINE V logaddexp2(V x, V y) {
  V m = maximum(x, y);
  V r = m + log1p(exp2(-abs(x - y))) * 1.44269504088896340736;
  return (x == y) & (abs(x) == kInf<V>) ? x : r;
}

// 0 * log(0) is 0 here; a NaN in y wins.
template <class V>
ADJOINT_INLINE V xlogy(V x, V y) {
  V r = x * log(y);
  return y != y ? y : x == 0 ? V{} : r;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
