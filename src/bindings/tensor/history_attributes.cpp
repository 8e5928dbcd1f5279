// What a tensor tells of its history: requires_grad, is_leaf, grad_fn, grad, data, detach() and
// their like. Read next: graph/node.h, graph/cut.h.
#include "bindings/tensor/subclass.h"
#include "dispatch/program_recorder.h"
#include "dispatch/view.h"
#include "graph/back_links.h"
#include "graph/change_log.h"
#include "graph/hidden_reads.h"
#include "tensor/geometry.h"
#include "transforms/batched.h"

namespace adjoint {
namespace {

Tensor self_of(PyObject* o) { return Tensor::borrow(as_tensor(o)); }

PyObject* get_requires_grad(PyObject* o, void*) {
  look_at(as_tensor(o));
  return PyBool_FromLong(needs_grad(innermost(self_of(o)).get()));
}
}  // namespace

int set_requires_grad(PyObject* o, PyObject* v, void*) {
  return guard_int([&] {
    Tensor t = self_of(o);
    if (!v) runtime_error("requires_grad cannot be deleted; set it to False instead");
    int on = PyObject_IsTrue(v);
    checked(on);
    if (t->grad_fn && !on) {
      runtime_error(
          "you can only change requires_grad flags of leaf variables. If you want to use a "
          "computed variable in a "
          "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    }
    if (on && t.has(kInference) && !mode_on(kInferenceOn)) {
      runtime_error(
          "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed. "
          "fix: use a clone()");
    }
    if (on && !is_differentiable(t.dtype())) {
      runtime_error(
          "only Tensors of floating point and complex dtype can require gradients (this one is ",
          t.dtype(), ")");
    }
    if (on && batch_of(t.get()) && !needs_grad(innermost(t).get())) {
      runtime_error(
          "Tensor.requires_grad_() was called on a sample inside vmap, which cannot be a leaf of "
          "the "
          "graph. fix: use func.grad, func.vjp or func.jacrev there, or call it outside");
    }
    if (on != needs_grad(t.get())) refuse_outside(t.get(), "requires_grad is changed");
    if (on && !needs_grad(t.get())) note_own_leaf(t.get());
    if (!t->grad_fn) t.set(kRequiresGrad, on);
    return 0;
  });
}

namespace {

PyObject* get_is_leaf(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    TensorObject* t = as_tensor(o);
    look_at(t);
    if (stale_view(t)) refresh_view_history(t);
    // A value unpacked for a leaf has the leaf's accumulator as history.
    return PyBool_FromLong(!t->grad_fn || !t->grad_fn->backward);
  });
}
PyObject* detach_inplace(PyObject* o, PyObject*);
// PyTorch's older spelling of detach_().
int set_grad_fn(PyObject* o, PyObject* v, void*) {
  return guard_int([&] {
    if (!v) runtime_error("Deletion of _grad_fn not allowed. Detach tensor instead!");
    if (v != Py_None) runtime_error("_grad_fn can be only set to None");
    Object same = checked(detach_inplace(o, nullptr));
    return 0;
  });
}
PyObject* get_grad_fn(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    Tensor inside = innermost(self_of(o));
    TensorObject* t = inside.get();
    if (stale_view(t)) refresh_view_history(t);
    if (t->grad_fn) refuse_outside(t, "grad_fn is read");
    look_at(t);
    return to_python(t->grad_fn && t->grad_fn->backward ? t->grad_fn : nullptr);
  });
}
// Asked of a tensor that backward passes by, None is nearly always a mistake.
bool warn_of_no_grad(const TensorObject* t) {
  if (t->grad || !t->grad_fn || (t->flags & kRetainsGrad)) return true;
  return PyErr_WarnEx(
             PyExc_UserWarning,
             "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
             ".grad attribute won't be populated during autograd.backward(). If you indeed want "
             "the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
             "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access "
             "the leaf Tensor instead.",
             1) == 0;
}
PyObject* get_grad(PyObject* o, void*) {
  if (!warn_of_no_grad(as_tensor(o))) return nullptr;
  if (captured()) t_recorder->read_grad(as_tensor(o));
  return to_python(Tensor::borrow(as_tensor(o)->grad));
}
int set_grad(PyObject* o, PyObject* v, void*) {
  return guard_int([&] {
    Tensor t = self_of(o);
    Tensor g;
    if (v && v != Py_None) {
      if (!is_tensor(v))
        type_error("assigned grad expected to be a Tensor or None but got grad of type ",
                   Py_TYPE(v)->tp_name);
      g = self_of(v);
      if (g.is(t)) runtime_error("can't assign Variable as its own grad");
      if (g.dtype() != t.dtype()) {
        runtime_error("attempting to assign a gradient with dtype '", g.dtype(),
                      "' to a tensor with dtype '", t.dtype(), "'");
      }
      if (!(g.shape() == t.shape())) {
        runtime_error("assigned grad has data of a different size: the gradient has shape ",
                      g.shape(), ", the tensor has shape ", t.shape());
      }
    }
    if (captured()) t_recorder->read_grad(t.get());
    log_change(t.get());
    give_grad(t.get(), std::move(g));
    if (captured()) t_recorder->set_grad(t.get());
    return 0;
  });
}
PyObject* get_version(PyObject* o, void*) {
  if (as_tensor(o)->flags & kInference) {
    PyErr_SetString(PyExc_RuntimeError, "Inference tensors do not track version counter.");
    return nullptr;
  }
  refuse_outside(as_tensor(o), "_version is read");
  // A base that was given other memory goes on counting for its views.
  const TensorObject* counting = as_tensor(o)->base ? as_tensor(o)->base : as_tensor(o);
  return PyLong_FromUnsignedLong(count_of(counting->storage->version));
}
PyObject* get_base(PyObject* o, void*) {
  refuse_outside(as_tensor(o), "_base is read");
  return to_python(Tensor::borrow(as_tensor(o)->base));
}
PyObject* get_output_nr(PyObject* o, void*) {
  return PyLong_FromUnsignedLong(as_tensor(o)->output_nr);
}
PyObject* get_retains_grad(PyObject* o, void*) {
  return PyBool_FromLong(as_tensor(o)->flags & kRetainsGrad);
}

