// Rounding, square roots, signs, maxima: functions of one or two instructions, with PyTorch's NaN
// rules.
#pragma once
#include "kernels/isa/vec.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

// Vector extensions have no operator for these; elsewhere the compiler turns the lane loop into
// one. (The maskz forms: gcc 12 warns about its own header for the plain ones.)
#if ADJOINT_SIMD == 512
ADJOINT_INLINE f32 sqrt(f32 x) { return (f32)_mm512_maskz_sqrt_ps(0xffff, (__m512)x); }
ADJOINT_INLINE f64 sqrt(f64 x) { return (f64)_mm512_maskz_sqrt_pd(0xff, (__m512d)x); }
#define ADJOINT_ROUNDING(name, mode)                                     \
  ADJOINT_INLINE f32 name(f32 x) {                                       \
    return (f32)_mm512_maskz_roundscale_ps(0xffff, (__m512)x, mode | 8); \
  }                                                                      \
  ADJOINT_INLINE f64 name(f64 x) {                                       \
    return (f64)_mm512_maskz_roundscale_pd(0xff, (__m512d)x, mode | 8);  \
  }
#elif ADJOINT_SIMD == 256
ADJOINT_INLINE f32 sqrt(f32 x) { return (f32)_mm256_sqrt_ps((__m256)x); }
ADJOINT_INLINE f64 sqrt(f64 x) { return (f64)_mm256_sqrt_pd((__m256d)x); }
#define ADJOINT_ROUNDING(name, mode)                                                   \
  ADJOINT_INLINE f32 name(f32 x) { return (f32)_mm256_round_ps((__m256)x, mode | 8); } \
  ADJOINT_INLINE f64 name(f64 x) { return (f64)_mm256_round_pd((__m256d)x, mode | 8); }
#elif ADJOINT_SIMD == 128
ADJOINT_INLINE f32 sqrt(f32 x) { return (f32)_mm_sqrt_ps((__m128)x); }
ADJOINT_INLINE f64 sqrt(f64 x) { return (f64)_mm_sqrt_pd((__m128d)x); }
#define ADJOINT_ROUNDING(name, mode)                                                \
  ADJOINT_INLINE f32 name(f32 x) { return (f32)_mm_round_ps((__m128)x, mode | 8); } \
  ADJOINT_INLINE f64 name(f64 x) { return (f64)_mm_round_pd((__m128d)x, mode | 8); }
#endif

#ifdef ADJOINT_ROUNDING
ADJOINT_ROUNDING(round, 0)
ADJOINT_ROUNDING(floor, 1)
ADJOINT_ROUNDING(ceil, 2)
ADJOINT_ROUNDING(trunc, 3)
#undef ADJOINT_ROUNDING
#else
template <class V>
ADJOINT_INLINE V sqrt(V x) {
  return each_lane(x,
                   [](auto a) { return sizeof a == 4 ? __builtin_sqrtf(a) : __builtin_sqrt(a); });
}
template <class V>
ADJOINT_INLINE V round(V x) {
  return each_lane(x, [](auto a) { return __builtin_rint(a); });
}
template <class V>
ADJOINT_INLINE V floor(V x) {
  return each_lane(x, [](auto a) { return __builtin_floor(a); });
}
template <class V>
ADJOINT_INLINE V ceil(V x) {
  return each_lane(x, [](auto a) { return __builtin_ceil(a); });
}
template <class V>
ADJOINT_INLINE V trunc(V x) {
  return each_lane(x, [](auto a) { return __builtin_trunc(a); });
}
#endif

// sign(NaN) is 0 in PyTorch, and sign(-0) is +0.
template <class V>
ADJOINT_INLINE V sign(V x) {
  V one = splat<V>(1);
  return x > 0 ? one : x < 0 ? -one : V{};
}

template <class V>
ADJOINT_INLINE V relu(V x) {
  return x < 0 ? V{} : x;
}  // NaN stays NaN, -0 stays -0

// NaN if either is; fmax and fmin prefer the number.
template <class V>
ADJOINT_INLINE V maximum(V x, V y) {
  return x > y ? x : x != x ? x : y;
}
template <class V>
ADJOINT_INLINE V minimum(V x, V y) {
  return x < y ? x : x != x ? x : y;
}
template <class V>
ADJOINT_INLINE V fmax(V x, V y) {
  return x >= y ? x : y != y ? x : y;
}
template <class V>
ADJOINT_INLINE V fmin(V x, V y) {
  return x <= y ? x : y != y ? x : y;
}

template <class V>
ADJOINT_INLINE V heaviside(V x, V at_zero) {
  return x == 0 ? at_zero : x > 0 ? splat<V>(1) : V{};
}

// The neighbour of x towards y: one step of the bit pattern, which is ordered like the magnitude.
template <class V>
ADJOINT_INLINE V nextafter(V x, V y) {
  using I = IntOf<V>;
  I up = (x < y) ^ (x < 0);  // -1: the magnitude grows
  I step = up ? I{} + 1 : I{} - 1;
  V moved = from_bits(wrapping_add(bits(x), step));
  V from_zero = from_bits((I{} + 1) | sign_bit(y));
  V r = x == 0 ? from_zero : moved;
  r = x == y ? y : r;
  return x != x ? x : y != y ? y : r;
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
