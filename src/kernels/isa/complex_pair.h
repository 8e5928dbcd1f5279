// Arithmetic of complex numbers as pairs, for loops. Products are the plain formula, quotients are
// scaled by the larger part of the divisor so that they do not overflow on the way.
// Read next: complex_arithmetic.cpp, kernels/elementwise/complex_functions.cpp.
#pragma once
#include "kernels/convert_element.h"

namespace adjoint::ADJOINT_ISA_TAG {

// A product rounded by itself, never fused with a following sum: z * conj(z) must have no imaginary
// part, and a fused multiply-add would leave a rounding error there.
template <class T>
inline T product(T a, T b) {
#if defined(__clang__)
#pragma clang fp contract(off)
  return a * b;
#elif defined(__GNUC__) && __GNUC__ >= 12
  return __builtin_assoc_barrier(a * b);
#else
  return a * b;  // built without -ffp-contract=off, older compilers may fuse
#endif
}

template <class T>
inline Pair<T> operator+(Pair<T> a, Pair<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
inline Pair<T> operator-(Pair<T> a, Pair<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
inline Pair<T> operator-(Pair<T> a) {
  return {-a.re, -a.im};
}
template <class T>
inline Pair<T> operator*(Pair<T> a, Pair<T> b) {
  return {product(a.re, b.re) - product(a.im, b.im), product(a.re, b.im) + product(a.im, b.re)};
}

// Smith's method, with the two cases chosen by selection so that loops vectorise.
template <class T>
inline Pair<T> operator/(Pair<T> a, Pair<T> b) {
  const T size_re = b.re < 0 ? -b.re : b.re;
  const T size_im = b.im < 0 ? -b.im : b.im;
  const bool swap = size_re < size_im;
  const T large = swap ? b.im : b.re;
  const T small = swap ? b.re : b.im;
  const bool zero = (size_re == 0) & (size_im == 0);
  const T ratio = zero ? T(0) : small / large;
  // By zero: infinities and NaN by parts, whatever the signs of the zeros.
  const T scale = zero ? T(0) : large + product(small, ratio);
  const T re = swap ? product(a.re, ratio) + a.im : a.re + product(a.im, ratio);
  const T im = swap ? product(a.im, ratio) - a.re : a.im - product(a.re, ratio);
  return {(zero ? a.re : re) / scale, (zero ? a.im : im) / scale};
}

}  // namespace adjoint::ADJOINT_ISA_TAG
