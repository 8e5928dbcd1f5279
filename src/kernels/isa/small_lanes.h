// Small matrices side by side in vectors: how they come in and go out. Included by files that are
// compiled once per instruction set; read kernels/linalg/small_matrices.h and vec.h first.
#pragma once
#include "kernels/linalg/small_matrices.h"
#include "kernels/isa/vec.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

using small::ConstPlace;
using small::kLargest;
using small::Place;

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using type = f32;
};
template <>
struct VectorOf<double> {
  using type = f64;
};
template <class T>
using LanesOf = typename VectorOf<T>::type;

ADJOINT_INLINE f64 root(f64 x) {
#if ADJOINT_SIMD == 512
  return (f64)_mm512_maskz_sqrt_pd(0xff, (__m512d)x);
#elif ADJOINT_SIMD == 256
  return (f64)_mm256_sqrt_pd((__m256d)x);
#elif ADJOINT_SIMD == 128
  return (f64)_mm_sqrt_pd((__m128d)x);
#else
  return each_lane(x, [](double v) { return __builtin_sqrt(v); });
#endif
}
ADJOINT_INLINE f32 root(f32 x) {
#if ADJOINT_SIMD == 512
  return (f32)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#elif ADJOINT_SIMD == 256
  return (f32)_mm256_sqrt_ps((__m256)x);
#elif ADJOINT_SIMD == 128
  return (f32)_mm_sqrt_ps((__m128)x);
#else
  return each_lane(x, [](float v) { return __builtin_sqrtf(v); });
#endif
}

// The matrices of one vector: `count` of them from number `first` on.
template <class T>
struct Group {
  using V = LanesOf<T>;
  static constexpr int kWidth = kLanes<V>;
  int64_t first;
  int count;

  // Element (i, j) of all of them.
  V read(const ConstPlace& p, int64_t i, int64_t j) const {
    const T* at = static_cast<const T*>(p.data) + first * p.step + i * p.row + j * p.col;
    if (count == 1 || p.step == 0) return splat<V>(*at);
    V v;
    if (count == kWidth) {
      for (int k = 0; k < kWidth; ++k) v[k] = at[k * p.step];
      return v;
    }
    for (int k = 0; k < kWidth; ++k) v[k] = at[(k < count ? k : count - 1) * p.step];
    return v;
  }
  void write(const Place& p, int64_t i, int64_t j, V v) const {
    T* at = static_cast<T*>(p.data) + first * p.step + i * p.row + j * p.col;
    for (int k = 0; k < count; ++k) at[k * p.step] = v[k];
  }
  // One number of each, from integers as wide as the elements.
  void write_ints(int* to, int64_t step, IntOf<V> v) const {
    for (int k = 0; k < count; ++k) to[(first + k) * step] = static_cast<int>(v[k]);
  }
};

template <class T, class F>
ADJOINT_INLINE void each_group(int64_t begin, int64_t end, F&& f) {
  for (int64_t i = begin; i < end; i += Group<T>::kWidth) {
    const int64_t left = end - i;
    f(Group<T>{i, left < Group<T>::kWidth ? static_cast<int>(left) : Group<T>::kWidth});
  }
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
