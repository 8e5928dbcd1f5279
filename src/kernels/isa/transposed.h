// Transposing small squares of numbers in registers. Included only by files that are compiled once per
// instruction set.
#pragma once
#include <utility>

#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

// Lanes of two vectors by turns: of their first halves, and of their second ones.
template <class V, size_t... I>
ADJOINT_INLINE void interleave(V a, V b, V& low, V& high, std::index_sequence<I...>) {
  constexpr int W = kLanes<V>;
  low = __builtin_shufflevector(a, b, (I % 2 * W + I / 2)...);
  high = __builtin_shufflevector(a, b, (I % 2 * W + W / 2 + I / 2)...);
}

// From line after line to element after element, `Lines` numbers each. A round moves every number to
// twice its place (and one more in the second half): so many rounds turn the bits of places round.
template <int Lines, class V>
ADJOINT_INLINE void across(V* x) {
#pragma GCC unroll 8
  for (int round = 1; round < Lines; round *= 2) {
    V y[Lines];
#pragma GCC unroll 16
    for (int i = 0; i < Lines / 2; ++i)
      interleave(x[i], x[i + Lines / 2], y[2 * i], y[2 * i + 1],
                 std::make_index_sequence<kLanes<V>>());
#pragma GCC unroll 16
    for (int i = 0; i < Lines; ++i) x[i] = y[i];
  }
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
