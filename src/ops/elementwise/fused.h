// Products and selections that many derivatives share, each one pass over memory. They are ops with
// derivatives of their own, so rules written with them can be differentiated again.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

Tensor mul_scaled(const Tensor& g, const Tensor& x, const Value& k);   // g * x * k
Tensor neg_mul_div(const Tensor& g, const Value& x, const Value& y);   // -g * (x / y)
Tensor divisor_grad(const Tensor& g, const Value& x, const Value& y);  // -g * (x / y / y)
Tensor mul_cos(const Tensor& g, const Tensor& x);                      // g * cos(x)
Tensor mul_neg_sin(const Tensor& g, const Tensor& x);                  // -g * sin(x)
Tensor zeros_of(const Tensor& g);                                      // 0 in the shape of g
Tensor pass_where(const Value& condition, const Tensor& g);            // g, or 0
Tensor one_minus_square(const Tensor& x);                              // 1 - x * x

}  // namespace adjoint
