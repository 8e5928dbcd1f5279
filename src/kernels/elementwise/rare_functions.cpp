// Elementwise functions that are rarely hot, as plain loops, and what the predicates and roundings
// mean for integers. Read next: loops.h, kernels/isa/unary_float.cpp for the hot ones.
#include <cmath>
#include <numbers>

#include "kernels/elementwise/loops.h"

namespace adjoint::Base {
namespace {

#define FLOATS float, double
#define INTS uint8_t, int8_t, int16_t, int32_t, int64_t

// A whole number is its own rounding, and neither NaN nor infinite.
void register_for_integers() {
  for (const char* name : {"floor", "ceil", "round", "trunc"}) {
    register_trait(name, kSignless);
    same<INTS>(name, [](auto x) { return x; });
  }
  for (const char* name : {"isnan", "isinf", "isposinf", "isneginf"}) {
    register_trait(name, kSignless);
    to_bool<bool, INTS>(name, [](auto) { return false; });
  }
  register_trait("isfinite", kSignless);
  to_bool<bool, INTS>("isfinite", [](auto) { return true; });
  to_bool<INTS>("signbit", [](auto x) { return x < 0; });
  to_bool<bool, uint16_t, uint32_t, uint64_t>("signbit", [](auto) { return false; });
  same<INTS>("relu", [](auto x) { return x > 0 ? x : decltype(x)(0); });
  same<bool>("positive", [](bool x) { return x; });
  same<bool>("clamp_min", [](bool x, bool low) { return x | low; });
  same<bool>("clamp_max", [](bool x, bool high) { return x & high; });
  same<bool, INTS>("fmax", [](auto x, auto y) { return x < y ? y : x; });
  same<bool, INTS>("fmin", [](auto x, auto y) { return y < x ? y : x; });
  same<bool, INTS>("heaviside", [](auto x, auto y) {
    using T = decltype(x);
    return x == T(0) ? y : T(x > T(0));
  });
}

// log(x / (1 - x)); x is first brought into [eps, 1 - eps] where eps is not negative.
template <class T>
T logit(T x, T eps) {
  if (eps >= 0) x = x < eps ? eps : x > 1 - eps ? 1 - eps : x;
  return std::log(x / (1 - x));
}

template <class T>
T sinc(T x) {
  if (x == 0) return 1;
  const T y = std::numbers::pi_v<T> * x;
  return std::sin(y) / y;
}

// Rounds at 10^decimals, half to even, by PyTorch's formula: multiply, round, divide.
template <class T>
T round_at(T x, T scale, T inverse) {
  return inverse != 0 ? std::nearbyint(x / inverse) * inverse : std::nearbyint(x * scale) / scale;
}

template <class T>
T elu(T x, T alpha, T scale, T input_scale) {
  return x > 0 ? scale * x : scale * alpha * std::expm1(input_scale * x);
}

void register_functions() {
  same<FLOATS>("logit", [](auto x, auto eps) { return logit(x, eps); });
  same<FLOATS>("sinc", [](auto x) { return sinc(x); });
  same<FLOATS>("round_at",
               [](auto x, auto scale, auto inverse) { return round_at(x, scale, inverse); });
  same<FLOATS>("elu", [](auto x, auto alpha, auto scale, auto input_scale) {
    return elu(x, alpha, scale, input_scale);
  });
  same<FLOATS>("threshold", [](auto x, auto limit, auto value) { return x <= limit ? value : x; });
  same<INTS>("threshold", [](auto x, auto limit, auto value) { return x <= limit ? value : x; });
}

const bool registered = [] {
  register_for_integers();
  register_functions();
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
