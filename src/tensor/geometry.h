// Giving a tensor another shape and other strides, whatever the number of axes it had. For what is
// changed in place: resize_, out=, t_(), `.data = ...`.
#pragma once
#include "tensor.h"

namespace adjoint {

// The memory stays as it is and has to be large enough.
void set_geometry(TensorObject* t, Span shape, Span strides);

}  // namespace adjoint
