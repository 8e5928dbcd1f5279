// From index tensors to lists of offsets, all bounds checked: what kernels/index/indexing.h runs on.
#pragma once
#include "dispatch/op.h"
#include "dispatch/overlap.h"
#include "kernels/index/indexing.h"

namespace adjoint {

// Advanced indexing: which places of a tensor a list of index tensors (undefined: a whole axis)
// names, and the shape of the result.
struct IndexPlan {
  Places places;
  Dims shape;
};
IndexPlan plan_index(const Tensor& t, const Tensors& indices);

// The places of rows `index` (0-d or 1-d) along `dim`: axes before, the index, axes after.
Places plan_rows(const Tensor& t, int dim, const Tensor& index, const char* name);

// The places that gather and scatter name: those of `index`'s own shape, with the coordinate along
// `dim` taken from the index.
Places plan_gather(const Tensor& t, int dim, const Tensor& index, const char* name);

// The places of flat (row-major) positions in t.
Places plan_flat(const Tensor& t, const Tensor& index, bool wrap_negative);
// The places where `mask`, which broadcasts to t's shape, is true.
Places plan_mask(const Tensor& t, const Tensor& mask);

// The offsets of every element, in row-major order.
Offsets all_offsets(Span shape, Span strides);

// The rows of coordinates at which a tensor is not zero: [count, ndim], int64.
Tensor nonzero_of(const Tensor& t);

// The values at the places, as a dense tensor of the given shape.
Tensor read_places(const Tensor& t, const Places& places, Span shape);
// Changes the places of `to`; `src` has as many elements as there are places, or one.
void write_places(const Tensor& to, const Tensor& src, const Places& places, Reduce how);

// Where an op that changes a copy of its first argument should write: the argument itself in its
// in-place form, otherwise a copy of it.
Tensor changeable(Call& c);
// A dense tensor of `shape` that `t` broadcasts to. Records nothing.
Tensor broadcast_dense(const Tensor& t, Span shape);

}  // namespace adjoint
