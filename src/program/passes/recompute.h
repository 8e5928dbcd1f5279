// Values of the forward part that the backward part computes again instead of having them kept.
//
// A long chain of small elementwise ops costs more to keep (a tensor for each value) than to
// repeat, since the repetition is fused with the backward; for large tensors that holds for ops
// that cost less than memory does. Nothing is computed from a value that the backward part would
// not read anyway: an argument that the user changes after the call must not matter more than it
// does to the function's own graph. The exception is what is kept in any case, as the arguments of a
// step are for a loop.
#pragma once
#include "program/program.h"

namespace adjoint {

// `p` is the backward part, `before` all that was recorded before it, `kept` what is there anyway.
void recompute(Program& p, const std::vector<Instruction>& before, const std::vector<int>& kept);

}  // namespace adjoint
