// Complex arithmetic, elementwise: what is worth building per instruction set.
// Read next: kernels/isa/complex_pair.h for the formulas, kernels/elementwise/complex_functions.cpp for functions of a complex variable.
#include "kernels/isa/complex_pair.h"

#include "kernels/elementwise/loops.h"

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

template <class F, class T>
void add(const char* name, DType dtype) {
  register_loop(kThisIsa, name, arity<F, T>(), Result::Same, dtype, uniform_loop<F, T, T>());
}

template <class F>
void both(const char* name, F) {
  add<F, Pair<float>>(name, DType::Complex64);
  add<F, Pair<double>>(name, DType::Complex128);
}

template <class F>
void both_real(const char* name, F) {
  register_loop(kThisIsa, name, 1, Result::Real, DType::Complex64, loop<F, float, Pair<float>>);
  register_loop(kThisIsa, name, 1, Result::Real, DType::Complex128, loop<F, double, Pair<double>>);
}

template <class F>
void both_bool(const char* name, F) {
  register_loop(kThisIsa, name, 1, Result::Bool, DType::Complex64, loop<F, bool, Pair<float>>);
  register_loop(kThisIsa, name, 1, Result::Bool, DType::Complex128, loop<F, bool, Pair<double>>);
}

void register_arithmetic() {
  both("add", [](auto a, auto b) { return a + b; });
  both("sub", [](auto a, auto b) { return a - b; });
  both("mul", [](auto a, auto b) { return a * b; });
  both("div", [](auto a, auto b) { return a / b; });
  both("neg", [](auto a) { return -a; });
  both("positive", [](auto a) { return a; });
  both("square", [](auto a) { return a * a; });
  both("conj", [](auto a) { return decltype(a){a.re, -a.im}; });
  both("reciprocal", [](auto a) { return decltype(a){1, 0} / a; });
  both("add_scaled", [](auto a, auto b, auto alpha) { return a + alpha * b; });
  both("rsub_scaled", [](auto a, auto b, auto alpha) { return b - alpha * a; });
  both("addcmul", [](auto a, auto b, auto c, auto value) { return a + value * b * c; });
  both("addcdiv", [](auto a, auto b, auto c, auto value) { return a + value * b / c; });
  // As for real numbers: weight 0 gives `a` and weight 1 gives `b` exactly.
  both("lerp", [](auto a, auto b, auto w) {
    using Z = decltype(a);
    const bool near_a = w.re * w.re + w.im * w.im < decltype(w.re)(0.25);
    const Z weight = near_a ? w : Z{w.re - 1, w.im};
    return (near_a ? a : b) + weight * (b - a);
  });
}

void register_parts() {
  both_real("real", [](auto a) { return a.re; });
  both_real("imag", [](auto a) { return a.im; });
  // In double no square of a float overflows or underflows. An infinite part wins over NaN.
  register_loop(kThisIsa, "abs", 1, Result::Real, DType::Complex64, [](char* const* p, int64_t n) {
    constexpr auto length = [](Pair<float> z) {
      const double re = z.re, im = z.im;
      const float size = static_cast<float>(__builtin_sqrt(re * re + im * im));
      constexpr float inf = __builtin_inff();
      const bool infinite = (z.re == inf) | (z.re == -inf) | (z.im == inf) | (z.im == -inf);
      return infinite ? inf : size;
    };
    loop<std::remove_const_t<decltype(length)>, float, Pair<float>>(p, n);
  });
  // x - x is 0 for finite x, NaN otherwise.
  both_bool("isnan", [](auto a) { return (a.re != a.re) | (a.im != a.im); });
  both_bool("isfinite", [](auto a) { return (a.re - a.re == 0) & (a.im - a.im == 0); });
  both_bool("isinf", [](auto a) {
    constexpr auto inf = static_cast<decltype(a.re)>(__builtin_inf());
    return (a.re == inf) | (a.re == -inf) | (a.im == inf) | (a.im == -inf);
  });
}

const bool registered = [] {
  register_arithmetic();
  register_parts();
  return true;
}();

}  // namespace
}  // namespace adjoint::ADJOINT_ISA_TAG
