// The loops over memory, and the macros that make a kernel one line:
//
//   KERNEL1_FLOAT(exp, exp(x))              x is f32 in the float32 loop and f64 in the float64
//   loop KERNEL1_WIDE(erf, erf(x))               x is f64 in both: float32 is computed in float64,
//   rounded once KERNEL2_FLOAT(maximum, maximum(x, y))   likewise 2_WIDE, 3_FLOAT (x, y, z),
//   4_FLOAT (w, x, y, z) KERNEL1_PREDICATE(isnan, x != x)        the expression is a mask, the
//   output one byte per element
//
// KERNEL1_FLOAT(exp, exp(x)) expands to
//
//   struct exp_kernel { template <class V> static V lane(V x) { return exp(x); } };
//   static const LoopRegistrar exp_f32{kIsa, "exp", 1, Result::Same, DType::Float32,
//                                      float_loop<float, f32, 1, exp_kernel>};
//   ... and the same for float64.
#pragma once
#include <utility>

#include "vec.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

inline constexpr Isa kIsa = Isa::ADJOINT_ISA_TAG;

// Memory holds T; the computation is in lanes of V (float may be widened to f64).
template <class T, class V>
ADJOINT_INLINE V load(const T* p) {
  if constexpr (sizeof(T) == sizeof(ScalarOf<V>)) {
    V v;
    memcpy(&v, p, sizeof v);
    return v;
  } else {
    f32half v;
    memcpy(&v, p, sizeof v);
    return widen(v);
  }
}

template <class T, class V>
ADJOINT_INLINE void store(T* p, V v) {
  if constexpr (sizeof(T) == sizeof(ScalarOf<V>)) {
    memcpy(p, &v, sizeof v);
  } else {
    f32half h = narrow(v);
    memcpy(p, &h, sizeof h);
  }
}

// Copies `count` < Capacity (a power of two) elements in power-of-two pieces: a call of memcpy with
// a variable size would cost more than the arithmetic on a short tensor.
template <int Capacity, class T>
ADJOINT_INLINE void copy_part(T* to, const T* from, int64_t count) {
  if constexpr (Capacity > 1) {
    constexpr int piece = Capacity / 2;
    if (count & piece) {
      memcpy(to, from, piece * sizeof(T));
      to += piece, from += piece;
    }
    copy_part<piece>(to, from, count);
  }
}

// The last, incomplete vector. Unused lanes hold 1: no function takes its slow path for it.
template <class T, class V>
ADJOINT_INLINE V load_part(const T* p, int64_t count) {
  T buffer[kLanes<V>];
  for (T& b : buffer) b = 1;
  copy_part<kLanes<V>>(buffer, p, count);
  return load<T, V>(buffer);
}

template <class T, class V>
ADJOINT_INLINE void store_part(T* p, V v, int64_t count) {
  T buffer[kLanes<V>];
  store<T, V>(buffer, v);
  copy_part<kLanes<V>>(p, static_cast<const T*>(buffer), count);
}

template <class T, class V, class K, size_t... I>
ADJOINT_INLINE void float_loop_over(char* const* p, int64_t n, std::index_sequence<I...>) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T* in[] = {reinterpret_cast<const T*>(p[I + 1])...};
  int64_t i = 0;
  for (; i + kLanes<V> <= n; i += kLanes<V>)
    store<T, V>(out + i, K::template lane<V>(load<T, V>(in[I] + i)...));
  if (i < n)
    store_part<T, V>(out + i, K::template lane<V>(load_part<T, V>(in[I] + i, n - i)...), n - i);
}

template <class T, class V, int Inputs, class K>
static void float_loop(char* const* p, int64_t n) {
  float_loop_over<T, V, K>(p, n, std::make_index_sequence<Inputs>());
}

