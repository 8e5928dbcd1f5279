// Hooks on gradients: how they are kept, and how the engine runs them.
//
// A leaf keeps its hooks itself. Those of other tensors are kept by the node that made the tensor,
// so that a tensor changed in place afterwards leaves them where they were: on the value they were
// registered on. What retain_grad() asked for moves along instead (move_retained in
// graph/retained_grad.h), since it belongs to the tensor. Handles are made in
// python/adjoint/utils/hooks.py.
#include "bindings/autograd/autograd.h"
#include "bindings/program/program.h"
#include "dispatch/program_recorder.h"
#include "graph/back_links.h"
#include "graph/retained_grad.h"
#include "python/weak.h"

namespace adjoint {

Object tuple_of(const Tensor* ts, int n) {
  Object t = checked(PyTuple_New(n));
  for (int i = 0; i < n; ++i) PyTuple_SET_ITEM(t.get(), i, to_python(ts[i]));
  return t;
}

namespace {

// --- running -------------------------------------------------------------------------------------
// Hooks may add or remove hooks while they run: those there at the start run, no others.
Object hooks_in(PyObject* dict) { return checked(PyDict_Values(dict)); }

std::string name_of(PyObject* hook) {
  Object name = Object::steal(PyObject_GetAttrString(hook, "__name__"));
  const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
  PyErr_Clear();
  return text ? text : Py_TYPE(hook)->tp_name;
}

// What a hook made of a gradient.
Tensor checked_result(PyObject* result, const Tensor& before, PyObject* hook) {
  if (!is_tensor(result)) {
    type_error("expected Variable, but hook returned '", Py_TYPE(result)->tp_name, "': the hook '",
               name_of(hook), "' must return a Tensor or None");
  }
  Tensor after = Tensor::borrow(as_tensor(result));
  if (!before) runtime_error("can't replace a None gradient with a non-None value");
  if (!(after.shape() == before.shape())) {
    runtime_error("hook '", name_of(hook), "' has changed the size of value: ", before.shape(),
                  " became ", after.shape());
  }
  if (after.dtype() != before.dtype()) {
    runtime_error("hook '", name_of(hook), "' has changed the type of value (was ", before.dtype(),
                  " got ", after.dtype(), ")");
  }
  return after;
}

Tensor run_tensor_hooks(PyObject* dict, const Tensor& grad) {
  Object hooks = hooks_in(dict);
  Tensor g = grad;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
    PyObject* hook = PyList_GET_ITEM(hooks.get(), i);
    Object arg = checked(to_python(g));
    Object r = checked(PyObject_CallOneArg(hook, arg.get()));
    if (r.get() != Py_None) g = checked_result(r.get(), g, hook);
  }
  return g;
}

// A hook of a node replaces all gradients or none.
void replace(Tensor* ts, int n, const Object& by, PyObject* hook) {
  if (by.get() == Py_None) return;
  if (!PyTuple_Check(by.get())) {
    type_error("expected tuple, but hook returned '",
               is_tensor(by.get()) ? "Tensor" : Py_TYPE(by.get())->tp_name, "': the hook '",
               name_of(hook), "' must return None or a tuple of ", n,
               n == 1 ? " gradient: (grad,)" : " gradients");
  }
  if (PyTuple_GET_SIZE(by.get()) != n) {
    runtime_error("hook '", name_of(hook), "' has returned an incorrect number of values (got ",
                  PyTuple_GET_SIZE(by.get()), ", but expected ", n, ")");
  }
  Tensors after(n);
  for (int i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(by.get(), i);
    if (o != Py_None) after[i] = checked_result(o, ts[i], hook);
  }
  std::move(after.begin(), after.end(), ts);
}

void run_pre_hooks(PyObject* dict, Tensor* grads, int n) {
  Object hooks = hooks_in(dict);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
    PyObject* hook = PyList_GET_ITEM(hooks.get(), i);
    Object args = tuple_of(grads, n);
    replace(grads, n, checked(PyObject_CallOneArg(hook, args.get())), hook);
  }
}

