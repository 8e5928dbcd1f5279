// Vector types of this build's instruction set and the few operations that C++ operators lack.
// A vector is a GCC/Clang vector extension: + - * / & | ^ << >> and comparisons work lane by lane,
// a comparison gives an integer vector of 0 or -1, and `mask ? a : b` selects lanes.
//
// Included only by files that are compiled once per instruction set. Everything here and in the
// math/ folder is always inlined and lives in a namespace named after the instruction set; C
// library functions are called as __builtin_* because the inline overloads of <cmath> would be
// shared between builds.
//
// Read next: kernel_lines.h for the loops over memory, math/exp.h for how a function is written.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/kernel.h"

// Bits of the vectors whose x86 intrinsics fill the gaps of the vector extensions; 0 where there
// are none and plain loops do it. ADJOINT_PLAIN_VECTORS=bytes builds the plain form at any width
// (for tests).
#if defined(ADJOINT_PLAIN_VECTORS)
#define ADJOINT_SIMD 0
#elif defined(__AVX512F__)
#define ADJOINT_SIMD 512
#elif defined(__AVX__)
#define ADJOINT_SIMD 256
#elif defined(__SSE4_1__)
#define ADJOINT_SIMD 128
#else
#define ADJOINT_SIMD 0
#endif

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

#if ADJOINT_SIMD
inline constexpr int kVectorBytes = ADJOINT_SIMD / 8;
#elif defined(ADJOINT_PLAIN_VECTORS)
inline constexpr int kVectorBytes = ADJOINT_PLAIN_VECTORS;
#else
inline constexpr int kVectorBytes = 16;
#endif

typedef float f32 __attribute__((vector_size(kVectorBytes)));
typedef double f64 __attribute__((vector_size(kVectorBytes)));
typedef int32_t i32 __attribute__((vector_size(kVectorBytes)));
typedef int64_t i64 __attribute__((vector_size(kVectorBytes)));
typedef uint32_t u32 __attribute__((vector_size(kVectorBytes)));
typedef uint64_t u64 __attribute__((vector_size(kVectorBytes)));
typedef float f32half __attribute__((vector_size(kVectorBytes / 2)));  // as many lanes as f64
typedef int8_t m32 __attribute__((vector_size(kVectorBytes / 4)));     // one byte per f32 lane
typedef int8_t m64 __attribute__((vector_size(kVectorBytes / 8)));     // one byte per f64 lane

template <class V>
struct VecInfo;
template <>
struct VecInfo<f32> {
  using Scalar = float;
  using Int = i32;
  using Word = int32_t;
  using Bytes = m32;
};
template <>
struct VecInfo<f64> {
  using Scalar = double;
  using Int = i64;
  using Word = int64_t;
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

// Sums of bit patterns; lanes that hold NaN may wrap.
ADJOINT_INLINE i32 wrapping_add(i32 a, i32 b) { return (i32)((u32)a + (u32)b); }
ADJOINT_INLINE i64 wrapping_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }

// The sign bit alone, and the number without it.
template <class V>
inline constexpr typename VecInfo<V>::Word kSignBit =
    std::numeric_limits<typename VecInfo<V>::Word>::min();
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
#if ADJOINT_SIMD == 512
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif ADJOINT_SIMD == 256
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#elif ADJOINT_SIMD == 128
  return !_mm_testz_si128((__m128i)mask, (__m128i)mask);
#else
  uint64_t words[kVectorBytes / 8], all = 0;
  memcpy(words, &mask, sizeof mask);
  for (uint64_t w : words) all |= w;
  return all != 0;
#endif
}

// True unless x <= limit in all lanes; NaN is not. (The compiler makes a vector of a mask and then a mask
// of it again.)
ADJOINT_INLINE bool any_above(f32 x, float limit) {
#if ADJOINT_SIMD == 512
  return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(limit), _CMP_NLE_UQ) != 0;
#else
  return any(~(x <= limit));
