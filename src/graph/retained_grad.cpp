// Read retained_grad.h first.
#include "graph/retained_grad.h"

#include "graph/back_links.h"
#include "python/weak.h"

namespace adjoint {
namespace {

void move_retained(TensorObject* t, Node* to, uint32_t slot) {
  if (!t->grad_fn || !t->grad_fn->extra || t->grad_fn == to) return;
  auto& from = t->grad_fn->extra->retains;
  for (size_t i = 0; i < from.size(); ++i) {
    if (referent(from[i].second) != reinterpret_cast<PyObject*>(t)) continue;
    extra_of(to).retains.push_back({slot, from[i].second});
    from.erase(from.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
}

}  // namespace

void change_history(const Tensor& t, Node* n, uint32_t slot, int own_views) {
  note_new_history(t.get(), own_views);
  if (t.has(kRetainsGrad)) move_retained(t.get(), n, slot);
  set_history(t, n, slot);
}

}  // namespace adjoint
