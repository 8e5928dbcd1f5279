// The forward of elementwise ops: dtype promotion, broadcasting, the kernel.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// Forward of ops declared with .elementwise(): the schema's arguments are the kernel's operands, in
// order.
Value elementwise_forward(Call& c);

// The same for a forward that chooses its kernel itself. Operands are tensors or numbers; `out` may
// be undefined.
Tensor run_kernel(const Kernel& kernel, const Value* operands, int count, Promotion p,
                  const Tensor& out, const char* op_name);
const Kernel& kernel_named(const char* name);
// The dtype of what a kernel gives for operands of dtype d.
DType result_dtype(const Kernel& k, DType d);
// The error for loops that found an integer divided by zero.
void check_division(bool fine);

}  // namespace adjoint
