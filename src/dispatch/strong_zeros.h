// strong_zeros: a zero gradient stays zero through an infinite or NaN partial derivative.
#pragma once
#include "graph/node.h"

namespace adjoint {

// Corrects what the backward of `n` returned for `grads`. Called while kStrongZeros is on.
void keep_zeros(Node* n, const Tensor* grads, Tensor* results);

}  // namespace adjoint