#endif
}
ADJOINT_INLINE bool any_above(f64 x, double limit) {
#if ADJOINT_SIMD == 512
  return _mm512_cmp_pd_mask((__m512d)x, _mm512_set1_pd(limit), _CMP_NLE_UQ) != 0;
#else
  return any(~(x <= limit));
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

// c[B] + c[B+1]*x + ... up to c[E-1], by Estrin's rule: short chains of dependent operations, since
// a processor sees only a few vectors ahead. `powers` holds x, x^2, x^4, x^8, x^16.
template <int B, int E, class V>
ADJOINT_INLINE V poly_part(const V* powers, const ScalarOf<V>* c) {
  constexpr int n = E - B;
  if constexpr (n == 1) {
    return splat<V>(c[B]);
  } else {
    constexpr int level = n > 16 ? 4 : n > 8 ? 3 : n > 4 ? 2 : n > 2 ? 1 : 0;
    constexpr int middle = B + (1 << level);
    if constexpr (n == 2)
      return powers[0] * c[B + 1] + c[B];
    else
      return poly_part<middle, E>(powers, c) * powers[level] + poly_part<B, middle>(powers, c);
  }
}
template <class V, int N>
ADJOINT_INLINE V poly(V x, const ScalarOf<V> (&c)[N]) {
  V powers[5] = {x};
  for (int k = 1; k < 5; ++k) powers[k] = powers[k - 1] * powers[k - 1];  // the unused ones vanish
  return poly_part<0, N>(powers, c);
}

// The same with the last three steps by Horner's rule: slower, but more accurate where the terms do
// not shrink fast.
template <class V, int N>
ADJOINT_INLINE V poly_careful(V x, const ScalarOf<V> (&c)[N]) {
  V powers[5] = {x};
  for (int k = 1; k < 5; ++k) powers[k] = powers[k - 1] * powers[k - 1];
  return ((poly_part<3, N>(powers, c) * x + c[2]) * x + c[1]) * x + c[0];
}

// Adding 1.5 * 2^(mantissa bits) rounds to the nearest integer and leaves it in the low bits.
template <class V>
inline constexpr ScalarOf<V> kMagic = sizeof(ScalarOf<V>) == 4 ? 0x1.8p23 : 0x1.8p52;
template <class V>
inline constexpr int kMantissa = sizeof(ScalarOf<V>) == 4 ? 23 : 52;
// The bit pattern of 1.
template <class V>
inline constexpr int64_t kOneBits = sizeof(ScalarOf<V>) == 4 ? 0x3f800000 : 0x3ff0000000000000;

// 2^n for the integer in the low bits of t = n + kMagic, n within the normal exponents.
template <class V>
ADJOINT_INLINE V exp2_of_magic(V t) {
  return from_bits(
      wrapping_add(bits(t) << kMantissa<V>, IntOf<V>{} + typename VecInfo<V>::Word(kOneBits<V>)));
}
// x * 2^n by adding to the exponent: right if x and the result are normal numbers.
template <class V>
ADJOINT_INLINE V scale_normal(V x, V t) {
  return from_bits(wrapping_add(bits(x), bits(t) << kMantissa<V>));
}

// Between f64 lanes and as many floats. (gcc 12 splits the conversion in two on AVX.)
ADJOINT_INLINE f64 widen(f32half x) {
#if ADJOINT_SIMD == 512
  return (f64)_mm512_maskz_cvtps_pd(0xff, (__m256)x);
#elif ADJOINT_SIMD == 256
  return (f64)_mm256_cvtps_pd((__m128)x);
#else
  return __builtin_convertvector(x, f64);
#endif
}
ADJOINT_INLINE f32half narrow(f64 x) { return __builtin_convertvector(x, f32half); }

// A function of f64 applied to f32 lanes, rounded once.
template <class F>
ADJOINT_INLINE f32 in_f64(f32 x, F f) {
  f32half h[2];
  memcpy(h, &x, sizeof x);
  h[0] = narrow(f(widen(h[0])));
  h[1] = narrow(f(widen(h[1])));
  memcpy(&x, h, sizeof x);
  return x;
}

// A product that must be rounded: keeps the compiler from fusing it into what uses it.
template <class V>
ADJOINT_INLINE V rounded(V x) {
#if ADJOINT_SIMD
  __asm__("" : "+x"(x));
#elif defined(__aarch64__)
  __asm__("" : "+w"(x));
#else
  __asm__("" : "+m"(x));
#endif
  return x;
}

// a*b = product + rest, exactly (barring underflow).
template <class V>
struct Sum2 {
  V hi, lo;
};
// a*b - c and c - a*b with one rounding, where ADJOINT_FMA. The compiler fuses other sums by
// itself, or not; these are for places that rely on it.
#if ADJOINT_SIMD == 512 && ADJOINT_FMA
#define ADJOINT_FUSED(name, op)                                       \
  ADJOINT_INLINE f32 name(f32 a, f32 b, f32 c) {                      \
    return (f32)_mm512_##op##_ps((__m512)a, (__m512)b, (__m512)c);    \
  }                                                                   \
  ADJOINT_INLINE f64 name(f64 a, f64 b, f64 c) {                      \
    return (f64)_mm512_##op##_pd((__m512d)a, (__m512d)b, (__m512d)c); \
  }
ADJOINT_FUSED(product_minus, fmsub)
ADJOINT_FUSED(minus_product, fnmadd)
#undef ADJOINT_FUSED
#elif ADJOINT_SIMD == 256 && ADJOINT_FMA
#define ADJOINT_FUSED(name, op)                                       \
  ADJOINT_INLINE f32 name(f32 a, f32 b, f32 c) {                      \
    return (f32)_mm256_##op##_ps((__m256)a, (__m256)b, (__m256)c);    \
  }                                                                   \
  ADJOINT_INLINE f64 name(f64 a, f64 b, f64 c) {                      \
    return (f64)_mm256_##op##_pd((__m256d)a, (__m256d)b, (__m256d)c); \
  }
ADJOINT_FUSED(product_minus, fmsub)
ADJOINT_FUSED(minus_product, fnmadd)
#undef ADJOINT_FUSED
#elif ADJOINT_FMA
template <class V>
ADJOINT_INLINE V product_minus(V a, V b, V c) {
  V r;
  for (int k = 0; k < kLanes<V>; ++k)
    r[k] = sizeof a[k] == 4 ? __builtin_fmaf(a[k], b[k], -c[k]) : __builtin_fma(a[k], b[k], -c[k]);
  return r;
}
template <class V>
ADJOINT_INLINE V minus_product(V a, V b, V c) {
  return -product_minus(a, b, c);
}
#endif

template <class V>
ADJOINT_INLINE Sum2<V> two_product(V a, V b) {
  V p = rounded(a * b);
#if ADJOINT_FMA
  return {p, product_minus(a, b, p)};
#else  // Dekker: halves of the mantissas, whose products are exact
  constexpr ScalarOf<V> split = sizeof(ScalarOf<V>) == 4 ? 4097 : 134217729;
  V ca = a * split, cb = b * split;
  V ah = ca - (ca - a), bh = cb - (cb - b);
  V al = a - ah, bl = b - bh;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
}
// a+b = sum + rest where |a| >= |b|.
template <class V>
ADJOINT_INLINE Sum2<V> two_sum_ordered(V a, V b) {
  V s = a + b;
  return {s, b - (s - a)};
}
template <class V>
ADJOINT_INLINE Sum2<V> two_sum(V a, V b) {
  V s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
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
