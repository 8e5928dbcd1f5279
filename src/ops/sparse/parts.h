// What ops on sparse tensors are written with. A sparse tensor has the history; its parts have none
// (tensor/sparse.h). Two ops lead from one world to the other, `_sparse_entries` and those that make a
// tensor of values; everything between them is computed with ordinary ops on entries, which know
// their derivatives.
//
// Note [Gradients of sparse tensors]. The gradient that arrives at a sparse tensor means what a dense
// one would, at the places that it has: what belongs to one of its entries is found by place. Where a
// tensor has two entries in one place they are added whenever the tensor is used, so both have the
// gradient of the place, which is stated once.
#pragma once
#include "dispatch/sparse_calls.h"

namespace adjoint::sparse {

using T = const Tensor&;

Dims shape_of(T t);
Dims sparse_shape(T s);  // of the axes that indices speak of
Dims dense_shape(T s);
int64_t product_of(Span sizes);

// The values, with their history.
Tensor entries(T s);
// The places of `pattern` with other values (of any dtype).
Tensor with_values(T pattern, T values);
Tensor coo(T indices, T values, const Dims& shape, bool coalesced);
Tensor compressed(T start, T plain, T values, const Dims& shape, Layout layout);
// What is in `x`, sparse or dense, at the entries of `pattern`.
Tensor entries_at(T x, T pattern);

// Conversions; with history.
Tensor coalesced(T s);  // of COO; compressed tensors always are
Tensor to_coo(T s);
Tensor to_layout(T s, Layout layout);
Tensor to_dense(T s);

// --- without history -------------------------------------------------------------------------------
// [sparse axes, entries], of whatever layout.
Tensor indices_of(T s);
// Whether they are known to have the same entries: one list of indices is shared.
bool same_places(T a, T b);
// The row-major position of each entry among the sparse axes.
Tensor positions_of(T s);
Tensor int64s(int64_t n);

// A matrix by rows: of COO (coalesced) and CSR as it is; of CSC the transpose is.
struct ByRows {
  Tensor start, column;
  int64_t rows, columns;
  bool is_transpose;
};
ByRows by_rows(T s);

}  // namespace adjoint::sparse
