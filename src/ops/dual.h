// Forward mode: ops on dual tensors.
//
// An op with a derivative runs on the values as always, and is recorded with the dual operands
// themselves, so that what backward reads has its tangents (forward over reverse). Then, for every
// level present, from the outside in, the tangent of the result is computed by the op's rule from
// operands stripped of that level and those inside it, by ops that see the levels further out
// (forward over forward) and are themselves recorded (reverse over forward). An op without a
// derivative of its own either calls ops that have one, or its result has no tangent.
// Read next: dual.cpp, tangents.h.
#pragma once
#include "op.h"
#include "tangents.h"

namespace adjoint {

// Does an argument have a tangent that this thread sees? To be asked only if g_transformed is not
// zero.
bool any_tangent(const Op& op, const Value* args);

// What apply and apply_inplace do when one has.
Value apply_dual(const Op& op, Value* args);
Tensor apply_inplace_dual(const Op& op, Value* args);
// What apply_out does.
void refuse_out_of_dual(const Op& op, const Value* args, const Tensor& out);

}  // namespace adjoint
