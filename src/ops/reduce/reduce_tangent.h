// Forward mode of reductions, from their gradient: a result changes by the sum of its elements'
// tangents, each weighed by the gradient that a gradient of one sends there.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// Of a reduction of argument 0 over `dims`, with `grad` its rule.
inline Tensor reduce_tangent(const Tensor& tangent, Context& c, Rule grad, const Value& dims,
                             bool keepdim) {
  Tensor weight = grad(op<"_ones_like">(c.out()), c);
  return op<"sum">(op<"conj_physical">(weight).tensor() * tangent, dims, keepdim);
}

// Of an op (input, dim, keepdim) whose results are elements taken along an axis, and where from.
inline Value taken_tangent(Context& c, const Tensor* t) {
  if (t[0].ndim() == 0) return t[0];
  Tensor index = c.out(1);
  int axis = wrap_dim(c.in(1).integer(), t[0].ndim());
  if (c.in(2).boolean()) return op<"_gather_along">(t[0], index, axis);
  Tensor taken = op<"_gather_along">(t[0], op<"unsqueeze">(index, axis), axis);
  return op<"squeeze.dim">(taken, axis);
}

}  // namespace adjoint
