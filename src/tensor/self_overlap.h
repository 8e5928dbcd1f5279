// Geometries in which several elements share a place.
#pragma once
#include "tensor/dims.h"

namespace adjoint {

// May two indices mean one place? Strides that exceed all that lies within are safe. An element
// takes `item` units of what strides count.
bool places_repeat(Span shape, Span strides, int64_t item = 1);

}  // namespace adjoint
