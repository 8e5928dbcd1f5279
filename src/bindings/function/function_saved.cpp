// What save_for_backward keeps, and how it comes back. Read function_node.h first.
//
// An input is kept as it is. An output is kept as a second header without history, since the output
// itself holds this node: it gets its history back when it is read. What is neither is kept as it
// is; where it was computed from the inputs it must not be differentiated
// (graph/intermediate.h).
#include "bindings/autograd/saved_hooks.h"
#include "bindings/function/function_node.h"
#include "dispatch/saved.h"
#include "graph/second_backward.h"
#include "graph/intermediate.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

[[noreturn]] void freed(FunctionNode* n) {
  fail_freed(n, n->cleared ? "by ctx.maybe_clear_saved_tensors()" : nullptr);
}

std::string describe_intermediate(FunctionNode* n, const Tensor& t, const std::string& what) {
  return text(
      "a second derivative of ", function_name(n), " passes through ", what, " (", t.dtype(), " ",
      t.shape(),
      "), which forward computed from its inputs without recording: it has no history, so "
      "the derivative would be wrong.\n  made here     ",
      t->cut->line.describe(), "\n  applied here  ", n->line.describe(),
      "\n  fix: save inputs or outputs with ctx.save_for_backward and compute the value from "
      "them in backward, or return it as an output of forward, or mark backward "
      "@once_differentiable");
}

SavedRole role_of(FunctionNode* n, PyObject* t, PyObject* const* inputs, PyObject* const* outputs) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < n->input_count; ++i) {
    if (n->inputs()[i] == kPlainInput) continue;
    if (inputs[i] == t) {
      bool is_output = false;  // changed in place: it is the new value that is kept
      for (int o = 0; o < n->output_count; ++o) is_output |= outputs[o] == t;
      if (!is_output) return {SavedRole::Input, n->edge_of(k)};
    }
    ++k;
  }
  for (int o = 0; o < n->output_count; ++o) {
    if (outputs[o] == t && n->outputs()[o] == kGradOutput)
      return {SavedRole::Output, static_cast<uint32_t>(o)};
  }
  return {};
}

// A copy of a list, tuple or dict in which intermediates are guarded; the same object otherwise.
Object guarded_items(FunctionNode* n, Object held, const std::string& what) {
  PyObject* o = held.get();
  if (is_tensor(o)) {
    Tensor t = Tensor::borrow(as_tensor(o)), g = guarded(n, t, what);
    return g.is(t) ? held : checked(to_python(g));
  }
  Object copy;
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(o, i);
      Object g = guarded_items(n, Object::borrow(item), text(what, "[", i, "]"));
      if (g.get() == item) continue;
      if (!copy) copy = checked(PySequence_List(o));
      checked(PyList_SetItem(copy.get(), i, g.release()));
    }
    if (!copy) return held;
    return PyList_CheckExact(o) ? copy : checked(PyList_AsTuple(copy.get()));
  }
  if (PyDict_CheckExact(o)) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) {
      Object shown = checked(PyObject_Repr(key));
      Object g = guarded_items(n, Object::borrow(value),
                               text(what, "[", PyUnicode_AsUTF8(shown.get()), "]"));
      if (g.get() == value) continue;
      if (!copy) copy = checked(PyDict_Copy(o));
      checked(PyDict_SetItem(copy.get(), key, g.get()));
    }
  }
  return copy ? copy : held;
}

}  // namespace

PyObject* guarded_attribute(FunctionNode* n, PyObject* name, PyObject* value) {
  return guarded_items(n, Object::steal(value), text("ctx.", PyUnicode_AsUTF8(name))).release();
}

void keep_saved(FunctionNode* n, PyObject* const* inputs, PyObject* const* outputs) {
  Object list = Object::steal(std::exchange(n->to_save, nullptr));
  if (!list) return;
  int count = static_cast<int>(PyTuple_GET_SIZE(list.get()));
  if (count > UINT16_MAX) runtime_error("save_for_backward: ", count, " tensors are too many");
  make_room_for_saved(n, count);
  if (count > kInlineSaved) n->roles = new SavedRole[count];
  for (int i = 0; i < count; ++i) {
    PyObject* o = PyTuple_GET_ITEM(list.get(), i);
    if (o == Py_None) continue;
    n->roles[i] = role_of(n, o, inputs, outputs);
    Tensor t = Tensor::borrow(as_tensor(o));
    n->saved[i] = n->roles[i].kind == SavedRole::Output ? pack_output(t) : pack(Value(t));
    if (g_transformed && n->saved[i].value.is_tensor() && n->saved[i].value.object() != t.get())
      share_tangents(n->saved[i].value.tensor(), t);
  }
}

namespace {

Tensor saved_tensor(FunctionNode* n, int i) {
  Tensor t = unpack(n, n->saved[i], {});
  if (!t) return t;
  SavedRole role = n->roles[i];
  switch (role.kind) {
    case SavedRole::Input:
      return with_history(t, n->edges[role.index]);
    case SavedRole::Output:
      return with_history(t, {n, role.index});
    default:
      return grad_enabled() && n->in_backward ? guarded(n, t, text("saved tensor ", i)) : t;
  }
}

}  // namespace

PyObject* saved_tensors(FunctionNode* n) {
  if (n->in_jvp) {
    PyObject* kept = n->for_forward;
    Py_XINCREF(kept);
    return kept ? kept : PyTuple_New(0);
  }
  if (n->read_once) {
    runtime_error(
        "saved_tensors can only be accessed once when clear_saved_tensors_on_access is True (",
        function_name(n), "): keep the tensors that it returned");
  }
  if (n->released) freed(n);
  UnpackScope scope;
  Object result = checked(PyTuple_New(n->saved_count));
  for (int i = 0; i < n->saved_count; ++i)
    PyTuple_SET_ITEM(result.get(), i, to_python(saved_tensor(n, i)));
  static PyObject* once = interned("clear_saved_tensors_on_access");
  if (n->saved_count && class_says(n, once)) {
    release_saved(n);
    n->read_once = true;
  }
  return result.release();
}

PyObject* raw_saved_tensors(FunctionNode* n) {
  if (n->released) freed(n);
  Object result = checked(PyTuple_New(n->saved_count));
  for (int i = 0; i < n->saved_count; ++i)
    PyTuple_SET_ITEM(result.get(), i, checked(raw_saved(n, i)).release());
  return result.release();
}

Tensor guarded(FunctionNode* n, const Tensor& t, const std::string& what) {
  if (!is_intermediate(n, t.get())) return t;
  std::vector<Edge> edges;
  for (int i = 0; i < n->edge_count; ++i) {
    if (!n->edges[i].node) continue;
    Py_INCREF(n->edges[i].node);
    edges.push_back(n->edges[i]);
  }
  Node* error = new_error_node(describe_intermediate(n, t, what), std::move(edges));
  Tensor a = alias(t);
  set_meta(error, 0, t);
  set_history(a, error, 0);
  Py_DECREF(error);
  return a;
}

}  // namespace adjoint
