// Shapes of up to kInlineDims axes stand in the header, longer ones in memory of their own.
#include "geometry.h"

namespace adjoint {

void set_geometry(TensorObject* t, Span shape, Span strides) {
  const int n = shape.n;
  const Dims new_shape(shape), new_strides(strides);  // they may be those of the tensor itself
  int64_t* place = n > kInlineDims ? new int64_t[2 * n] : t->dims;
  if (t->shape != t->dims) delete[] t->shape;
  t->shape = place;
  t->strides = place + (n > kInlineDims ? n : kInlineDims);
  t->ndim = static_cast<uint8_t>(n);
  t->numel = 1;
  for (int i = 0; i < n; ++i) {
    t->shape[i] = new_shape[i];
    t->strides[i] = new_strides[i];
    t->numel *= new_shape[i];
  }
  const bool contiguous = is_contiguous(new_shape, new_strides, t->numel);
  t->flags = contiguous ? t->flags | kContiguous : t->flags & ~kContiguous;
}

}  // namespace adjoint
