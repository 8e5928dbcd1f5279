// What the ops of linear algebra have in common: checks of their arguments, where the matrices of a
// batch lie, results in column-major order (as PyTorch's), and errors that name a matrix.
//
// The leading axes of every argument are batch axes. So vmap runs an op on one axis more
// (`batch::as_is`, `batch::lined_up`). Read next: kernels/linalg/linalg.h, then cholesky.cpp.
#pragma once
#include "dispatch/op.h"
#include "kernels/linalg/linalg.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint::matrices {

using T = const Tensor&;
using C = Context&;

// --- checks, in PyTorch's words ------------------------------------------------------------------
void check_ndim(const char* name, T a, const char* argument = "A");  // two axes at least
void check_square(const char* name, T a, const char* argument = "A");
void check_floating(const char* name, T a);          // RuntimeError for whole numbers
void check_full_precision(const char* kernel, T a);  // NotImplementedError for the rest
void check_same_dtype(const char* name, T a, T b, const char* of_a = "A", const char* of_b = "B");
// The sizes of a x = b (or x a = b with left = false).
void check_system(const char* name, T a, T b, bool left);

// Raises where a code is not zero, for the first such matrix: `describe(code)` completes
// "name: (Batch element 3): ".
using Describe = std::string (*)(int code);
void check_info(const char* name, T info, Describe describe);
std::string singular_solver(int code);
std::string singular_inverse(int code);

// --- memory --------------------------------------------------------------------------------------
// The matrices of a tensor, whose leading axes are one step apart: it is copied if they are not.
struct Laid {
  Tensor tensor;  // keeps the memory
  linalg::ConstPlace at;
  int64_t count;
};
Laid lay(T a);
// The same with the leading axes broadcast to `leading`; one matrix for all has a step of 0.
Laid lay(T a, Span leading);

Dims leading_of(T a);  // all axes but the last two
Dims with_matrix(Dims leading, int64_t m, int64_t n);
int64_t count_of(Span leading);
// Uninitialised, each matrix column by column.
Tensor empty_columns(Dims leading, int64_t m, int64_t n, DType dtype);
// A copy of a (its leading axes broadcast), column by column.
Tensor columns_of(T a);
Tensor columns_of(T a, Span leading);
Tensor empty_info(Span leading);
// Whether `operations` are enough to let other threads run meanwhile.
inline bool is_long(int64_t count, double operations) {
  return static_cast<double>(count) * operations >= kReleaseGil;
}

// --- ops on matrices -----------------------------------------------------------------------------
inline Tensor transposed(T a) { return op<"transpose">(a, -2, -1); }
inline Tensor conjugate(T a) { return is_complex(a.dtype()) ? op<"conj_physical">(a).tensor() : a; }
inline Tensor adjoint_of(T a) { return conjugate(transposed(a)); }
inline Tensor mul(T a, T b) { return op<"matmul">(a, b); }
inline Tensor tril(T a, int64_t k = 0) { return op<"tril">(a, k); }
inline Tensor triu(T a, int64_t k = 0) { return op<"triu">(a, k); }
inline Tensor diagonal(T a) { return op<"diagonal">(a, 0, -2, -1); }
inline Tensor row(T a) { return op<"unsqueeze">(a, -2); }
inline Tensor column(T a) { return op<"unsqueeze">(a, -1); }
inline Tensor real_part(T a) { return is_complex(a.dtype()) ? op<"real">(a).tensor() : a; }
// The first n rows (or columns), and those from n on.
inline Tensor first_rows(T a, int64_t n) { return op<"narrow">(a, -2, 0, n); }
inline Tensor rows_from(T a, int64_t n) { return op<"narrow">(a, -2, n, a.size(-2) - n); }
inline Tensor first_columns(T a, int64_t n) { return op<"narrow">(a, -1, 0, n); }
inline Tensor columns_from(T a, int64_t n) { return op<"narrow">(a, -1, n, a.size(-1) - n); }
inline Tensor solve_triangular(T a, T b, bool upper, bool left = true, bool unit = false) {
  return op<"linalg_solve_triangular">(a, b, upper, left, unit);
}
// Sums of gradients or tangents that may be missing.
inline Tensor plus(T a, T b) { return a && b ? a + b : a ? a : b; }
inline Tensor minus(T a, T b) { return a && b ? a - b : a ? a : b ? -b : b; }

}  // namespace adjoint::matrices
