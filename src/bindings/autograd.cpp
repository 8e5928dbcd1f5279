// backward, grad, grad mode and hooks: from Python to the engine and back.
#include "../engine/engine.h"
#include "../graph/view.h"
#include "python.h"

namespace adjoint {
namespace {

Object call_hook(PyObject* hook, PyObject* argument) {
  return checked(PyObject_CallOneArg(hook, argument));
}

// Hooks may add or remove hooks while they run, so the values are copied first.
Object hooks_in(PyObject* dict) { return checked(PyDict_Values(dict)); }

Tensor run_tensor_hooks(PyObject* dict, const Tensor& grad) {
  Object hooks = hooks_in(dict);
  Tensor g = grad;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
    Object arg = checked(to_python(g));
    Object r = call_hook(PyList_GET_ITEM(hooks.get(), i), arg.get());
    if (r.get() == Py_None) continue;
    if (!is_tensor(r.get()))
      type_error("expected hook to return a Tensor or None, got ", Py_TYPE(r.get())->tp_name);
    Tensor changed = Tensor::borrow(as_tensor(r.get()));
    if (!(changed.shape() == g.shape())) {
      runtime_error("hook has changed the size of value: ", g.shape(), " became ", changed.shape());
    }
    if (changed.dtype() != g.dtype()) {
      runtime_error("hook has changed the type of value (was ", g.dtype(), " got ", changed.dtype(),
                    ")");
    }
    g = changed;
  }
  return g;
}

Object tuple_of(const Tensor* ts, int n) {
  Object t = checked(PyTuple_New(n));
  for (int i = 0; i < n; ++i) PyTuple_SET_ITEM(t.get(), i, to_python(ts[i]));
  return t;
}

void replace(Tensor* ts, int n, PyObject* by, const char* what) {
  if (by == Py_None) return;
  Object one;
  if (is_tensor(by)) {
    one = checked(PyTuple_Pack(1, by));
    by = one.get();
  }
  if (!PyTuple_Check(by) || PyTuple_GET_SIZE(by) != n)
    type_error(what, " must return None or a tuple of ", n, " gradients");
  for (int i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(by, i);
    ts[i] = o == Py_None ? Tensor() : Tensor::borrow(as_tensor(o));
  }
}

void run_pre_hooks(PyObject* dict, Tensor* grads, int n) {
  Object hooks = hooks_in(dict);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
    Object args = tuple_of(grads, n);
    replace(grads, n, call_hook(PyList_GET_ITEM(hooks.get(), i), args.get()).get(),
            "a node prehook");
  }
}

void run_post_hooks(PyObject* dict, Tensor* results, int n, Tensor* grads, int m) {
  Object hooks = hooks_in(dict);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
    Object in = tuple_of(results, n), out = tuple_of(grads, m);
    Object r = checked(PyObject_CallFunctionObjArgs(PyList_GET_ITEM(hooks.get(), i), in.get(),
                                                    out.get(), nullptr));
    replace(results, n, r.get(), "a node hook");
  }
}

void run_post_accumulate(PyObject* dict, TensorObject* leaf) {
  Object hooks = hooks_in(dict);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hooks.get()); ++i) {
    Object r = call_hook(PyList_GET_ITEM(hooks.get(), i), reinterpret_cast<PyObject*>(leaf));
    if (r.get() != Py_None) runtime_error("Tensor post accumulate grad hooks should return None.");
  }
}

void retain(PyObject* weak, const Tensor& grad) {
  PyObject* o = PyWeakref_GetObject(weak);
  if (o == Py_None) return;
  TensorObject* t = as_tensor(o);
  // A second pass adds, as it does for leaves. A copy, since the gradient itself travels on and may
  // be an expanded view.
  Tensor g = t->grad ? Tensor::borrow(t->grad) + grad : op<"clone">(grad).tensor();
  TensorObject* before = std::exchange(t->grad, g.release());
  Py_XDECREF(before);
}

bool interrupted() { return PyErr_CheckSignals() != 0; }

