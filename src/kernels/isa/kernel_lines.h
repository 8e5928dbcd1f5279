// The loops over memory, and the macros that make a kernel one line:
//
//   KERNEL1_FLOAT(exp, exp(x))             x is f32 in the float32 loop, f64 in the float64 loop
//   KERNEL1_WIDE(erfinv, erfinv(x))        x is f64 in both: float32 is widened, then rounded once
//   KERNEL2_FLOAT(maximum, maximum(x, y))  likewise 2_WIDE, 3_FLOAT (x, y, z) to 5_FLOAT (v, ..., z)
//   KERNEL2_WIDE_PAIR(pow, e32, e64)       in f64 for both, with a shorter expression for float32
//   KERNEL1_PREDICATE(isnan, x != x)       x is one number, the output one byte
//
// KERNEL1_FLOAT(exp, exp(x)) expands to
//
//   struct exp_kernel { template <class V> static auto lane(V x) { return V(exp(x)); } };
//   static const LoopRegistrar exp_float{kIsa, "exp", 1, Result::Same, DType::Float32,
//                                        float_loop<float, f32, 1, exp_kernel>};
//   ... and the same for float64.
#pragma once
#include <utility>

#include "kernels/isa/vec.h"

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

// The last, incomplete vector. Unused lanes hold 1: no function takes its slow path for it. Masked
// loads, where there are any, spare the wait for a buffer that was written in pieces.
template <class T, class V>
ADJOINT_INLINE V load_part(const T* p, int64_t count) {
#if ADJOINT_SIMD == 512
  unsigned lanes = (1u << count) - 1;
  if constexpr (sizeof(T) == 8)
    return (V)_mm512_mask_loadu_pd(_mm512_set1_pd(1), lanes, p);
  else if constexpr (sizeof(ScalarOf<V>) == 4)
    return (V)_mm512_mask_loadu_ps(_mm512_set1_ps(1), lanes, p);
  else
    return widen((f32half)_mm256_mask_loadu_ps(_mm256_set1_ps(1), lanes, p));
#elif ADJOINT_SIMD == 256
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
  if constexpr (sizeof(T) == 8) {
    const __m256i wide = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(mask));
    return (i64)wide ? (V)_mm256_maskload_pd(p, wide) : splat<V>(1);
  } else if constexpr (sizeof(ScalarOf<V>) == 4) {
    return (i32)mask ? (V)_mm256_maskload_ps(p, mask) : splat<V>(1);
  } else {
    const __m128i half = _mm256_castsi256_si128(mask);
    return widen((f32half)_mm_blendv_ps(_mm_set1_ps(1), _mm_maskload_ps(p, half), (__m128)half));
  }
#else
  T buffer[kLanes<V>];
  for (T& b : buffer) b = 1;
  copy_part<kLanes<V> >(buffer, p, count);
  return load<T, V>(buffer);
#endif
}

// Stores of shrinking pieces straight from the register.
#if ADJOINT_SIMD == 256
ADJOINT_INLINE void store_part128(float* p, __m128 v, int64_t count) {
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), v);
    v = _mm_movehl_ps(v, v);
    p += 2;
  }
  if (count & 1) _mm_store_ss(p, v);
}
#endif

template <class T, class V>
ADJOINT_INLINE void store_part(T* p, V v, int64_t count) {
#if ADJOINT_SIMD == 512
  unsigned lanes = (1u << count) - 1;
  if constexpr (sizeof(T) == 8)
    _mm512_mask_storeu_pd(p, lanes, (__m512d)v);
  else if constexpr (sizeof(ScalarOf<V>) == 4)
    _mm512_mask_storeu_ps(p, lanes, (__m512)v);
  else
    _mm256_mask_storeu_ps(p, lanes, (__m256)narrow(v));
#elif ADJOINT_SIMD == 256
  if constexpr (sizeof(T) == 8) {
    __m128d half = _mm256_castpd256_pd128((__m256d)v);
    if (count & 2) {
      _mm_storeu_pd(p, half);
      half = _mm256_extractf128_pd((__m256d)v, 1);
      p += 2;
    }
    if (count & 1) _mm_store_sd(p, half);
  } else if constexpr (sizeof(ScalarOf<V>) == 4) {
    __m128 half = _mm256_castps256_ps128((__m256)v);
    if (count & 4) {
      _mm_storeu_ps(p, half);
      half = _mm256_extractf128_ps((__m256)v, 1);
      p += 4;
    }
    store_part128(p, half, count);
  } else {
    store_part128(p, (__m128)narrow(v), count);
  }
#else
  T buffer[kLanes<V>];
  store<T, V>(buffer, v);
  copy_part<kLanes<V> >(p, static_cast<const T*>(buffer), count);
#endif
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

inline constexpr float kInfinity = __builtin_inff();

// Predicates write bytes 0 or 1. Here x is one number: the compiler vectorises these loops, the
// packing of masks into bytes included, better than vector types allow to write it.
template <class T, class K>
static void predicate_loop(char* const* p, int64_t n) {
  const T* in = reinterpret_cast<const T*>(p[1]);
  uint8_t* out = reinterpret_cast<uint8_t*>(p[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = K::template lane<T>(in[i]);
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
#define KERNEL5_FLOAT(name, ...)                                       \
  ADJOINT_LANE_STRUCT(name, (V v, V w, V x, V y, V z), V(__VA_ARGS__)) \
  ADJOINT_REGISTER_FLOAT(name, 5, f32)
#define KERNEL1_PREDICATE(name, ...)                                                       \
  ADJOINT_LANE_STRUCT(name, (V x), __VA_ARGS__)                                            \
  static const LoopRegistrar name##_f32{                                                   \
      kIsa, #name, 1, Result::Bool, DType::Float32, predicate_loop<float, name##_kernel>}; \
  static const LoopRegistrar name##_f64{                                                   \
      kIsa, #name, 1, Result::Bool, DType::Float64, predicate_loop<double, name##_kernel>};