// `cut` is `t` without its history.
void mark_detached(TensorObject* cut, TensorObject* t, CutReason reason) {
  bool hidden = t_forward_reads && t_forward_reads->note_detached(t);
  mark_cut(cut, t, reason, nullptr);
  if (hidden) set_forward_facts(cut, cut->cut->in_forward, true);
}
// The same memory without history, which remembers where it lost it.
Tensor cut_off(const Tensor& t, CutReason reason) {
  if (Transformed* x = batch_of(t.get())) {
    Level level = x->batch_level;
    return make_batched(cut_off(x->batch, reason), level);
  }
  Tensor cut = alias(t);
  if (needs_grad(t.get())) {
    mark_detached(cut.get(), t.get(), reason);
  } else if (t->cut) {
    pass_cut(cut.get(), t->cut);
  }
  return cut;
}
PyObject* get_data(PyObject* o, void*) {
  if (any_overriding(&o, 1)) return get_overriding("data", o);
  return guard([&] {
    if (batch_of(as_tensor(o)))
      runtime_error("accessing `data` under vmap transform is not allowed; fix: use detach()");
    Tensor data = cut_off(self_of(o), CutReason::Data);
    data.set(kData);
    return to_python(data);
  });
}
int set_data(PyObject* o, PyObject* v, void*) {
  return guard_int([&] {
    if (!v) runtime_error("Deleting tensor data is not allowed. Delete tensor instead!");
    if (!is_tensor(v))
      type_error("Variable data has to be a tensor, but got ", Py_TYPE(v)->tp_name);
    Tensor t = self_of(o), from = self_of(v);
    require_strided(t.get(), "`.data = `");
    require_strided(from.get(), "`.data = `");
    if (is_batched(t) || is_batched(from)) {
      runtime_error(
          "mutating directly with `.data` under vmap transform is not allowed; fix: use copy_()");
    }
    if (t.dtype() != from.dtype() && t->grad)
      runtime_error("data set to a tensor with dtype ", from.dtype(), " while grad has ",
                    t.dtype());
    if (t.requires_grad() && !is_differentiable(from.dtype())) {
      runtime_error(
          "data set to a tensor that requires gradients must be floating point or complex dtype, "
          "not ",
          from.dtype());
    }
    refuse_recording("`.data = ` gives a tensor other memory; fix: use copy_()");
    log_change(t.get());
    Tensor fresh = alias(from);
    note_parting(t.get());
    // Whoever saved this tensor has to notice, whatever the versions of the two memories are.
    uint32_t before = t->storage->version;
    uint32_t place = (std::max(fresh->storage->version, before) >> kCountBits) + 1;
    fresh->storage->version = place << kCountBits | count_of(before);
    fresh->storage->changed = SourceLine::here();
    std::swap(t->storage, fresh->storage);
    std::swap(t->data, fresh->data);
    t->dtype = fresh->dtype;
    t->flags = static_cast<uint16_t>((t->flags & ~kPending) | fresh.pending());
    set_geometry(t.get(), fresh.shape(), fresh.strides());
    return 0;
  });
}

