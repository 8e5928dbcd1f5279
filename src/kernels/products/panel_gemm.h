// Products of float32 by panels, without BLAS: on processors with AVX-512 they take nine tenths of its
// time, for it packs both factors and these one; with AVX2 as long. Read panels.h first.
#pragma once
#include "kernels/products/gemm.h"

namespace adjoint {

// Whether a product is one that panels serve, by its size and the instruction set only.
bool suits_panels(DType dtype, int64_t m, int64_t n, int64_t k, Scale alpha, Scale beta);

// c = a @ b, or c += a @ b, or `row` (n numbers) added to every row; a has a stride of 1. False if there is no memory. The bits of c depend neither
// on `share` nor on the number of threads: every sum runs along k in the same order.
bool panel_product(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c,
                   int64_t ldc, bool add, const float* row, bool share);

}  // namespace adjoint