void run_post_hooks(PyObject* dict, Tensor* results, int n, Tensor* grads, int m) {
  Object hooks = hooks_in(dict);
  Object outputs = tuple_of(grads, m);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
    PyObject* hook = PyList_GET_ITEM(hooks.get(), i);
    Object inputs = tuple_of(results, n);
    PyObject* args[2] = {inputs.get(), outputs.get()};
    replace(results, n, checked(PyObject_Vectorcall(hook, args, 2, nullptr)), hook);
  }
}

void run_post_accumulate(PyObject* dict, TensorObject* leaf) {
  Object hooks = hooks_in(dict);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
    PyObject* hook = PyList_GET_ITEM(hooks.get(), i);
    Object r = checked(PyObject_CallOneArg(hook, reinterpret_cast<PyObject*>(leaf)));
    if (r.get() == Py_None) continue;
    runtime_error("Tensor post accumulate grad hooks should return None. ('", name_of(hook),
                  "' returned ", Py_TYPE(r.get())->tp_name, ")");
  }
}

void retain(PyObject* weak, const Tensor& grad) {
  PyObject* o = referent(weak);
  if (!o) return;
  Tensor t = Tensor::borrow(as_tensor(o));
  // A second pass adds, as it does for leaves. A copy, since the gradient itself travels on and may
  // be an expanded view.
  Tensor g = t->grad ? Tensor::borrow(t->grad) + grad : op<"clone">(grad).tensor();
  give_grad(t.get(), std::move(g));
}

void run_callback(PyObject* callable) { checked(PyObject_CallNoArgs(callable)); }

// --- registering ---------------------------------------------------------------------------------
// An OrderedDict, since handles refer to it weakly and a plain dict has no weak references.
PyObject* new_table() {
  static PyObject* type = nullptr;
  if (!type) {
    Object module = checked(PyImport_ImportModule("collections"));
    type = checked(PyObject_GetAttrString(module.get(), "OrderedDict")).release();
  }
  return checked(PyObject_CallNoArgs(type)).release();
}

// The table at a place in an `extra`, of which it is a back link.
template <class Extra>
PyObject* table_in(Extra& extra, PyObject*& place) {
  if (!place) place = new_table();
  extra.back_link.set();
  Py_INCREF(place);
  return place;
}

PyObject* tensor_table(TensorObject* t) {
  Edges edge;
  edge.items.push_back(gradient_edge(t));  // of a view that is behind its base: made anew
  if (!edge.items[0].node)
    runtime_error("cannot register a hook on a tensor that doesn't require gradient");
  refuse_outside(t, "a hook is registered on the gradient");
  refuse_inner_result(edge.items[0], "a hook");
  if (!t->grad_fn) return table_in(extra_of(t), extra_of(t).hooks);
  NodeExtra& extra = extra_of(t->grad_fn);
  auto& tables = extra.tensor_hooks;
  for (auto& [slot, dict] : tables) {
    if (slot == t->output_nr) return table_in(extra, dict);
  }
  tables.push_back({t->output_nr, nullptr});
  return table_in(extra, tables.back().second);
}

TensorObject* tensor_argument(PyObject* o) {
  if (!is_tensor(o)) type_error("expected a Tensor, got ", Py_TYPE(o)->tp_name);
  return as_tensor(o);
}
Node* node_argument(PyObject* o) {
  if (!is_node(o)) type_error("expected a Node of the graph, got ", Py_TYPE(o)->tp_name);
  return reinterpret_cast<Node*>(o);
}

PyObject* tensor_hooks(PyObject*, PyObject* o) {
  return guard([&] { return tensor_table(tensor_argument(o)); });
}
PyObject* post_accumulate_hooks(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    TensorObject* t = tensor_argument(o);
    if (!needs_grad(t))
      runtime_error("cannot register a hook on a tensor that doesn't require gradient");
    if (t->grad_fn)
      runtime_error("post accumulate grad hooks cannot be registered on non-leaf tensors");
    refuse_outside(t, "a hook is registered on the gradient");
    return table_in(extra_of(t), extra_of(t).post_accumulate);
  });
}
PyObject* node_hooks(PyObject*, PyObject* o) {
  return guard([&] {
    NodeExtra& extra = extra_of(node_argument(o));
    return table_in(extra, extra.post_hooks);
  });
}
PyObject* node_pre_hooks(PyObject*, PyObject* o) {
  return guard([&] {
    NodeExtra& extra = extra_of(node_argument(o));
    return table_in(extra, extra.pre_hooks);
  });
}

