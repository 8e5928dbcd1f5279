// Read fuse.h first.
#include "fuse.h"

namespace adjoint {

void fuse(Program&) {}
void run_fused(const Program&, const Instruction&, Tensor*) {}

}  // namespace adjoint
