// Making and freeing the results of small ops, inlined where nanoseconds count: included by
// tensor.cpp, dispatch/direct.cpp and bindings/tensor/tensor_type.cpp alone. Everybody else calls the
// functions of tensor.h.
#pragma once
#include "python/gc_list.h"
#include "tensor/object_pool.h"
#include "tensor/tensor.h"
#include "tensor/zero.h"

namespace adjoint {

[[gnu::always_inline]] inline TensorObject* fresh_header() {
  auto* t = reinterpret_cast<TensorObject*>(header_pool.take(tensor_type));
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(t), 1);
  zero_bytes<offsetof(TensorObject, dims) - offsetof(TensorObject, dict)>(&t->dict);
  t->shape = t->dims;
  t->strides = t->dims + kInlineDims;
  gc::track(t);
  return t;
}

// A header with the geometry of a contiguous tensor of at most six axes.
[[gnu::always_inline]] inline TensorObject* fresh_header_like(const TensorObject* like,
                                                              DType dtype) {
  TensorObject* t = fresh_header();
  t->ndim = like->ndim;
  t->dtype = dtype;
  t->flags = kContiguous;
  t->numel = like->numel;
  copy_bytes<sizeof(t->dims)>(t->dims, like->dims);
  return t;
}

// The same with memory of its own.
[[gnu::always_inline]] inline TensorObject* fresh_like(const TensorObject* like, DType dtype) {
  Tensor t = Tensor::steal(fresh_header_like(like, dtype));
  t->storage = new_storage(like->numel * item_size(dtype));
  t->data = static_cast<char*>(t->storage->data);
  return t.release();
}

// Gives an emptied header, which has left its ring, back to the pool or to Python.
inline void recycle_header(TensorObject* t) noexcept {
  auto* o = reinterpret_cast<PyObject*>(t);
  if (Py_TYPE(t) == tensor_type) [[likely]] {
    header_pool.put(o);
  } else if (header_pool.owns(o)) {  // a Tensor whose `__class__` was changed
    Py_SET_TYPE(o, tensor_type);
    gc::forget_finalized(o);
    header_pool.put(o);
  } else {
    gc::forget_ring(t);
    PyObject_GC_Del(t);
  }
}

// Frees a tensor that holds nothing but memory and a history, as most results do; the history is
// the caller's to drop.
inline Node* free_result(TensorObject* t) noexcept {
  gc::leave_ring(t);
  Node* history = t->grad_fn;
  Storage* s = t->storage;
  if (s && --s->references == 0) {
    if (s->own && !s->release && !s->changed) [[likely]]
      memory::deallocate(s, sizeof(Storage) + s->bytes);
    else
      destroy(s);
  }
  recycle_header(t);
  return history;
}

}  // namespace adjoint