PyObject* retain_grad(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    keep_gradient(as_tensor(self));
    Py_RETURN_NONE;
  });
}

// What there is, for programs that look: None or a dict.
PyObject* backward_hooks(PyObject* self, void*) {
  TensorObject* t = as_tensor(self);
  PyObject* found = Py_None;
  if (!t->grad_fn) {
    if (t->extra && t->extra->hooks) found = t->extra->hooks;
  } else if (t->grad_fn->extra) {
    for (auto& [slot, dict] : t->grad_fn->extra->tensor_hooks) {
      if (slot == t->output_nr) found = dict;
    }
  }
  Py_INCREF(found);
  return found;
}
// Given as a whole, as programs do that copy tensors with all they have: None or a dict.
int set_backward_hooks(PyObject* self, PyObject* table, void*) {
  return guard_int([&] {
    if (!table)
      runtime_error(
          "Deletion of _backwards_hooks not allowed! fix: use remove() of the handle that "
          "register_hook returned");
    if (table != Py_None && !PyDict_Check(table))
      type_error("_backward_hooks must be None or a dict of hooks, got ", Py_TYPE(table)->tp_name);
    TensorObject* t = as_tensor(self);
    refuse_outside(t, "a hook is registered on the gradient");
    Object given = Object::borrow(table == Py_None ? nullptr : table), before;
    // Handles of hooks refer to the table weakly, which a plain dict does not allow.
    if (given && PyDict_CheckExact(table))
      given = checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyODict_Type), table));
    if (!t->grad_fn) {
      before = Object::steal(std::exchange(extra_of(t).hooks, given.release()));
      return 0;
    }
    auto& tables = extra_of(t->grad_fn).tensor_hooks;
    auto at = std::find_if(tables.begin(), tables.end(),
                           [&](auto& one) { return one.first == t->output_nr; });
    if (at != tables.end()) {
      before = Object::steal(at->second);
      tables.erase(at);
    }
    if (given) tables.push_back({t->output_nr, given.release()});
    return 0;
  });
}

PyGetSetDef attributes[] = {{"_backward_hooks", backward_hooks, set_backward_hooks,
                             "The hooks on this tensor's gradient.", nullptr},
                            {nullptr}};
PyMethodDef functions[] = {
    {"_tensor_hooks", tensor_hooks, METH_O, "The hooks on a tensor's gradient."},
    {"_post_accumulate_hooks", post_accumulate_hooks, METH_O,
     "A leaf's hooks that run after its gradient was added."},
    {"_node_hooks", node_hooks, METH_O, "The hooks that run after a node."},
    {"_node_pre_hooks", node_pre_hooks, METH_O, "The hooks that run before a node."},
    {nullptr}};
PyMethodDef methods[] = {
    {"retain_grad", retain_grad, METH_NOARGS, "Makes a non-leaf keep its gradient in .grad."},
    {nullptr}};

}  // namespace

void keep_gradient(TensorObject* t) {
  if (!needs_grad(t)) runtime_error("can't retain_grad on Tensor that has requires_grad=False");
  Edges edge;
  edge.items.push_back(gradient_edge(t));
  if (!t->grad_fn || (t->flags & kRetainsGrad)) return;
  refuse_outside(t, "retain_grad() is called");
  refuse_inner_result(edge.items[0], "retain_grad()");
  Object weak = checked(PyWeakref_NewRef(reinterpret_cast<PyObject*>(t), nullptr));
  extra_of(t->grad_fn).retains.push_back({t->output_nr, weak.release()});
  t->flags |= kRetainsGrad;
}

void add_hooks(PyObject* module) {
  engine_hooks = {run_tensor_hooks, run_pre_hooks, run_post_hooks, run_post_accumulate,
                  retain,           run_callback,  interrupted,    run_on_fresh_thread};
  add_functions(module, functions);
  extend_tensor_type(methods, attributes);
}

}  // namespace adjoint