// --- backward and grad
// -----------------------------------------------------------------------------
// run_backward(outputs, grads, keep_graph, create_graph, inputs, allow_unreachable, accumulate)
// outputs and inputs are tuples of tensors or of (node, slot); grads a tuple of tensors or None.
struct Edges {
  std::vector<Edge> items;
  ~Edges() {
    for (Edge& e : items) Py_XDECREF(e.node);
  }
};

Edge edge_of(PyObject* o) {
  if (is_tensor(o)) return gradient_edge(as_tensor(o));
  if (PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2 && is_node(PyTuple_GET_ITEM(o, 0))) {
    auto* n = reinterpret_cast<Node*>(PyTuple_GET_ITEM(o, 0));
    Py_INCREF(n);
    return {n, static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(o, 1)))};
  }
  type_error("expected a Tensor or a GradientEdge, got ", Py_TYPE(o)->tp_name);
}

Tensor implicit_grad(PyObject* o, Py_ssize_t i) {
  if (!is_tensor(o)) runtime_error("a GradientEdge output needs an explicit gradient");
  Tensor t = Tensor::borrow(as_tensor(o));
  if (t.numel() != 1) {
    runtime_error(
        "grad can be implicitly created only for scalar outputs: output ", i, " has shape ",
        t.shape(), ".\n  fix: call .sum() or .mean() first, or pass gradient= a tensor of shape ",
        t.shape(), " (ones for the sum of all rows), or use func.jacrev for the whole Jacobian");
  }
  if (is_complex(t.dtype())) {
    runtime_error("grad can be implicitly created only for real scalar outputs but got ",
                  t.dtype());
  }
  Tensor one = empty(t.shape(), t.dtype());
  copy_into(one, scalar_tensor(Value(1), t.dtype()).ndim() == t.ndim()
                     ? scalar_tensor(Value(1), t.dtype())
                     : op<"expand">(scalar_tensor(Value(1), t.dtype()), t.shape()).tensor());
  return one;
}

void check_grad(const Tensor& g, PyObject* output, Py_ssize_t i) {
  if (!is_tensor(output)) return;
  Tensor t = Tensor::borrow(as_tensor(output));
  if (!(g.shape() == t.shape())) {
    runtime_error("Mismatch in shape: grad_output[", i, "] has a shape of torch.Size(", g.shape(),
                  ") and output[", i, "] has a shape of torch.Size(", t.shape(), ").");
  }
  if (is_complex(g.dtype()) != is_complex(t.dtype())) {
    runtime_error(
        "For complex Tensors, both grad_output and output are required to have the same dtype. "
        "Mismatch in dtype: "
        "grad_output[",
        i, "] has a dtype of ", g.dtype(), " and output[", i, "] has a dtype of ", t.dtype(), ".");
  }
}

