// Logarithms of a complex variable that a plain composition would lose digits of: log(1 + z) and
// log(exp(a) + exp(b)).
#pragma once
#include <cmath>
#include <complex>
#include <limits>

namespace adjoint {

// log(1 + z): near 0 the modulus of 1 + z is 1 + x(2 + x) + y^2, whose first 1 must not be added.
template <class T>
std::complex<T> log1p(std::complex<T> z) {
  const T x = z.real(), y = z.imag();
  const T angle = std::atan2(y, x + 1);
  if (std::abs(x) < T(0.5) && std::abs(y) < T(0.5)) {
    return {std::log1p(x * (2 + x) + y * y) / 2, angle};
  }
  return {std::log(std::hypot(x + 1, y)), angle};
}

// The one with the larger real part is taken out. Two at minus infinity have no angle: b stays.
template <class T>
std::complex<T> log_add(std::complex<T> a, std::complex<T> b) {
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  if (a != a || b != b) return {nan, nan};
  const std::complex<T> low = a.real() < b.real() ? a : b, high = a.real() < b.real() ? b : a;
  if (std::isinf(low.real()) && low.real() == high.real()) {
    return low.real() < 0 ? low : std::log(std::exp(low) + std::exp(high));
  }
  return high + log1p(std::exp(low - high));
}

}  // namespace adjoint
