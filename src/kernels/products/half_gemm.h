// Matrix products of 16-bit floats: float32 sums, rounded once at the end.
//
// BLAS would need copies in float32; here blocks of the factors are converted as they are packed, or
// stay as they are where the processor multiplies pairs of bfloat16 (AVX512-BF16, looked for at run
// time; it takes denormal numbers for zero). Blocks and the order of sums depend on the sizes only.
// Read next: half_gemm.cpp, kernels/isa/half_tiles.cpp for the loops.
#pragma once
#include "kernels/products/gemm.h"

namespace adjoint {

// Whether this processor multiplies pairs of bfloat16.
bool multiplies_pairs();

// c = alpha * a @ b + beta * c, as gemm() in gemm.h, for float16 and bfloat16 and k > 0. With `share`
// the pool takes part. False if there is no memory.
bool half_product(DType dtype, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                  char* c, int64_t ldc, float alpha, float beta, bool share);

}  // namespace adjoint
