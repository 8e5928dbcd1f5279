// What a tensor lets go of when it is freed or cleared by the garbage collector: its history, its
// gradient, its base and what a transform has given it.
#include "graph/cut.h"
#include "graph/node.h"
#include "graph/transformed.h"
#include "tensor/sparse.h"

namespace adjoint {

void clear_tensor_object(TensorObject* t) noexcept {
  if (t->flags & kTransformed) drop_transformed(t);
  if (t->flags & kSparse) drop_parts(t);
  if (TensorExtra* extra = std::exchange(t->extra, nullptr)) {
    Py_XDECREF(extra->hooks);
    Py_XDECREF(extra->post_accumulate);
    delete extra;
  }
  if (t->cut) drop_cut(t);
  if (t->accumulator) drop_accumulator(t);
  Py_CLEAR(t->grad_fn);
  Py_CLEAR(t->grad);
  Py_CLEAR(t->base);
}

}  // namespace adjoint
