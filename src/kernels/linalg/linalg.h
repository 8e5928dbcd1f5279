// What LAPACK does to one matrix, done to batches of them: factorizations, systems, eigenvalues,
// singular values and least squares, of float32, float64, complex64 and complex128.
//
// A matrix is worked on by one thread; the matrices of a batch are shared out on the pool, so that
// no bit depends on the number of threads. Batches of small real matrices take a way of their own
// (small_matrices.h). None of this needs the GIL; no memory for scratch throws std::bad_alloc, a
// size beyond 2^31 - 1 std::invalid_argument.
//
// Unless a function says otherwise its batches are dense and column-major ("columns" below), one
// matrix after the other, and are worked on in place. `info` has one code per matrix: 0, or what
// LAPACK says. Read next: matrix_batches.h for how a batch is shared out, cholesky.cpp for the
// shortest of the families.
#pragma once
#include <cstdint>

#include "kernels/linalg/small_matrices.h"
#include "tensor/dtype.h"

namespace adjoint::linalg {

using small::ConstPlace;
using small::Place;

// Copies a batch of m x n matrices from wherever it lies into columns.
void gather(DType dtype, int64_t count, int64_t m, int64_t n, ConstPlace from, void* columns);
// Zeros above (or below) the diagonal of columns; `unit` puts ones on it.
void clear_triangle(DType dtype, int64_t count, int64_t m, int64_t n, bool above, bool unit,
                    void* columns);

// --- cholesky.cpp --------------------------------------------------------------------------------
// a = l l^H from the lower triangle (u^H u from the upper one), zeros in the other triangle.
void cholesky(DType dtype, int64_t count, int64_t n, bool upper, ConstPlace a, void* out,
              int* info);
// (l l^H)^-1, whole, from l (or u).
void cholesky_inverse(DType dtype, int64_t count, int64_t n, bool upper, void* a, int* info);

// --- lu.cpp --------------------------------------------------------------------------------------
// p a = l u, both in one matrix of m x n; min(m, n) pivots per matrix that count from 1.
void lu(DType dtype, int64_t count, int64_t m, int64_t n, ConstPlace a, void* out, int* pivots,
        int* info);
enum class Trans : char { No = 'N', Transposed = 'T', Adjoint = 'C' };
// b = op(a)^-1 b in place, from the columns of lu(). With lu_step = 0 all share one matrix.
void lu_solve(DType dtype, int64_t count, int64_t n, int64_t columns, Trans op, const void* lu,
              int64_t lu_step, const int* pivots, int64_t pivot_step, void* b);
// lu() of `count` matrices and x = a^-1 b, from wherever b lies.
void solve(DType dtype, int64_t count, int64_t n, int64_t columns, ConstPlace a, ConstPlace b,
           void* lu, int* pivots, int* info, void* x);
// a^-1 in place, from lu(); where info is not 0 nothing is done.
void invert(DType dtype, int64_t count, int64_t n, void* a, const int* pivots, const int* info);
// The products of the pivots of lu(), with their signs.
void determinants(DType dtype, int64_t count, int64_t n, const void* lu, const int* pivots,
                  void* det);
// Sign (or phase) and logarithm of the size of the same.
void log_determinants(DType dtype, int64_t count, int64_t n, const void* lu, const int* pivots,
                      void* sign, void* log_size);

// --- triangular.cpp ------------------------------------------------------------------------------
// x = a^-1 b (x = b a^-1 with left = false) from one triangle of a, from wherever a and b lie, into
// columns of m x n. Steps of 0 share a matrix.
struct Triangle {
  bool left, upper, unit;
};
void solve_triangular(DType dtype, int64_t count, int64_t m, int64_t n, Triangle how, ConstPlace a,
                      ConstPlace b, void* x);

// --- qr.cpp --------------------------------------------------------------------------------------
void qr_factor(DType dtype, int64_t count, int64_t m, int64_t n, void* a, void* tau);
// The first n columns of the product of k reflectors, which a (m x n) holds in its first k columns.
void reflectors_product(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k, void* a,
                        const void* tau);
// c (m x n) = op(q) c, or c op(q), with q of k reflectors in columns of height m (or n).
void apply_reflectors(DType dtype, int64_t count, bool left, bool adjoint, int64_t m, int64_t n,
                      int64_t k, const void* a, const void* tau, void* c);

// --- eigen.cpp -----------------------------------------------------------------------------------
// Eigenvalues w (real, ascending) and, unless v is null, eigenvectors as columns, from one triangle.
void eigh(DType dtype, int64_t count, int64_t n, bool upper, ConstPlace a, void* w, void* v,
          int* info);
// Eigenvalues (complex) and, unless v is null, right eigenvectors of length 1 (complex). `a` is
// destroyed.
void eig(DType dtype, int64_t count, int64_t n, void* a, void* w, void* v, int* info);

// --- svd.cpp -------------------------------------------------------------------------------------
// Singular values s (real, descending); u and vh of `full` size or min(m, n), or null. `a` is
// destroyed.
void svd(DType dtype, int64_t count, int64_t m, int64_t n, bool full, void* a, void* s, void* u,
         void* vh, int* info);

// --- least_squares.cpp ---------------------------------------------------------------------------
enum class Driver { Gels, Gelsy, Gelsd, Gelss };
// min |a x - b|: b is max(m, n) x columns, the solution in its first n rows, and after gels the
// squares of the rest sum to the residuals. `rank` (not by Gels) and singular values s (Gelsd and
// Gelss) may be null for the others.
void least_squares(DType dtype, Driver driver, int64_t count, int64_t m, int64_t n, int64_t columns,
                   double rcond, void* a, void* b, int* rank, void* s, int* info);

// --- ldl.cpp -------------------------------------------------------------------------------------
void ldl_factor(DType dtype, int64_t count, int64_t n, bool hermitian, void* a, int* pivots,
                int* info);
void ldl_solve(DType dtype, int64_t count, int64_t n, int64_t columns, bool hermitian,
               const void* ld, const int* pivots, void* b);

// --- band.cpp ------------------------------------------------------------------------------------
// Matrices of order n with `lower` and `upper` diagonals beside the main one, in SciPy's form, from
// wherever they lie; right sides and results row by row (n x columns). Steps of 0 share a matrix.
// x = op(a)^-1 b for one diagonal on each side; info is not 0 where a is singular.
void tridiagonal_solve(DType dtype, int64_t count, int64_t n, int64_t columns, bool adjoint,
                       ConstPlace ab, ConstPlace b, void* x, int* info);
// Factors have 2 lower + upper + 1 elements for each of n columns, pivots are n.
void band_factor(DType dtype, int64_t count, int64_t n, int64_t lower, int64_t upper, ConstPlace ab,
                 void* factors, int* pivots, int* info);
void band_solve(DType dtype, int64_t count, int64_t n, int64_t columns, int64_t lower,
                int64_t upper, bool adjoint, const void* factors, int64_t factor_step,
                const int* pivots, int64_t pivot_step, ConstPlace b, void* x);
// y = op(a) x
void band_product(DType dtype, int64_t count, int64_t n, int64_t columns, int64_t lower,
                  int64_t upper, bool adjoint, ConstPlace ab, ConstPlace x, void* y);
// The band of p q^H, zero where the form has elements outside the matrix.
void band_outer(DType dtype, int64_t count, int64_t n, int64_t columns, int64_t lower,
                int64_t upper, ConstPlace p, ConstPlace q, void* ab);

}  // namespace adjoint::linalg
