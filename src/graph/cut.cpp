// Making and passing on cuts. Read cut.h first.
#include "graph/cut.h"

#include "graph/intermediate.h"
#include "graph/node.h"

namespace adjoint {

const char* to_string(CutReason r) {
  switch (r) {
    case CutReason::Detach:
      return "detach";
    case CutReason::Data:
      return "data";
    case CutReason::NoGrad:
      return "no_grad";
    case CutReason::Inference:
      return "inference_mode";
    case CutReason::NotDifferentiable:
      return "not differentiable";
    default:
      return "no derivative";
  }
}

void retain(Cut* c) noexcept { ++c->references; }
void release(Cut* c) noexcept {
  if (--c->references) return;
  Py_XDECREF(c->from);
  delete c;
}

void drop_cut(TensorObject* t) noexcept { release(std::exchange(t->cut, nullptr)); }

void pass_cut(TensorObject* to, Cut* c) {
  if (to->cut == c) return;
  retain(c);
  if (to->cut) drop_cut(to);
  to->cut = c;
}

void set_forward_facts(TensorObject* t, bool in_forward, bool hidden) {
  if (t->cut->in_forward == in_forward && t->cut->hidden == hidden) return;
  if (t->cut->references > 1) {  // others share it
    auto* c = new Cut(*t->cut);
    c->references = 1;
    Py_XINCREF(c->from);
    drop_cut(t);
    t->cut = c;
  }
  t->cut->in_forward = in_forward;
  t->cut->hidden = hidden;
}

void mark_cut(TensorObject* to, TensorObject* from, CutReason reason, const char* op) {
  auto* c = new Cut{.reason = reason, .in_forward = t_in_function_forward, .op = op};
  SourceLine::capture(&c->line);
  // The history of a view whose base was changed since may be refused; it is not needed here.
  Edge e = stale_view(from) ? Edge{} : gradient_edge(from);
  if (e.node) {
    c->from = PyWeakref_NewRef(reinterpret_cast<PyObject*>(e.node), nullptr);
    if (!c->from) PyErr_Clear();
    Py_DECREF(e.node);
  }
  if (to->cut) drop_cut(to);
  to->cut = c;
}

}  // namespace adjoint
