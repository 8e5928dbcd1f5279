// Functions whose derivative costs little more beside them: gelu(x) is read in the forward part of a program, g * gelu'(x) far
// behind it, and the slope takes most of the same work. It is computed where the function is, and kept in place of x.
#pragma once
#include "program/program.h"

namespace adjoint {

// Makes g * slope(x) a plain product with a slope that is computed beside the function itself, for
// large x that nobody reads for anything else later: as many values are kept as before. Which
// functions those are: kernels/kernel_pair.h.
void compute_slopes_early(Program& p);

}  // namespace adjoint
