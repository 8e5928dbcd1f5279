// Chains of elementwise ops as one instruction.
#pragma once
#include "program.h"

namespace adjoint {

void fuse(Program& p);
// Runs a fused instruction: operands in the order of its reads; results in that of its writes.
void run_fused(const Program& p, const Instruction& i, Tensor* registers);

}  // namespace adjoint
