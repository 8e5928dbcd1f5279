// How a drawn number moves with its parameter, by implicit differentiation of the distribution
// function F: F(x; a) = u for the u that was drawn, so dx/da = -(dF/da) / (dF/dx).
// Read next: parametric.cpp, which draws.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace adjoint::random {

// Contiguous memory for n elements of one floating `dtype`.
// x of Gamma(alpha, 1), by alpha.
void gamma_grad(DType dtype, void* out, int64_t n, const void* alpha, const void* x);
// x of Beta(alpha, total - alpha), by alpha, over 1 - x: what Dirichlet's derivative is made of.
void dirichlet_grad(DType dtype, void* out, int64_t n, const void* x, const void* alpha,
                    const void* total);

}  // namespace adjoint::random
