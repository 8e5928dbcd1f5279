// What the loops over rows and over columns share: the vector of a number type and its lanes.
// Included only by files that are compiled once per instruction set.
#pragma once
#include "kernels/isa/kernel_lines.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class T>
struct LanesOf;
template <>
struct LanesOf<float> {
  using V = f32;
};
template <>
struct LanesOf<double> {
  using V = f64;
};
template <class T>
using VecOf = typename LanesOf<T>::V;

// Set in the first `count` lanes.
template <class V>
ADJOINT_INLINE IntOf<V> first_lanes(int64_t count) {
  using Word = typename VecInfo<V>::Word;
  IntOf<V> index;
  for (int k = 0; k < kLanes<V>; ++k) index[k] = static_cast<Word>(k);
  return index < static_cast<Word>(count);
}

template <class V>
ADJOINT_INLINE ScalarOf<V> sum_of_lanes(V v) {
  ScalarOf<V> lane[kLanes<V>];
  memcpy(lane, &v, sizeof v);
#pragma GCC unroll 16
  for (int half = kLanes<V> / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lane[k] += lane[k + half];
  return lane[0];
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint

// Registers name<float> and name<double> under that name.
#define ROW_KERNEL(name, inputs)                                                                  \
  const LoopRegistrar name##_f32{kIsa, #name, inputs, Result::Same, DType::Float32, name<float>}; \
  const LoopRegistrar name##_f64{kIsa, #name, inputs, Result::Same, DType::Float64, name<double>};