PyObject* run(PyObject*, PyObject* args) {
  PyObject *outputs, *grads, *inputs;
  int keep, create, unreachable, accumulate;
  if (!PyArg_ParseTuple(args, "O!O!ppO!pp", &PyTuple_Type, &outputs, &PyTuple_Type, &grads, &keep,
                        &create, &PyTuple_Type, &inputs, &unreachable, &accumulate)) {
    return nullptr;
  }
  return guard([&]() -> PyObject* {
    Edges output_edges, input_edges;
    std::vector<Root> roots;
    Py_ssize_t n = PyTuple_GET_SIZE(outputs);
    if (PyTuple_GET_SIZE(grads) != n)
      runtime_error("got ", n, " tensors and ", PyTuple_GET_SIZE(grads), " gradients");
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* o = PyTuple_GET_ITEM(outputs, i);
      Edge e = edge_of(o);
      output_edges.items.push_back(e);
      if (!e.node) {
        runtime_error(
            "element ", i,
            " of tensors does not require grad and does not have a grad_fn.\n  It was made without "
            "recording: by a leaf without requires_grad=True, under no_grad, after detach(), or "
            "from integers.");
      }
      PyObject* g = PyTuple_GET_ITEM(grads, i);
      Tensor grad;
      if (g == Py_None) {
        grad = implicit_grad(o, i);
      } else if (is_tensor(g)) {
        grad = Tensor::borrow(as_tensor(g));
        check_grad(grad, o, i);
      } else {
        type_error("gradients can be either Tensors or None, but got ", Py_TYPE(g)->tp_name);
      }
      roots.push_back({e, grad});
    }
    BackwardOptions options;
    options.keep_graph = keep;
    options.create_graph = create;
    options.accumulate = accumulate;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
      PyObject* o = PyTuple_GET_ITEM(inputs, i);
      Edge e = edge_of(o);
      input_edges.items.push_back(e);
      if (!e.node) {
        runtime_error("One of the differentiated Tensors does not require grad (input ", i, ")");
      }
    }
    options.inputs = input_edges.items;
    std::vector<Tensor> results = run_backward(roots, options);
    if (!unreachable && !accumulate) {
      for (size_t i = 0; i < results.size(); ++i) {
        if (!results[i]) {
          runtime_error(
              "One of the differentiated Tensors appears to not have been used in the graph "
              "(input ",
              i, "). Set allow_unused=True if this is the desired behavior.");
        }
      }
    }
    return tuple_of(results.data(), static_cast<int>(results.size())).release();
  });
}

// Tensor.backward(): the most common call goes straight to the engine.
PyObject* tensor_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  if (n == 0 && !keywords) {
    return guard([&]() -> PyObject* {
      Edges e;
      e.items.push_back(edge_of(self));
      if (!e.items[0].node) {
        runtime_error(
            "element 0 of tensors does not require grad and does not have a grad_fn.\n  It was "
            "made without "
            "recording: by a leaf without requires_grad=True, under no_grad, after detach(), or "
            "from integers.");
      }
      run_backward({{e.items[0], implicit_grad(self, 0)}}, {});
      Py_RETURN_NONE;
    });
  }
  static PyObject* general = nullptr;
  if (!general) {
    Object module = Object::steal(PyImport_ImportModule("adjoint.autograd"));
    if (!module) return nullptr;
    general = PyObject_GetAttrString(module.get(), "_tensor_backward");
    if (!general) return nullptr;
  }
  std::vector<PyObject*> all{self};
  all.insert(all.end(), args, args + n + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
  return PyObject_Vectorcall(general, all.data(), static_cast<size_t>(n + 1), keywords);
}

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_enabled()); }
PyObject* set_grad_enabled_(PyObject*, PyObject* on) {
  int v = PyObject_IsTrue(on);
  if (v < 0) return nullptr;
  set_grad_enabled(v);
  Py_RETURN_NONE;
}

// The dict of hooks that run on the gradient of `tensor`, made if need be.
PyObject* hooks_of(PyObject*, PyObject* o) {
  if (!is_tensor(o)) {
    PyErr_SetString(PyExc_TypeError, "expected a Tensor");
    return nullptr;
  }
  return guard([&]() -> PyObject* {
    TensorObject* t = as_tensor(o);
    Edges keep;
    keep.items.push_back(gradient_edge(t));
    if (!keep.items[0].node)
      runtime_error("cannot register a hook on a tensor that doesn't require gradient");
    if (!t->extra) t->extra = new TensorExtra;
    if (!t->extra->hooks) {
      t->extra->hooks = checked(PyDict_New()).release();
      if (t->grad_fn) {
        Py_INCREF(t->extra->hooks);
        extra_of(t->grad_fn).tensor_hooks.push_back({t->output_nr, t->extra->hooks});
      }
    }
    Py_INCREF(t->extra->hooks);
    return t->extra->hooks;
  });
}
PyObject* post_accumulate_of(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    TensorObject* t = as_tensor(o);
    if (t->grad_fn)
      runtime_error("post accumulate grad hooks cannot be registered on non-leaf tensors");
    if (!needs_grad(t))
      runtime_error("cannot register a hook on a tensor that doesn't require gradient");
    if (!t->extra) t->extra = new TensorExtra;
    if (!t->extra->post_accumulate) t->extra->post_accumulate = checked(PyDict_New()).release();
    Py_INCREF(t->extra->post_accumulate);
    return t->extra->post_accumulate;
  });
}