// Predicates write bytes 0 or 1.
template <class T, class V, class K>
static void predicate_loop(char* const* p, int64_t n) {
  using Bytes = typename VecInfo<V>::Bytes;
  const T* in = reinterpret_cast<const T*>(p[1]);
  char* out = p[0];
  int64_t i = 0;
  for (; i + kLanes<V> <= n; i += kLanes<V>) {
    Bytes b = __builtin_convertvector(K::template lane<V>(load<T, V>(in + i)), Bytes) & 1;
    memcpy(out + i, &b, sizeof b);
  }
  if (i < n) {
    Bytes b =
        __builtin_convertvector(K::template lane<V>(load_part<T, V>(in + i, n - i)), Bytes) & 1;
    char buffer[sizeof b];
    memcpy(buffer, &b, sizeof b);
    copy_part<kLanes<V>>(out + i, static_cast<const char*>(buffer), n - i);
  }
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint

#define ADJOINT_LANE_STRUCT(name, params, ...)                      \
  struct name##_kernel {                                            \
    template <class V>                                              \
    __attribute__((always_inline)) static inline auto lane params { \
      return __VA_ARGS__;                                           \
    }                                                               \
  };
#define ADJOINT_REGISTER(name, inputs, T, V, kernel) \
  static const LoopRegistrar name##_##T{             \
      kIsa, #name, inputs, Result::Same, dtype_of<T>::value, float_loop<T, V, inputs, kernel>};
#define ADJOINT_REGISTER_FLOAT(name, inputs, narrow)           \
  ADJOINT_REGISTER(name, inputs, float, narrow, name##_kernel) \
  ADJOINT_REGISTER(name, inputs, double, f64, name##_kernel)

#define KERNEL1_FLOAT(name, ...)                   \
  ADJOINT_LANE_STRUCT(name, (V x), V(__VA_ARGS__)) \
  ADJOINT_REGISTER_FLOAT(name, 1, f32)
#define KERNEL1_WIDE(name, ...)                    \
  ADJOINT_LANE_STRUCT(name, (V x), V(__VA_ARGS__)) \
  ADJOINT_REGISTER_FLOAT(name, 1, f64)
#define KERNEL2_FLOAT(name, ...)                        \
  ADJOINT_LANE_STRUCT(name, (V x, V y), V(__VA_ARGS__)) \
  ADJOINT_REGISTER_FLOAT(name, 2, f32)
#define KERNEL2_WIDE(name, ...)                         \
  ADJOINT_LANE_STRUCT(name, (V x, V y), V(__VA_ARGS__)) \
  ADJOINT_REGISTER_FLOAT(name, 2, f64)
#define KERNEL2_WIDE_PAIR(name, for_float, for_double)          \
  ADJOINT_LANE_STRUCT(name##_float, (V x, V y), V(for_float))   \
  ADJOINT_LANE_STRUCT(name##_double, (V x, V y), V(for_double)) \
  ADJOINT_REGISTER(name, 2, float, f64, name##_float_kernel)    \
  ADJOINT_REGISTER(name, 2, double, f64, name##_double_kernel)
#define KERNEL3_FLOAT(name, ...)                             \
  ADJOINT_LANE_STRUCT(name, (V x, V y, V z), V(__VA_ARGS__)) \
  ADJOINT_REGISTER_FLOAT(name, 3, f32)
#define KERNEL4_FLOAT(name, ...)                                  \
  ADJOINT_LANE_STRUCT(name, (V w, V x, V y, V z), V(__VA_ARGS__)) \
  ADJOINT_REGISTER_FLOAT(name, 4, f32)
#define KERNEL1_PREDICATE(name, ...)                                                            \
  ADJOINT_LANE_STRUCT(name, (V x), __VA_ARGS__)                                                 \
  static const LoopRegistrar name##_f32{                                                        \
      kIsa, #name, 1, Result::Bool, DType::Float32, predicate_loop<float, f32, name##_kernel>}; \
  static const LoopRegistrar name##_f64{                                                        \
      kIsa, #name, 1, Result::Bool, DType::Float64, predicate_loop<double, f64, name##_kernel>};
