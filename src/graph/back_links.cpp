// Read back_links.h first.
#include "graph/back_links.h"

namespace adjoint {
namespace {

// Whether a gradient is nothing but numbers. An accumulator may be there: it leads nowhere.
bool leads_nowhere(const TensorObject* g) {
  return !g->grad_fn && !g->grad && !g->dict && !g->extra && (!g->base || leads_nowhere(g->base));
}

}  // namespace

void give_grad(TensorObject* t, Tensor g) {
  if (g) {
    g->flags |= kHeld;
    if (g->base) g->base->flags |= kHeld;
    if (!leads_nowhere(g.get()) || g->base == t) add_back_link(t);
  }
  TensorObject* before = std::exchange(t->grad, g.release());
  Py_XDECREF(before);
}

void note_new_history(TensorObject* t, int own_views) {
  // Every view has a reference to the storage; a view has no views of its own.
  bool by_views = !t->base && t->storage->references > 1 + own_views;
  if ((t->flags & kHeld) || by_views) add_back_link(t);
}

void note_parting(TensorObject* t) {
  if (t->storage->references > 1) t->flags |= kHeld;
}

void note_saved_list(Node* n, const Value& v) {
  bool foreign = false;
  v.each_object([&](PyObject* o) {
    if (PyObject_TypeCheck(o, tensor_type))
      reinterpret_cast<TensorObject*>(o)->flags |= kHeld;
    else
      foreign |= PyObject_IS_GC(o) != 0;
    return 0;
  });
  if (foreign) add_back_link(n);
}

}  // namespace adjoint
