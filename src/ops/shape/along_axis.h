// A tensor seen as outer x n x inner around one axis.
#pragma once
#include "dispatch/op.h"
#include "kernels/reduce/scan.h"

namespace adjoint {

inline scan::Shape around(Span shape, int axis) {
  scan::Shape s{1, shape.n ? shape[axis] : 1, 1};
  for (int i = 0; i < axis; ++i) s.outer *= shape[i];
  for (int i = axis + 1; i < shape.n; ++i) s.inner *= shape[i];
  return s;
}

}  // namespace adjoint
