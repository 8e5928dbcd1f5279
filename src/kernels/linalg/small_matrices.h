// Batches of small real matrices, up to 16 x 16, without LAPACK's price per call: as many matrices
// as a vector has lanes are worked on side by side, each lane an elimination of its own (pivots
// included). Lanes that are left over repeat the last matrix.
//
// Results agree with LAPACK's to rounding, pivots and info codes exactly in all but ties.
// Read next: kernels/isa/small_matrices.cpp for the factorizations, kernels/isa/small_eigen.cpp for eigenvectors,
// linalg.h for who calls these.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace adjoint::small {

inline constexpr int kLargest = 16;  // rows; LAPACK wins beyond

// Where a batch of matrices lies: element (i, j) of matrix b at data[b * step + i * row + j * col],
// strides in elements.
struct Place {
  void* data = nullptr;
  int64_t row = 0, col = 0, step = 0;
  Place transposed() const { return {data, col, row, step}; }
};
struct ConstPlace {
  const void* data = nullptr;
  int64_t row = 0, col = 0, step = 0;
  ConstPlace() = default;
  ConstPlace(const void* d, int64_t r, int64_t c, int64_t s) : data(d), row(r), col(c), step(s) {}
  ConstPlace(const Place& p) : data(p.data), row(p.row), col(p.col), step(p.step) {}
  ConstPlace transposed() const { return {data, col, row, step}; }
};

// Each works on matrices [begin, end) of its batches. What is written may be what is read.
struct Loops {
  // a = l l^T from the lower triangle of a; zeros above. info: 0, or the order of the minor that is
  // not positive.
  void (*cholesky)(int n, ConstPlace a, Place l, int* info, int64_t begin, int64_t end);
  // p a = l u in one matrix, pivots as LAPACK's; info: 0, or which pivot is zero.
  void (*lu)(int n, ConstPlace a, Place lu, int* pivots, int* info, int64_t begin, int64_t end);
  // x = a^-1 b (or its transpose) from what lu() found; one step of pivots is n, or 0 for all.
  void (*lu_solve)(int n, int columns, ConstPlace lu, const int* pivots, int64_t pivot_step,
                   ConstPlace b, Place x, bool transposed, int64_t begin, int64_t end);
  // lu() and lu_solve() at once.
  void (*solve)(int n, int columns, ConstPlace a, ConstPlace b, Place lu, int* pivots, int* info,
                Place x, int64_t begin, int64_t end);
  // x = a^-1 b from one triangle of a; with `unit` its diagonal is taken for ones.
  void (*triangular)(int n, int columns, ConstPlace a, ConstPlace b, Place x, bool upper, bool unit,
                     int64_t begin, int64_t end);
  // a = v diag(w) v^T from the lower triangle of a, w ascending (row stride 1, one step of w is n).
  // v may have no data. info: 0, or 1 where it does not converge (not finite).
  void (*eigh)(int n, ConstPlace a, void* w, Place v, int* info, int64_t begin, int64_t end);
};

// The loops of this processor for float32 or float64.
const Loops& loops(DType dtype);

}  // namespace adjoint::small
