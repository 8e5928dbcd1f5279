// Sums, products, fused forms, clamping and selection, elementwise. Integers wrap around; bool adds
// by `or` and multiplies by `and`. Scalars such as alpha or value arrive as operands.
// Read next: kernels/elementwise/loops.h; integer.cpp for division and powers of integers.
#include "kernels/elementwise/loops.h"

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

#define FLOATS float, double
#define INTS uint8_t, int8_t, int16_t, int32_t, int64_t

void register_float_arithmetic() {
  same<FLOATS>("add", [](auto a, auto b) { return a + b; });
  same<FLOATS>("sub", [](auto a, auto b) { return a - b; });
  same<FLOATS>("mul", [](auto a, auto b) { return a * b; });
  same<FLOATS>("div", [](auto a, auto b) { return a / b; });
  same<FLOATS>("add_scaled", [](auto a, auto b, auto alpha) { return a + alpha * b; });
  same<FLOATS>("rsub_scaled", [](auto a, auto b, auto alpha) { return b - alpha * a; });
  same<FLOATS>("addcmul", [](auto a, auto b, auto c, auto value) { return a + value * b * c; });
  same<FLOATS>("addcdiv", [](auto a, auto b, auto c, auto value) { return a + value * b / c; });
  // Two forms of one line, so that weight 0 gives `a` and weight 1 gives `b` exactly.
  same<FLOATS>("lerp", [](auto a, auto b, auto w) {
    using T = decltype(a);
    const T span = b - a;
    const bool near_a = w < T(0.5) && w > T(-0.5);
    return near_a ? a + w * span : b - span * (T(1) - w);
  });
}

void register_integer_arithmetic() {
  same<INTS>("add", [](auto a, auto b) { return wide_t<decltype(a)>(a) + b; });
  same<INTS>("sub", [](auto a, auto b) { return wide_t<decltype(a)>(a) - b; });
  register_trait("mul", kProduct);
  register_trait("mul", kSignless);
  same<INTS>("mul", [](auto a, auto b) { return wide_t<decltype(a)>(a) * b; });
  same<INTS>("add_scaled",
             [](auto a, auto b, auto alpha) { return wide_t<decltype(a)>(alpha) * b + a; });
  same<INTS>("rsub_scaled",
             [](auto a, auto b, auto alpha) { return b - wide_t<decltype(a)>(alpha) * a; });
  same<INTS>("addcmul", [](auto a, auto b, auto c, auto value) {
    return wide_t<decltype(a)>(value) * b * c + a;
  });
  same<INTS>("neg", [](auto a) { return wide_t<decltype(a)>(0) - a; });
  same<INTS>("abs", [](auto a) {
    const auto bits = wide_t<decltype(a)>(a);
    return a < 0 ? 0 - bits : bits;
  });
  same<INTS>("sign", [](auto a) { return (a > 0) - (a < 0); });
  same<INTS>("square", [](auto a) { return wide_t<decltype(a)>(a) * a; });
  register_trait("positive", kSignless);
  same<INTS>("positive", [](auto a) { return a; });
}

void register_bool_arithmetic() {
  same<bool>("add", [](bool a, bool b) { return a | b; });
  same<bool>("mul", [](bool a, bool b) { return a & b; });
  same<bool>("add_scaled", [](bool a, bool b, bool alpha) { return a | (alpha & b); });
  same<bool>("sign", [](bool a) { return a; });
  same<bool>("maximum", [](bool a, bool b) { return a | b; });
  same<bool>("minimum", [](bool a, bool b) { return a & b; });
}

// The larger or smaller of two, NaN if either is; `x != x` is never true of an integer.
constexpr auto larger = [](auto x, auto low) { return ((x < low) | (low != low)) ? low : x; };
constexpr auto smaller = [](auto x, auto high) { return ((x > high) | (high != high)) ? high : x; };

void register_bounds() {
  same<INTS>("maximum", larger);
  same<INTS>("minimum", smaller);
  same<FLOATS, INTS>("clamp_min", larger);
  same<FLOATS, INTS>("clamp_max", smaller);
  // Where the bounds cross, the upper one wins.
  same<FLOATS, INTS>("clamp",
                     [](auto x, auto low, auto high) { return smaller(larger(x, low), high); });
  same<FLOATS>("nan_to_num", [](auto x, auto nan, auto posinf, auto neginf) {
    using T = decltype(x);
    constexpr T inf = static_cast<T>(__builtin_inf());
    return x != x ? nan : x == inf ? posinf : x == -inf ? neginf : x;
  });
}

// A selection only moves bits, so one loop per size of element serves every dtype of that size.
// Complex elements are only aligned as their parts are.
struct [[gnu::packed, gnu::aligned(4)]] TwoFloats {
  uint64_t bits;
};
struct TwoDoubles {
  uint64_t re, im;
};
constexpr auto choose = [](bool condition, auto a, auto b) {
  using T = decltype(a);
  if constexpr (std::is_same_v<T, TwoFloats>)
    return T{condition ? a.bits : b.bits};
  else if constexpr (std::is_same_v<T, TwoDoubles>)
    return T{condition ? a.re : b.re, condition ? a.im : b.im};
  else
    return condition ? a : b;
};

template <class T>
void register_where(DType dtype) {
  register_loop(kThisIsa, "where", 3, Result::Same, dtype,
                loop<std::remove_const_t<decltype(choose)>, T, bool, T, T>);
}

void register_selection() {
  register_trait("where", kCondition);
  register_trait("where", kSignless);
  register_where<uint8_t>(DType::Bool);
  register_where<uint8_t>(DType::UInt8);
  register_where<uint8_t>(DType::Int8);
  register_where<uint16_t>(DType::Int16);
  register_where<uint16_t>(DType::Float16);
  register_where<uint16_t>(DType::BFloat16);
  register_where<uint32_t>(DType::Int32);
  register_where<uint32_t>(DType::Float32);
  register_where<uint64_t>(DType::Int64);
  register_where<uint64_t>(DType::Float64);
  register_where<TwoFloats>(DType::Complex64);
  register_where<TwoDoubles>(DType::Complex128);
}

const bool registered = [] {
  register_float_arithmetic();
  register_integer_arithmetic();
  register_bool_arithmetic();
  register_bounds();
  register_selection();
  return true;
}();

}  // namespace
}  // namespace adjoint::ADJOINT_ISA_TAG
