// Where a geometry lies in a storage.
//
// Note [Inside its storage]
// Every element that a header shows lies inside its storage, and so does `data` itself: the `data`
// of an empty tensor is at most the end. place() decides that, and every header on memory that
// existed before goes through it: on_storage() for new ones, set_geometry() for what is changed in
// place (resize_, out=, t_(), `.data = ...`). A header whose storage was made for it
// (empty(), fresh.h) is right by construction. So whoever writes through a header need not look
// again, and room() is never negative.
//
// The product of the sizes other than zero fits 64 bits, of empty tensors too: so does the product
// of any of the sizes of a tensor, and only what joins several tensors or the caller's numbers has
// to be computed with checked.h. Strides that lead to no element (of axes of one, or of an empty
// tensor) are kept below 2^48, so that strides can be counted in bytes and multiplied by sizes.
#pragma once
#include "tensor/tensor.h"

namespace adjoint {

struct Place {
  int64_t numel;
  char* data;
  bool contiguous;
};

// Refuses more than kMaxDims axes, negative sizes, counts that overflow and elements outside the
// storage. `offset` counts elements of `dtype`; that of an empty geometry is moved to the end of
// the storage if it lies behind.
Place place(const Storage* storage, Span shape, Span strides, int64_t offset, DType dtype);

// The strides that a header gets for a geometry that place() found in order.
void store_strides(int64_t* to, Span shape, Span strides, int64_t numel);

// The bytes of the storage from the first element on.
inline size_t room(const TensorObject* t) {
  return t->storage->bytes - (t->data - static_cast<const char*>(t->storage->data));
}

// Gives a tensor another shape and other strides on the memory it has, from its first element on,
// whatever the number of axes it had.
void set_geometry(TensorObject* t, Span shape, Span strides);

}  // namespace adjoint
