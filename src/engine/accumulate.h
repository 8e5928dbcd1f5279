// Adding gradients up.
#pragma once
#include "tensor/tensor.h"

namespace adjoint {

// sum += grad by the kernel alone: no history, no version, no checks. The caller knows that `sum`
// may be written. False when the two need more than that.
bool add_directly(const Tensor& sum, const Tensor& grad);

}  // namespace adjoint
