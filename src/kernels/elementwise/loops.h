// How an elementwise lambda becomes a Loop and is registered under a name for some dtypes:
//
//   same<float, double>("add", [](auto a, auto b) { return a + b; });
//   to_bool<float, double>("lt", [](auto a, auto b) { return a < b; });
//
// The lambda's arity is the kernel's. Everything here is built once per instruction set, in the
// namespace of its tag. Read next: kernels/isa/arithmetic.cpp.
#pragma once
#include <type_traits>
#include <utility>

#include "kernels/independent_loop.h"
#include "kernels/kernel.h"

namespace adjoint::ADJOINT_ISA_TAG {

inline constexpr Isa kThisIsa = Isa::ADJOINT_ISA_TAG;

// A bool in memory may hold any byte when it came from outside; C++ may only load 0 and 1 as bool.
template <class T>
struct Cell {
  using type = T;
};
template <>
struct Cell<bool> {
  using type = uint8_t;
};
template <class T>
using cell_t = typename Cell<T>::type;

template <class T>
inline T load(cell_t<T> cell) {
  if constexpr (std::is_same_v<T, bool>) {
    return cell != 0;
  } else {
    return cell;
  }
}

// Below this many elements a plain scalar loop beats the vector loop with its prologue and tail.
inline constexpr int64_t kScalarBelow = 8;

template <class F, class Out, class... In>
inline void run(int64_t n, cell_t<Out>* out, const cell_t<In>*... in) {
  if (n < kScalarBelow) {
    for (int64_t i = 0; i < n; ++i) {
      asm volatile("");  // keeps the compiler from vectorising this loop too
      out[i] = static_cast<Out>(F{}(load<In>(in[i])...));
    }
    return;
  }
  // The output may be an input's memory exactly, never partly: no element depends on another.
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(F{}(load<In>(in[i])...));
}

template <class F, class Out, class... In, size_t... I>
inline void unpack(char* const* p, int64_t n, std::index_sequence<I...>) {
  run<F, Out, In...>(n, reinterpret_cast<cell_t<Out>*>(p[0]),
                     reinterpret_cast<const cell_t<In>*>(p[I + 1])...);
}

template <class F, class Out, class... In>
void loop(char* const* p, int64_t n) {
  unpack<F, Out, In...>(p, n, std::index_sequence_for<In...>{});
}

// The type list of a loop whose inputs all have type T, by the lambda's arity.
template <class F, class Out, class T>
constexpr Loop uniform_loop() {
  if constexpr (std::is_invocable_v<F, T>) {
    return loop<F, Out, T>;
  } else if constexpr (std::is_invocable_v<F, T, T>) {
    return loop<F, Out, T, T>;
  } else if constexpr (std::is_invocable_v<F, T, T, T>) {
    return loop<F, Out, T, T, T>;
  } else {
    return loop<F, Out, T, T, T, T>;
  }
}

template <class F, class T>
constexpr int arity() {
  return std::is_invocable_v<F, T>         ? 1
         : std::is_invocable_v<F, T, T>    ? 2
         : std::is_invocable_v<F, T, T, T> ? 3
                                           : 4;
}

template <class... T, class F>
void same(const char* name, F) {
  (register_loop(kThisIsa, name, arity<F, T>(), Result::Same, dtype_of<T>::value,
                 uniform_loop<F, T, T>()),
   ...);
}

template <class... T, class F>
void to_bool(const char* name, F) {
  (register_loop(kThisIsa, name, arity<F, T>(), Result::Bool, dtype_of<T>::value,
                 uniform_loop<F, bool, T>()),
   ...);
}

// Integer arithmetic that wraps: done in an unsigned type at least as wide as int, since narrower
// ones would be promoted to signed int, whose overflow is undefined.
template <class T>
using wide_t = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

}  // namespace adjoint::ADJOINT_ISA_TAG