PyObject* detach(PyObject* o, PyObject*) {
  if (any_overriding(&o, 1)) return call_overriding_method("detach", o, nullptr, 0, nullptr);
  return guard([&] { return to_python(cut_off(self_of(o), CutReason::Detach)); });
}
PyObject* detach_inplace(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Tensor t = self_of(o);
    if (t.is_view()) {
      runtime_error("Can't detach views in-place. Use detach() instead.");
    }
    if (needs_grad(t.get())) {
      refuse_outside(t.get(), "detach_() cuts off the history");
      mark_detached(t.get(), t.get(), CutReason::Detach);
    }
    Py_CLEAR(t->grad_fn);
    t.set(kRequiresGrad, false);
    drop_transformed(t.get());
    return to_python(t);
  });
}
PyObject* requires_grad_(PyObject* o, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"requires_grad", nullptr};
  PyObject* on = Py_True;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:requires_grad_", const_cast<char**>(names),
                                   &on))
    return nullptr;
  if (!PyBool_Check(on)) {
    PyErr_Format(PyExc_TypeError,
                 "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not %s",
                 Py_TYPE(on)->tp_name);
    return nullptr;
  }
  if (set_requires_grad(o, on, nullptr) < 0) return nullptr;
  Py_INCREF(o);
  return o;
}

PyGetSetDef attributes[] = {
    {"requires_grad", get_requires_grad, set_requires_grad,
     "Whether operations on this tensor are recorded.", nullptr},
    {"is_leaf", get_is_leaf, nullptr,
     "Whether this tensor was made by the user rather than by a recorded op.", nullptr},
    {"grad_fn", get_grad_fn, nullptr,
     "The node of the graph that made this tensor; None for a leaf.", nullptr},
    {"_grad_fn", get_grad_fn, set_grad_fn, nullptr, nullptr},
    {"grad", get_grad, set_grad, "The gradient gathered by backward; None before.", nullptr},
    {"_grad", get_grad, set_grad, nullptr, nullptr},
    {"data", get_data, set_data,
     "The same memory without history; changes through it are not counted by `_version`.", nullptr},
    {"_version", get_version, nullptr, "How often the memory was changed in place.", nullptr},
    {"_base", get_base, nullptr, "The tensor this one is a view of, or None.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Which output of grad_fn this is.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether a non-leaf keeps its gradient.", nullptr},
    {nullptr}};

PyMethodDef methods[] = {
    {"detach", detach, METH_NOARGS, "The same memory without history."},
    {"detach_", detach_inplace, METH_NOARGS, "Drops this tensor's history."},
    {"requires_grad_", reinterpret_cast<PyCFunction>(requires_grad_), METH_VARARGS | METH_KEYWORDS,
     "requires_grad_(requires_grad=True): sets the flag and returns the tensor."},
    {nullptr}};

}  // namespace

void add_history_attributes() { extend_tensor_type(methods, attributes); }

}  // namespace adjoint
