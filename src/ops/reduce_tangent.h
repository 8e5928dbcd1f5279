// Forward mode of reductions, from their gradient: a result changes by the sum of its elements'
// tangents, each weighed by the gradient that a gradient of one sends there.
#pragma once
#include "op.h"

namespace adjoint {

// Of a reduction of argument 0 over `dims`, with `grad` its rule.
inline Tensor reduce_tangent(const Tensor& tangent, Context& c, Rule grad, const Value& dims,
                             bool keepdim) {
  Tensor weight = grad(op<"_ones_like">(c.out()), c);
  return op<"sum">(op<"conj">(weight).tensor() * tangent, dims, keepdim);
}

}  // namespace adjoint
