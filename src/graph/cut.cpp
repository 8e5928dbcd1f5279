// Making and passing on cuts. Read cut.h first.
#include "cut.h"

#include "../ops/op.h"
#include "intermediate.h"

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

namespace {

template <class F>
bool any_tensor(const Op& op, const Value* args, F&& test) {
  for (int k = 0; k < op.tensor_arguments; ++k) {
    const Value& v = args[op.tensor_at[k]];
    if (v.is_tensor()) {
      if (test(v.object(), op.tensor_at[k])) return true;
    } else if (v.is_tensors()) {
      for (const Tensor& t : v.tensors()) {
        if (t && test(t.get(), op.tensor_at[k])) return true;
      }
    }
  }
  return false;
}

CutReason reason_now(const Op& op, const TensorObject* out) {
  if (mode_on(kInferenceOn)) return CutReason::Inference;
  if (!grad_enabled()) return CutReason::NoGrad;
  if (!is_differentiable(out->dtype)) return CutReason::NotDifferentiable;
  return op.differentiable() ? CutReason::NotDifferentiable : CutReason::NoDerivative;
}

}  // namespace

bool any_cut(const Op& op, const Value* args) {
  return any_tensor(op, args, [](TensorObject* t, int) { return t->cut && !needs_grad(t); });
}

void mark_unrecorded(const Op& op, const Value* args, const Value& out) {
  if (mode_on(kNoCuts)) return;
  TensorObject* source = nullptr;
  Cut* cut = nullptr;
  any_tensor(op, args, [&](TensorObject* t, int) {
    if (needs_grad(t)) return source = t, true;
    if (t->cut && !cut) cut = t->cut;
    return false;
  });
  if (!source && !cut) return;
  auto mark = [&](TensorObject* t) {
    if (t == source || needs_grad(t)) return;  // returned as it came, or changed in place
    if (!source) return pass_cut(t, cut);
    mark_cut(t, source, reason_now(op, t), op.name.c_str());
  };
  if (out.is_tensor()) mark(out.object());
  if (out.is_tensors()) {
    for (const Tensor& t : out.tensors()) {
      if (t) mark(t.get());
    }
  }
}

void keep_cuts(Node* node, const Op& op, const Value* args) {
  any_tensor(op, args, [&](TensorObject* t, int i) {
    if (t->cut && !needs_grad(t)) {
      extra_of(node).cuts.emplace_back(i, CutRef(t->cut));
      if (t_recorded_function) watch_operand(node, t);
    }
    return false;
  });
}

}  // namespace adjoint
