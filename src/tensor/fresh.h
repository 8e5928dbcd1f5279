// Making and freeing the results of small ops, inlined where nanoseconds count: included by
// tensor.cpp, dispatch/direct.cpp and bindings/tensor/tensor_type.cpp alone. Everybody else calls the
// functions of tensor.h.
#pragma once
#include "python/gc_list.h"
#include "tensor/tensor.h"
#include "tensor/zero.h"

namespace adjoint {

// Headers of dead tensors, kept for the next op: an allocation by CPython costs three times the
// rest of a small op. Guarded by the GIL.
struct FreeHeaders {
  static constexpr int kRoom = 4096;
  TensorObject* items[kRoom];
  int count;
};
extern __attribute__((visibility("hidden"))) FreeHeaders free_headers;

TensorObject* allocate_header();  // from Python; throws PythonError when memory is out

[[gnu::always_inline]] inline TensorObject* fresh_header() {
  TensorObject* t;
  if (free_headers.count) [[likely]] {
    t = free_headers.items[--free_headers.count];
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(t), 1);
  } else {
    t = allocate_header();
  }
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

// Gives an emptied header, which has left its ring, back to the free list or to Python.
inline void recycle_header(TensorObject* t) noexcept {
  if (free_headers.count < FreeHeaders::kRoom && Py_TYPE(t) == tensor_type) [[likely]] {
    free_headers.items[free_headers.count++] = t;
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
