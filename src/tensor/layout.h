// The memory order of a result, chosen from the strides of what it is computed from.
#pragma once
#include "tensor/tensor.h"

namespace adjoint {

// How one operand lies in memory. Its axes stand at the end of the result's, as in broadcasting.
struct Lying {
  Span shape;
  Span strides;
};

// The strides of a dense result whose axes are ordered in memory as those of its operands are.
// Note [Memory order of results] in layout.cpp has the rule.
Dims strides_in_order_of(Span shape, const Lying* operands, int count);

// The strides of a copy of such a tensor: its own where they are dense, else dense ones in their
// order.
Dims strides_of_copy(const Lying& t);

}  // namespace adjoint
