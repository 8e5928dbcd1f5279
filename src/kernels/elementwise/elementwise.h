// Runs a kernel over operands of any strides and dtypes, broadcast to one shape, on all threads.
#pragma once
#include "kernels/kernel.h"
#include "tensor/dims.h"

namespace adjoint {

inline constexpr int kMaxOperands = 8;

// One operand as seen from the output's shape: strides in bytes, 0 along broadcast axes.
struct Operand {
  char* data = nullptr;
  DType dtype = DType::Float32;  // of the memory; converted to what the loop wants
  Dims strides;
};

// operand[0] is the output. `wanted[k]` is the dtype the loop has for operand k (bool for results
// of comparisons, float32 for 16-bit floats). Returns false if an integer was divided by zero.
bool run_elementwise(Loop loop, const DType* wanted, Span shape, Operand* operand, int count);

// The same for contiguous memory of the dtypes the loop wants; small sizes cost one call.
bool run_contiguous(Loop loop, const size_t* item, char* const* data, int count, int64_t n);

}  // namespace adjoint
