// Values that are computed once more where they are read long after they were made. What is small and
// cheap to compute from smaller things (differences of all pairs of points) costs less
// to make again than to write, and to read when it has left the cache.
#pragma once
#include <vector>

#include "program/program.h"

namespace adjoint {

// Adds instructions to the code, each before the first of those that read its result; says, by instruction,
// which are such. They belong into the loops of what follows them.
std::vector<bool> repeat_far(Program& p);

}  // namespace adjoint
