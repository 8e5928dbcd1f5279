// Loads and stores of some lanes of a vector, by masks of one bit per lane.
// Included only by files that are compiled once per instruction set.
#pragma once
#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V>
inline constexpr uint32_t kAllLanes = (uint32_t{1} << kLanes<V>)-1;

// The lanes in `mask` of v[], moved together, to memory ...
template <class T>
ADJOINT_INLINE void store_lanes(T* p, const T* v, uint32_t mask) {
#if ADJOINT_SIMD == 512
  const uint32_t first = (uint32_t{1} << __builtin_popcount(mask)) - 1;
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(
        p, static_cast<__mmask16>(first),
        _mm512_maskz_compress_ps(static_cast<__mmask16>(mask), _mm512_loadu_ps(v)));
  else
    _mm512_mask_storeu_pd(
        p, static_cast<__mmask8>(first),
        _mm512_maskz_compress_pd(static_cast<__mmask8>(mask), _mm512_loadu_pd(v)));
#else
  for (; mask; mask &= mask - 1) *p++ = v[__builtin_ctz(mask)];
#endif
}

// ... and back, with zeros elsewhere.
template <class T>
ADJOINT_INLINE void load_lanes(T* v, const T* p, uint32_t mask) {
#if ADJOINT_SIMD == 512
  const uint32_t first = (uint32_t{1} << __builtin_popcount(mask)) - 1;
  if constexpr (sizeof(T) == 4)
    _mm512_storeu_ps(
        v, _mm512_maskz_expand_ps(static_cast<__mmask16>(mask),
                                  _mm512_maskz_loadu_ps(static_cast<__mmask16>(first), p)));
  else
    _mm512_storeu_pd(
        v, _mm512_maskz_expand_pd(static_cast<__mmask8>(mask),
                                  _mm512_maskz_loadu_pd(static_cast<__mmask8>(first), p)));
#else
  for (int l = 0; l < kLanes<VecOf<T> >; ++l) v[l] = mask >> l & 1 ? *p++ : T(0);
#endif
}

// Zeros instead of what stands outside of `mask`; all of it is read.
template <class T>
ADJOINT_INLINE VecOf<T> load_where(const T* p, uint32_t mask) {
  using V = VecOf<T>;
#if ADJOINT_SIMD == 512
  if constexpr (sizeof(T) == 4)
    return (V)_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p);
  else
    return (V)_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), p);
#else
  using Word = typename VecInfo<V>::Word;
  IntOf<V> bit;
  for (int l = 0; l < kLanes<V>; ++l) bit[l] = Word(1) << l;
  const IntOf<V> on = ((IntOf<V>{} + static_cast<Word>(mask)) & bit) == bit;
  return from_bits(bits(load<T, V>(p)) & on);
#endif
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
