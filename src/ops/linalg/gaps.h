// Derivatives of eigenvectors and singular vectors divide by gaps between values: see gaps.cpp.
#pragma once
#include "ops/linalg/matrices.h"

namespace adjoint::matrices {

enum Gap : int {
  kDifference,  // element (i, j) by v_j - v_i, nothing on the diagonal
  kSum,         // by v_j + v_i
  kColumn,      // by v_j
};

// n / gap(values). Where a gap is zero (to rounding) the quotient is zero if `used` is, and an error
// otherwise. `of` names the function in it.
inline Tensor over_gaps(T n, T values, T used, Gap gap, const char* of) {
  return op<"_over_gaps">(n, values, used, static_cast<int>(gap), of);
}
// Whether anything depends on an element, or on a pair of them: a constant.
inline Tensor size_of(T m) {
  GradMode off(false);
  return op<"abs">(m);
}
inline Tensor pair_size(T m) {
  GradMode off(false);
  Tensor size = op<"abs">(m);
  return size + transposed(size);
}
// Raises unless the imaginary parts on the diagonal are (nearly) zero: a loss that depends on the phase
// of complex vectors, which is nobody's. PyTorch's tolerance, and roundings of the largest elements.
Tensor checked_phases(T m, const char* message);

// What the values of a spectrum ask of their weights: see Note [Weights of equal values].
enum Spectrum : int {
  kHermitian,      // eigenvalues with orthogonal vectors
  kGeneral,        // eigenvalues with any vectors
  kSingular,       // of real square matrices
  kSingularZeros,  // of others: the vectors of zero are a choice by themselves
};
// The gradient by values, unchanged; where its own derivative is not defined, that is an error.
inline Tensor weights_of(T gradient, T values, Spectrum kind, const char* of) {
  return op<"_weights_of">(gradient, values, static_cast<int>(kind), of);
}

// Whether a gradient may be asked for, so that vectors are worth computing along with values. Tangents
// are not a reason: those of vectors are not defined at equal values, where those of values are.
bool may_be_differentiated(T a);

}  // namespace adjoint::matrices
