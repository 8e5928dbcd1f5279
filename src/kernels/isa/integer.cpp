// Division, powers, common divisors and bits of integers, elementwise. A division by zero raises
// the flag of kernels/elementwise/faults.h and leaves some value; the most negative number divided by -1 wraps.
// Read next: kernels/elementwise/loops.h, arithmetic.cpp for sums and products.
#include <limits>

#include "kernels/elementwise/faults.h"
#include "kernels/elementwise/loops.h"

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

#define INTS uint8_t, int8_t, int16_t, int32_t, int64_t

// The quotient rounded towards zero. Processors have no vector division of integers, but floats
// with twice the digits give it exactly: the rounding error of a/b is far below 1/b, the least
// distance of a fractional quotient from the next integer.
template <class T>
inline T quotient(T a, T b) {
  const bool negate = std::is_signed_v<T> && b == T(-1);
  if constexpr (sizeof(T) == 8) {
    if (b == 0) return 0;
    return negate ? T(wide_t<T>(0) - a) : T(a / b);
  } else {
    using F = std::conditional_t<sizeof(T) == 4, double, float>;
    const F divisor = b == 0 ? static_cast<F>(__builtin_inf()) : negate ? F(1) : F(b);
    const auto q = static_cast<wide_t<T>>(static_cast<int32_t>(F(a) / divisor));
    return T(negate ? 0 - q : q);
  }
}

template <class T>
inline T rest(T a, T b) {
  return T(a - wide_t<T>(quotient(a, b)) * b);
}

// Whether rounding down differs from rounding towards zero.
template <class T>
inline bool rounds_down(T rest, T b) {
  return (rest != 0) & ((rest < 0) != (b < 0));
}

template <class F, class T>
void division_loop(char* const* p, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T* a = reinterpret_cast<const T*>(p[1]);
  const T* b = reinterpret_cast<const T*>(p[2]);
  T zeros = 0;
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T divisor = b[i];
    zeros |= T(divisor == 0);
    out[i] = F{}(a[i], divisor);
  }
  if (zeros) raise_integer_fault();
}

template <class... T, class F>
void division(const char* name, F) {
  (register_loop(kThisIsa, name, 2, Result::Same, dtype_of<T>::value, division_loop<F, T>), ...);
  register_trait(name, kDividesIntegers);
}

void register_division() {
  division<INTS>("trunc_divide", [](auto a, auto b) { return quotient(a, b); });
  division<INTS>("floor_divide", [](auto a, auto b) {
    using T = decltype(a);
    const T q = quotient(a, b);
    const T r = T(a - wide_t<T>(q) * b);
    return T(q - wide_t<T>(rounds_down(r, b)));
  });
  division<INTS>("fmod", [](auto a, auto b) { return rest(a, b); });
  division<INTS>("remainder", [](auto a, auto b) {
    using T = decltype(a);
    const T r = rest(a, b);
    return T(wide_t<T>(r) + wide_t<T>(rounds_down(r, b) ? b : T(0)));
  });
}

template <class T>
inline wide_t<T> magnitude(T a) {
  return a < 0 ? 0 - wide_t<T>(a) : wide_t<T>(a);
}

template <class T>
inline wide_t<T> greatest_common_divisor(T x, T y) {
  auto a = magnitude(x), b = magnitude(y);
  while (b != 0) {
    const auto next = a % b;
    a = b;
    b = next;
  }
  return a;
}

// x^(-k) of integers is 0 except for 1 and -1, whose powers are their own inverses; of 0 it is 0.
template <class T>
inline T power(T x, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) return x == 1 ? T(1) : x == -1 ? (exponent % 2 ? T(-1) : T(1)) : T(0);
  }
  wide_t<T> result = 1, base = wide_t<T>(x);
  for (auto k = static_cast<std::make_unsigned_t<T>>(exponent); k != 0; k >>= 1) {
    if (k & 1) result *= base;
    base *= base;
  }
  return T(result);
}

void register_number_theory() {
  same<INTS>("pow", [](auto a, auto b) { return power(a, b); });
  same<INTS>("gcd", [](auto a, auto b) { return greatest_common_divisor(a, b); });
  same<INTS>("lcm", [](auto a, auto b) {
    using T = decltype(a);
    using Signed = std::make_signed_t<wide_t<T>>;
    const auto g = greatest_common_divisor(a, b);
    if (g == 0) return wide_t<T>(0);
    // The product wraps in at least 32 bits and loses its sign after that, as PyTorch's does.
    const auto part = magnitude(a) / g;
    const auto product = static_cast<Signed>((a < 0 ? 0 - part : part) * wide_t<T>(b));
    return magnitude(product);
  });
}

template <class T>
inline constexpr int kBits = 8 * sizeof(T);

void register_bits() {
  for (const char* name : {"bitwise_and", "bitwise_or", "bitwise_xor"})
    register_trait(name, kSignless);
  same<bool, INTS>("bitwise_and", [](auto a, auto b) { return a & b; });
  same<bool, INTS>("bitwise_or", [](auto a, auto b) { return a | b; });
  same<bool, INTS>("bitwise_xor", [](auto a, auto b) { return a ^ b; });
  same<INTS>("bitwise_not", [](auto a) { return ~a; });
  same<bool>("bitwise_not", [](bool a) { return !a; });
  // A shift by the width or more, or by a negative count, leaves nothing but the sign.
  same<INTS>("bitwise_left_shift", [](auto a, auto b) {
    using T = decltype(a);
    const bool fits = (b >= 0) & (b < kBits<T>);
    const auto shifted = wide_t<T>(a) << (fits ? b : T(0));
    return fits ? shifted : 0;
  });
  same<INTS>("bitwise_right_shift", [](auto a, auto b) {
    using T = decltype(a);
    const bool fits = (b >= 0) & (b < kBits<T>);
    const T nothing = a < 0 ? T(-1) : T(0);
    return fits ? T(a >> (fits ? b : T(0))) : nothing;
  });
}

const bool registered = [] {
  register_division();
  register_number_theory();
  register_bits();
  return true;
}();

}  // namespace
}  // namespace adjoint::ADJOINT_ISA_TAG
