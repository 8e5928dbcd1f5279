// Matrix products, matrix-vector products and dot products of every dtype but bool.
//
// Floating and complex types go to OpenBLAS, one thread per call; our own pool works on tiles whose
// size depends on the problem only, so the result does not depend on the number of threads. 16-bit
// floats are computed in float32 and rounded once; integers wrap around. Inputs have any strides
// (element strides, zero and negative included). NaN and infinity propagate; with beta == 0 the old
// contents of the output are never read.
//
// None of this needs the GIL. A dimension beyond 2^31 - 1 throws std::invalid_argument, no memory
// for scratch std::bad_alloc. Read next: gemm.cpp, then packing.h, blas.h and small_products.h.
#pragma once
#include <complex>
#include <cstdint>

#include "tensor/dtype.h"

namespace adjoint {

struct Matrix {
  const void* data;
  int64_t row_stride, col_stride;  // in elements
};

using Scale = std::complex<double>;  // integers and reals use the real part

// c = alpha * a @ b + beta * c with a: m x k, b: k x n, c: m x n, row-major with ldc >= n. The
// output does not overlap an input. With k == 0 the product is zero.
void gemm(DType dtype, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, void* c, int64_t ldc,
          Scale alpha = 1.0, Scale beta = 0.0);

// c = a @ b with `row` (n numbers of the dtype) added to every row: true if that is a product which takes no
// more than one without it; false, and nothing done, if c had better be filled with the row first.
bool gemm_onto_row(DType dtype, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
                   const void* row, void* c, int64_t ldc);

// The same as gemm() for `batch` products; the batch strides (in elements) lead from one to the next, and are
// zero for an input that all share.
void gemm_batch(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, Matrix a,
                int64_t a_batch_stride, Matrix b, int64_t b_batch_stride, void* c,
                int64_t c_batch_stride, int64_t ldc, Scale alpha = 1.0, Scale beta = 0.0);

// y = alpha * a @ x + beta * y with a: m x k; incy >= 1.
void gemv(DType dtype, int64_t m, int64_t k, Matrix a, const void* x, int64_t incx, void* y,
          int64_t incy, Scale alpha = 1.0, Scale beta = 0.0);

// *out = the sum of x[i] * y[i], without conjugation.
void dot(DType dtype, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy,
         void* out);

}  // namespace adjoint
