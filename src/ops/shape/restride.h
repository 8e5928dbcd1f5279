// Layouts in which elements share places. Read next: restride.cpp.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// May two indices of this geometry mean one place? Strides that exceed all that lies within are
// safe.
bool places_repeat(const Dims& shape, const Dims& strides);

}  // namespace adjoint
