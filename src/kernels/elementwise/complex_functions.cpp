// Functions of a complex variable, elementwise, and the angle of real numbers. The library's
// routines where they are accurate, own formulas where a plain composition would lose digits.
// Read next: kernels/isa/complex_arithmetic.cpp for sums and products, loops.h.
#include <cmath>
#include <complex>
#include <numbers>

#include "kernels/complex_logarithms.h"
#include "kernels/elementwise/loops.h"

namespace adjoint::Base {
namespace {

template <class T>
using Complex = std::complex<T>;

template <class F>
void both(const char* name, F f) {
  same<complex64_t, complex128_t>(name, f);
}

// exp(z) - 1 without the cancellation near 0: cos(y) - 1 is -2 sin^2(y/2).
template <class T>
Complex<T> expm1(Complex<T> z) {
  const T x = z.real(), y = z.imag();
  const T half_sine = std::sin(y / 2);
  return {std::expm1(x) * std::cos(y) - 2 * half_sine * half_sine, std::exp(x) * std::sin(y)};
}

template <class T>
Complex<T> inverse(Complex<T> z) {
  return Complex<T>(1) / z;
}

// Of the two forms, the one whose exponential cannot overflow.
template <class T>
Complex<T> sigmoid(Complex<T> z) {
  if (z.real() >= 0) return inverse(Complex<T>(1) + std::exp(-z));
  const Complex<T> e = std::exp(z);
  return e / (Complex<T>(1) + e);
}

template <class T>
Complex<T> sinc(Complex<T> z) {
  if (z == T(0)) return T(1);
  const Complex<T> y = z * std::numbers::pi_v<T>;
  return std::sin(y) / y;
}

template <class T>
Complex<T> log_add_of_two(Complex<T> a, Complex<T> b) {
  return log_add(a * std::numbers::ln2_v<T>, b * std::numbers::ln2_v<T>) / std::numbers::ln2_v<T>;
}

// The derivative of z sigmoid(z), times g.
template <class T>
Complex<T> silu_grad(Complex<T> g, Complex<T> z) {
  const Complex<T> s = sigmoid(z);
  return g * s * (Complex<T>(1) + z * (Complex<T>(1) - s));
}

template <class T>
Complex<T> times(Complex<T> a, Complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Small whole exponents by multiplication, so that 1j ** 2 is -1 exactly; z ** 0 is 1 for every z.
template <class T>
Complex<T> power(Complex<T> z, Complex<T> exponent) {
  const T k = exponent.real();
  if (exponent.imag() == 0 && std::abs(k) <= 64 && k == std::trunc(k)) {
    Complex<T> result(1), base = z;
    for (int left = std::abs(static_cast<int>(k)); left > 0; left >>= 1) {
      if (left & 1) result = times(result, base);
      base = times(base, base);
    }
    return k < 0 ? inverse(result) : result;
  }
  if (z == T(0) && k > 0) return T(0);
  return std::pow(z, exponent);
}

void register_exponentials() {
  both("exp", [](auto z) { return std::exp(z); });
  both("exp2",
       [](auto z) { return std::exp(z * std::numbers::ln2_v<typename decltype(z)::value_type>); });
  both("expm1", [](auto z) { return expm1(z); });
  both("log", [](auto z) { return std::log(z); });
  both("log2",
       [](auto z) { return std::log(z) / std::numbers::ln2_v<typename decltype(z)::value_type>; });
  both("log10",
       [](auto z) { return std::log(z) / std::numbers::ln10_v<typename decltype(z)::value_type>; });
  both("log1p", [](auto z) { return log1p(z); });
  both("logaddexp", [](auto a, auto b) { return log_add(a, b); });
  both("logaddexp2", [](auto a, auto b) { return log_add_of_two(a, b); });
  both("sqrt", [](auto z) { return std::sqrt(z); });
  both("rsqrt", [](auto z) { return inverse(std::sqrt(z)); });
  both("sigmoid", [](auto z) { return sigmoid(z); });
  both("silu", [](auto z) { return z * sigmoid(z); });
  both("silu_grad", [](auto g, auto z) { return silu_grad(g, z); });
  both("pow", [](auto z, auto exponent) { return power(z, exponent); });
}

void register_trigonometry() {
  both("sin", [](auto z) { return std::sin(z); });
  both("cos", [](auto z) { return std::cos(z); });
  both("sinc", [](auto z) { return sinc(z); });
  both("tan", [](auto z) { return std::tan(z); });
  both("asin", [](auto z) { return std::asin(z); });
  both("acos", [](auto z) { return std::acos(z); });
  both("atan", [](auto z) { return std::atan(z); });
  both("sinh", [](auto z) { return std::sinh(z); });
  both("cosh", [](auto z) { return std::cosh(z); });
  both("tanh", [](auto z) { return std::tanh(z); });
  both("asinh", [](auto z) { return std::asinh(z); });
  both("acosh", [](auto z) { return std::acosh(z); });
  both("atanh", [](auto z) { return std::atanh(z); });
}

template <class Z, class F>
void real_part(const char* name, F) {
  register_loop(kThisIsa, name, 1, Result::Real, dtype_of<Z>::value,
                loop<F, typename Z::value_type, Z>);
}

void register_polar() {
  both("sgn", [](auto z) { return z == decltype(z)(0) ? z : z / std::abs(z); });
  constexpr auto length = [](auto z) { return std::abs(z); };
  real_part<complex128_t>("abs", length);  // complex64 is in kernels/isa/complex_arithmetic.cpp
  constexpr auto angle = [](auto z) { return std::arg(z); };
  real_part<complex64_t>("angle", angle);
  real_part<complex128_t>("angle", angle);
  same<float, double>("angle", [](auto x) {
    using T = decltype(x);
    return x != x ? x : x < 0 ? std::numbers::pi_v<T> : T(0);
  });
}

const bool registered = [] {
  register_exponentials();
  register_trigonometry();
  register_polar();
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
