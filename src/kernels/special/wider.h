// The precision that a result is computed in before it is rounded: one more than its own.
#pragma once

namespace adjoint::special {

template <class T>
struct Wider;
template <>
struct Wider<float> {
  using type = double;
};
template <>
struct Wider<double> {
  using type = long double;
};
template <class T>
using wider_t = typename Wider<T>::type;

}  // namespace adjoint::special
