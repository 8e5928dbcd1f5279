// Vector types of this build's instruction set and the few operations that C++ operators lack.
// A vector is a GCC/Clang vector extension: + - * / & | ^ << >> and comparisons work lane by lane,
// a comparison gives an integer vector of 0 or -1, and `mask ? a : b` selects lanes.
//
// Included only by files that are compiled once per instruction set. Everything here and in the
// math_*.h files is always inlined and lives in a namespace named after the instruction set; C
// library functions are called as __builtin_* because the inline overloads of <cmath> would be
// shared between builds.
//
// Read next: isa_lines.h for the loops over memory, math_exp.h for how a function is written.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernel.h"

#define ADJOINT_INLINE static inline __attribute__((always_inline))

// True where a*b+c is one instruction with one rounding; the compiler forms it
// (-ffp-contract=fast).
#if defined(__FMA__) || defined(__aarch64__)
#define ADJOINT_FMA 1
#else
#define ADJOINT_FMA 0
#endif

namespace adjoint {
namespace ADJOINT_ISA_TAG {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

typedef float f32 __attribute__((vector_size(kVectorBytes)));
typedef double f64 __attribute__((vector_size(kVectorBytes)));
typedef int32_t i32 __attribute__((vector_size(kVectorBytes)));
typedef int64_t i64 __attribute__((vector_size(kVectorBytes)));
typedef float f32half __attribute__((vector_size(kVectorBytes / 2)));  // as many lanes as f64
typedef int8_t m32 __attribute__((vector_size(kVectorBytes / 4)));     // one byte per f32 lane
typedef int8_t m64 __attribute__((vector_size(kVectorBytes / 8)));     // one byte per f64 lane

template <class V>
struct VecInfo;
template <>
struct VecInfo<f32> {
  using Scalar = float;
  using Int = i32;
  using Bytes = m32;
};
template <>
struct VecInfo<f64> {
  using Scalar = double;
  using Int = i64;
  using Bytes = m64;
};
template <class V>
using ScalarOf = typename VecInfo<V>::Scalar;
template <class V>
using IntOf = typename VecInfo<V>::Int;
template <class V>
inline constexpr int kLanes = kVectorBytes / sizeof(ScalarOf<V>);

template <class V>
ADJOINT_INLINE V splat(ScalarOf<V> a) {
  return a - V{};
}
ADJOINT_INLINE i32 bits(f32 x) { return (i32)x; }
ADJOINT_INLINE i64 bits(f64 x) { return (i64)x; }
ADJOINT_INLINE f32 from_bits(i32 x) { return (f32)x; }
ADJOINT_INLINE f64 from_bits(i64 x) { return (f64)x; }

template <class V>
inline constexpr ScalarOf<V> kInf = __builtin_inff();
template <class V>
inline constexpr ScalarOf<V> kNaN = __builtin_nanf("");

// The sign bit alone, and the number without it.
ADJOINT_INLINE i32 sign_bit(f32 x) { return bits(x) & INT32_MIN; }
ADJOINT_INLINE i64 sign_bit(f64 x) { return bits(x) & INT64_MIN; }
ADJOINT_INLINE f32 abs(f32 x) { return from_bits(bits(x) & INT32_MAX); }
ADJOINT_INLINE f64 abs(f64 x) { return from_bits(bits(x) & INT64_MAX); }
template <class V>
ADJOINT_INLINE V with_sign_of(V magnitude, V s) {
  return from_bits(bits(abs(magnitude)) | sign_bit(s));
}

// True if any lane of a comparison's result is set.
template <class I>
ADJOINT_INLINE bool any(I mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX__)
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#elif defined(__SSE4_1__)
  return !_mm_testz_si128((__m128i)mask, (__m128i)mask);
#else
  uint64_t words[kVectorBytes / 8], all = 0;
  memcpy(words, &mask, sizeof mask);
  for (uint64_t w : words) all |= w;
  return all != 0;
#endif
}

// Clamping that lets NaN in `x` through, as max(lo, x) and min(hi, x) instructions do.
template <class V>
ADJOINT_INLINE V at_least(V x, ScalarOf<V> lo) {
  return x < lo ? splat<V>(lo) : x;
}
template <class V>
ADJOINT_INLINE V at_most(V x, ScalarOf<V> hi) {
  return x > hi ? splat<V>(hi) : x;
}

// The scalar function `f` on each lane: for the rare, the hard and the not yet written.
template <class V, class F>
ADJOINT_INLINE V each_lane(V x, F f) {
  V r;
  for (int k = 0; k < kLanes<V>; ++k) r[k] = f(x[k]);
  return r;
}
template <class V, class F>
ADJOINT_INLINE V each_lane(V x, V y, F f) {
  V r;
  for (int k = 0; k < kLanes<V>; ++k) r[k] = f(x[k], y[k]);
  return r;
}

// Replaces the lanes of `r` where `mask` is set by the scalar function. Out of line: the lanes it
// is for are rare, and the loop around the fast path should stay small.
template <class V>
__attribute__((noinline)) static V patch_lanes(V r, V x, IntOf<V> mask,
                                               ScalarOf<V> (*f)(ScalarOf<V>)) {
  for (int k = 0; k < kLanes<V>; ++k)
    if (mask[k]) r[k] = f(x[k]);
  return r;
}
template <class V>
__attribute__((noinline)) static V patch_lanes(V r, V x, V y, IntOf<V> mask,
                                               ScalarOf<V> (*f)(ScalarOf<V>, ScalarOf<V>)) {
  for (int k = 0; k < kLanes<V>; ++k)
    if (mask[k]) r[k] = f(x[k], y[k]);
  return r;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