PyObject* retain_grad(PyObject* self, PyObject*) {
  return guard([&]() -> PyObject* {
    TensorObject* t = as_tensor(self);
    if (!needs_grad(t)) runtime_error("can't retain_grad on Tensor that has requires_grad=False");
    Edges keep;
    keep.items.push_back(gradient_edge(t));
    if (t->grad_fn && !(t->flags & kRetainsGrad)) {
      Object weak = checked(PyWeakref_NewRef(self, nullptr));
      extra_of(t->grad_fn).retains.push_back({t->output_nr, weak.release()});
      t->flags |= kRetainsGrad;
    }
    Py_RETURN_NONE;
  });
}

PyObject* gradient_edge_of(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("expected a Tensor, got ", Py_TYPE(o)->tp_name);
    Edge e = gradient_edge(as_tensor(o));
    if (!e.node)
      runtime_error(
          "It is not possible to get the gradient edge for a Tensor that does not require "
          "gradients");
    Object node = checked(to_python(e.node));
    Py_DECREF(e.node);
    return Py_BuildValue("(Oi)", node.get(), static_cast<int>(e.slot));
  });
}

// (reason, op, file, line, source text, weak reference to the node or None)
PyObject* describe_cut(const Cut& c) {
  return Py_BuildValue("(szsisO)", to_string(c.reason), c.op, c.line.file().c_str(), c.line.line(),
                       c.line.describe().c_str(), c.from ? c.from : Py_None);
}

// Of a tensor: its cut or None. Of a node: a list of (argument, cut).
PyObject* cuts_of(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (is_tensor(o)) {
      if (as_tensor(o)->cut) return describe_cut(*as_tensor(o)->cut);
      Py_RETURN_NONE;
    }
    if (!is_node(o)) type_error("expected a Tensor or a Node, got ", Py_TYPE(o)->tp_name);
    auto* n = reinterpret_cast<Node*>(o);
    Object list = checked(PyList_New(0));
    if (!n->extra) return list.release();
    for (auto& [argument, cut] : n->extra->cuts) {
      Object item = checked(Py_BuildValue("(iN)", argument, describe_cut(*cut.operator->())));
      checked(PyList_Append(list.get(), item.get()));
    }
    return list.release();
  });
}

PyMethodDef functions[] = {
    {"_cuts", cuts_of, METH_O, "Where operands of a node, or a tensor, lost their history."},
    {"_gradient_edge", gradient_edge_of, METH_O,
     "(node, slot) where the gradient of a tensor goes."},
    {"_run_backward", run, METH_VARARGS, "Runs the engine; see adjoint.autograd."},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "Whether operations are recorded in this thread."},
    {"_set_grad_enabled", set_grad_enabled_, METH_O, "Turns recording on or off in this thread."},
    {"_tensor_hooks", hooks_of, METH_O, "The dict of a tensor's gradient hooks."},
    {"_post_accumulate_hooks", post_accumulate_of, METH_O,
     "The dict of a leaf's post-accumulate hooks."},
    {nullptr}};
PyMethodDef methods[] = {
    {"backward", reinterpret_cast<PyCFunction>(tensor_backward), METH_FASTCALL | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None): adds the "
     "gradient of this tensor to the "
     ".grad of every leaf it was computed from."},
    {"retain_grad", retain_grad, METH_NOARGS, "Makes a non-leaf keep its gradient in .grad."},
    {nullptr}};

}  // namespace

void add_autograd(PyObject* module) {
  engine_hooks = {run_tensor_hooks,    run_pre_hooks, run_post_hooks,
                  run_post_accumulate, retain,        interrupted};
  add_functions(module, functions);
  extend_tensor_type(methods, nullptr);
}

}  // namespace adjoint
