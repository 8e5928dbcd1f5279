// Whether a Python number has a place in a dtype.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// Refuses, as PyTorch does, a number that the dtype cannot hold. None and tensors pass. A negative
// number may wrap around in uint8, down to -255.
void require_fits(const Value& number, DType dtype);
// The dtype that operands have together.
DType common_dtype(const Value* operands, int count);

}  // namespace adjoint
