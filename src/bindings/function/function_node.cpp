// The life cycle of custom functions' nodes, and what `ctx` offers. Read function_node.h first.
#include "bindings/function/function_node.h"

#include "dispatch/record_node.h"
#include "engine/engine.h"
#include "graph/intermediate.h"

namespace adjoint {

PyTypeObject* function_node_type = nullptr;

namespace {

PyTypeObject g_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

constexpr int kFreeList = 256;
FunctionNode* g_free[kFreeList];
int g_free_count = 0;

void clear_fields(FunctionNode* n) noexcept {
  Py_CLEAR(n->needs);
  Py_CLEAR(n->to_save);
  Py_CLEAR(n->for_forward);
  Py_CLEAR(n->dirty);
  Py_CLEAR(n->non_differentiable);
  Py_CLEAR(n->in_structure);
  Py_CLEAR(n->out_structure);
}

// Called while the graph takes the node apart, hence without recursion.
void free_node(Node* plain) noexcept {
  FunctionNode* n = function_node(plain);
  gc::BackLink::remove();
  clear_fields(n);
  if (n->roles != n->roles_inline) delete[] n->roles;
  delete[] n->more_inputs;
  delete[] n->more_outputs;
  if (n->hidden) drop_hidden(n);
  PyTypeObject* type = Py_TYPE(n);
  if (g_free_count < kFreeList && type->tp_basicsize == sizeof(FunctionNode)) {
    g_free[g_free_count++] = n;
  } else {
    PyObject_GC_Del(n);
  }
  Py_DECREF(type);
}

int traverse(PyObject* o, visitproc visit, void* arg) {
  FunctionNode* n = function_node(o);
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(n->needs);
  Py_VISIT(n->to_save);
  Py_VISIT(n->for_forward);
  Py_VISIT(n->dirty);
  Py_VISIT(n->non_differentiable);
  Py_VISIT(n->in_structure);
  Py_VISIT(n->out_structure);
  if (n->hidden) {
    if (int r = visit_hidden(n, visit, arg)) return r;
  }
  return traverse_node(n, visit, arg);
}
int clear(PyObject* o) {
  clear_fields(function_node(o));
  if (function_node(o)->hidden) release_hidden(function_node(o));
  clear_node(function_node(o));
  return 0;
}
void dealloc(PyObject* o) { destroy_node(function_node(o)); }

}  // namespace

FunctionNode* new_function_node(PyTypeObject* type, int inputs, int edges) {
  FunctionNode* n;
  if (g_free_count && type->tp_basicsize == sizeof(FunctionNode)) {
    n = g_free[--g_free_count];
    PyObject_Init(reinterpret_cast<PyObject*>(n), type);
  } else {
    n = PyObject_GC_New(FunctionNode, type);
    if (!n) throw PythonError{};
  }
  std::memset(reinterpret_cast<char*>(n) + sizeof(PyObject), 0,
              sizeof(FunctionNode) - sizeof(PyObject));
  init_foreign_node(n, type->tp_name, run_function_backward, edges);
  n->roles = n->roles_inline;
  n->input_count = static_cast<uint32_t>(inputs);
  if (inputs > kInlineInputs) n->more_inputs = new uint8_t[inputs]{};
  PyObject_GC_Track(n);
  gc::BackLink::add();  // to its class, and to whatever forward puts into it
  return n;
}

namespace {

// --- what forward asks for -----------------------------------------------------------------------
PyObject* pack(PyObject* const* args, Py_ssize_t count) {
  PyObject* t = PyTuple_New(count);
  for (Py_ssize_t i = 0; t && i < count; ++i) {
    Py_INCREF(args[i]);
    PyTuple_SET_ITEM(t, i, args[i]);
  }
  return t;
}

template <PyObject* FunctionNode::* Field>
PyObject* set_field(PyObject* o, PyObject* const* args, Py_ssize_t count) {
  PyObject* t = pack(args, count);
  if (!t) return nullptr;
  Py_XSETREF(function_node(o)->*Field, t);
  Py_RETURN_NONE;
}

const char* how_to_save(PyObject* o) {
  if (PyDict_Check(o)) return "save the tensors in a dict: ctx.save_for_backward(*d.values())";
  if (PyList_Check(o) || PyTuple_Check(o))
    return "save the tensors in it one by one: ctx.save_for_backward(*tensors)";
  return "keep other things as attributes: ctx.name = value";
}

// save_for_backward(*tensors)
PyObject* save_for_backward(PyObject* o, PyObject* const* args, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (args[i] == Py_None || is_tensor(args[i])) continue;
    PyErr_Format(PyExc_TypeError,
                 "save_for_backward can only save variables, but argument %zd is of type %s (%s)",
                 i, Py_TYPE(args[i])->tp_name, how_to_save(args[i]));
    return nullptr;
  }
  return set_field<&FunctionNode::to_save>(o, args, count);
}

PyObject* save_for_forward(PyObject* o, PyObject* const* args, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (args[i] == Py_None || is_tensor(args[i])) continue;
    PyErr_Format(PyExc_TypeError,
                 "save_for_forward expects all arguments to be tensors; you should save "
                 "non-tensors as attributes on ctx (argument %zd is of type %s)",
                 i, Py_TYPE(args[i])->tp_name);
    return nullptr;
  }
  return set_field<&FunctionNode::for_forward>(o, args, count);
}

bool all_tensors(PyObject* const* args, Py_ssize_t count, const char* what) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (is_tensor(args[i])) continue;
    PyErr_Format(PyExc_RuntimeError, "%s, but argument %zd is of type %s", what, i,
                 Py_TYPE(args[i])->tp_name);
    return false;
  }
  return true;
}

PyObject* mark_dirty(PyObject* o, PyObject* const* args, Py_ssize_t count) {
  if (!all_tensors(args, count, "mark_dirty can only accept variables")) return nullptr;
  return set_field<&FunctionNode::dirty>(o, args, count);
}
PyObject* mark_non_differentiable(PyObject* o, PyObject* const* args, Py_ssize_t count) {
  if (!all_tensors(args, count, "mark_non_differentiable only accepts variable arguments"))
    return nullptr;
  return set_field<&FunctionNode::non_differentiable>(o, args, count);
}
PyObject* mark_shared_storage(PyObject*, PyObject* const*, Py_ssize_t) {
  if (PyErr_WarnEx(PyExc_FutureWarning,
                   "mark_shared_storage is deprecated. Tensors with shared storages are "
                   "automatically tracked. Note that calls to `set_()` are not tracked",
                   1) < 0)
    return nullptr;
  Py_RETURN_NONE;
}
PyObject* set_materialize_grads(PyObject* o, PyObject* value) {
  int on = PyObject_IsTrue(value);
  if (on < 0) return nullptr;
  function_node(o)->keep_undefined = !on;
  Py_RETURN_NONE;
}
PyObject* maybe_clear_saved(PyObject* o, PyObject*) {
  if (current_run_keeps_graph()) Py_RETURN_NONE;
  release_saved(function_node(o));
  function_node(o)->cleared = true;
  Py_RETURN_NONE;
}

PyObject* getattr(PyObject* o, PyObject* name) {
  PyObject* value = PyObject_GenericGetAttr(o, name);
  FunctionNode* n = function_node(o);
  if (!value || !n->in_backward || !grad_enabled()) [[likely]]
    return value;
  return guard([&] { return guarded_attribute(n, name, value); });
}

// --- attributes ----------------------------------------------------------------------------------
PyObject* get_saved(PyObject* o, void*) {
  return guard([&] { return saved_tensors(function_node(o)); });
}
PyObject* get_raw_saved(PyObject* o, void*) {
  return guard([&] { return raw_saved_tensors(function_node(o)); });
}
PyObject* get_saved_variables(PyObject* o, void*) {
  if (PyErr_WarnEx(PyExc_DeprecationWarning, "'saved_variables' is deprecated; use 'saved_tensors'",
                   1) < 0)
    return nullptr;
  return get_saved(o, nullptr);
}

PyObject* get_needs(PyObject* o, void*) {
  FunctionNode* n = function_node(o);
  if (!n->needs) {
    Object t = Object::steal(PyTuple_New(n->input_count));
    if (!t) return nullptr;
    for (uint32_t i = 0; i < n->input_count; ++i)
      PyTuple_SET_ITEM(t.get(), i, PyBool_FromLong(n->inputs()[i] == kGradInput));
    if (n->in_structure) {
      n->needs = PyObject_CallMethod(n->in_structure, "structured", "(O)", t.get());
    } else {
      n->needs = t.release();
    }
  }
  Py_XINCREF(n->needs);
  return n->needs;
}
int set_needs(PyObject* o, PyObject* value, void*) {
  Py_XINCREF(value);
  Py_XSETREF(function_node(o)->needs, value);
  return 0;
}

template <PyObject* FunctionNode::* Field>
PyObject* get_field(PyObject* o, void*) {
  PyObject* v = function_node(o)->*Field;
  if (!v) Py_RETURN_NONE;
  Py_INCREF(v);
  return v;
}
template <PyObject* FunctionNode::* Field>
int put_field(PyObject* o, PyObject* value, void*) {
  if (value && value != Py_None && !PyTuple_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "expected a tuple or None");
    return -1;
  }
  if (value == Py_None) value = nullptr;
  Py_XINCREF(value);
  Py_XSETREF(function_node(o)->*Field, value);
  return 0;
}

PyObject* get_materialize(PyObject* o, void*) {
  return PyBool_FromLong(!function_node(o)->keep_undefined);
}
int put_materialize(PyObject* o, PyObject* value, void*) {
  int on = value ? PyObject_IsTrue(value) : -1;
  if (on < 0) return -1;
  function_node(o)->keep_undefined = !on;
  return 0;
}
PyObject* get_materialize_non_diff(PyObject* o, void*) {
  return PyBool_FromLong(!function_node(o)->keep_undefined_non_diff);
}
int put_materialize_non_diff(PyObject* o, PyObject* value, void*) {
  int on = value ? PyObject_IsTrue(value) : -1;
  if (on < 0) return -1;
  function_node(o)->keep_undefined_non_diff = !on;
  return 0;
}
PyObject* get_requires_grad(PyObject* o, void*) {
  return PyBool_FromLong(function_node(o)->executable);
}
PyObject* name(PyObject* o, PyObject*) { return PyUnicode_FromString(function_node(o)->name); }

PyObject* new_refused(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "the node of a custom function is made by Function.apply");
  return nullptr;
}

PyMethodDef methods[] = {
    {"save_for_backward", reinterpret_cast<PyCFunction>(save_for_backward), METH_FASTCALL,
     "save_for_backward(*tensors): keeps inputs and outputs for backward."},
    {"save_for_forward", reinterpret_cast<PyCFunction>(save_for_forward), METH_FASTCALL,
     "save_for_forward(*tensors): keeps tensors for jvp."},
    {"mark_dirty", reinterpret_cast<PyCFunction>(mark_dirty), METH_FASTCALL,
     "mark_dirty(*tensors): names the inputs that forward changed in place."},
    {"mark_non_differentiable", reinterpret_cast<PyCFunction>(mark_non_differentiable),
     METH_FASTCALL, "mark_non_differentiable(*tensors): names outputs without a gradient."},
    {"mark_shared_storage", reinterpret_cast<PyCFunction>(mark_shared_storage), METH_FASTCALL,
     "Deprecated: does nothing."},
    {"set_materialize_grads", set_materialize_grads, METH_O,
     "set_materialize_grads(value): whether gradients that did not arrive are zeros or None."},
    {"maybe_clear_saved_tensors", maybe_clear_saved, METH_NOARGS,
     "Lets go of the saved tensors now, unless the pass keeps the graph."},
    {"name", name, METH_NOARGS, "The name of the node."},
    {nullptr}};

PyGetSetDef attributes[] = {
    {"saved_tensors", get_saved, nullptr, "What save_for_backward kept.", nullptr},
    {"_raw_saved_tensors", get_raw_saved, nullptr, "The same as SavedTensor objects.", nullptr},
    {"saved_variables", get_saved_variables, nullptr, "Deprecated: saved_tensors.", nullptr},
    {"needs_input_grad", get_needs, set_needs,
     "For each argument of forward, whether it needs a gradient.", nullptr},
    {"to_save", get_field<&FunctionNode::to_save>, put_field<&FunctionNode::to_save>,
     "What forward asked to save, until it returns.", nullptr},
    {"saved_for_forward", get_field<&FunctionNode::for_forward>,
     put_field<&FunctionNode::for_forward>, "What save_for_forward kept.", nullptr},
    {"dirty_tensors", get_field<&FunctionNode::dirty>, put_field<&FunctionNode::dirty>,
     "What forward marked dirty, until it returns.", nullptr},
    {"non_differentiable", get_field<&FunctionNode::non_differentiable>,
     put_field<&FunctionNode::non_differentiable>,
     "What forward marked non-differentiable, until it returns.", nullptr},
    {"materialize_grads", get_materialize, put_materialize,
     "Whether gradients that did not arrive are zeros.", nullptr},
    {"_materialize_non_diff_grads", get_materialize_non_diff, put_materialize_non_diff,
     "The same for outputs marked non-differentiable.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, "What user code keeps here.",
     nullptr},
    {"requires_grad", get_requires_grad, nullptr, "Whether the call is part of a graph.", nullptr},
    {nullptr}};

// _backward_class(name, base, namespace): the class of a custom function's nodes. Its instances are
// freed by the graph, never by the recursion of Python's own classes.
PyObject* backward_class(PyObject*, PyObject* args) {
  PyObject *name, *base, *space;
  if (!PyArg_ParseTuple(args, "UOO!", &name, &base, &PyDict_Type, &space)) return nullptr;
  return guard([&]() -> PyObject* {
    // Nodes point at the text of their class's name, which must outlive a renamed class.
    static PyObject* known = checked(PyDict_New()).release();
    PyObject* kept = PyDict_SetDefault(known, name, name);
    if (!kept) throw PythonError{};
    Object made = checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "O(O)O",
                                                kept, base, space));
    auto* type = reinterpret_cast<PyTypeObject*>(made.get());
    if (!PyType_IsSubtype(type, function_node_type))
      type_error("the base of a backward class must be BackwardCFunction");
    type->tp_dealloc = dealloc;
    type->tp_traverse = traverse;
    type->tp_clear = clear;
    return made.release();
  });
}

// _delayed_error(ctx, outputs, grads): the results of a backward that cannot be differentiated,
// with a history that raises. It leads to whatever a derivative could be asked for.
PyObject* delayed_error(PyObject*, PyObject* args) {
  PyObject *ctx, *outputs, *grads;
  if (!PyArg_ParseTuple(args, "O!O!O!", function_node_type, &ctx, &PyTuple_Type, &outputs,
                        &PyTuple_Type, &grads))
    return nullptr;
  return guard([&]() -> PyObject* {
    FunctionNode* n = function_node(ctx);
    std::vector<Edge> edges(n->edges, n->edges + n->edge_count);
    for (Edge& e : edges) Py_XINCREF(e.node);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(grads); ++i) {
      PyObject* g = PyTuple_GET_ITEM(grads, i);
      Edge e = is_tensor(g) ? gradient_edge(as_tensor(g)) : Edge{};
      if (e.node) edges.push_back(e);
    }
    int count = static_cast<int>(PyTuple_GET_SIZE(outputs));
    Object result = checked(PyTuple_New(count));
    NodeRef error(new_error_node(
        text("trying to differentiate twice a function that was marked with @once_differentiable: ",
             function_name(n), ", applied at ", n->line.describe()),
        std::move(edges)));
    error.get()->set_output_count(count);
    for (int i = 0; i < count; ++i) {
      PyObject* o = PyTuple_GET_ITEM(outputs, i);
      Py_INCREF(o);
      PyTuple_SET_ITEM(result.get(), i, o);
      if (!is_tensor(o) || !is_differentiable(as_tensor(o)->dtype)) continue;
      Tensor t = alias(Tensor::borrow(as_tensor(o)));
      set_meta(error.get(), i, t);
      set_history(t, error.get(), i);
      Py_DECREF(o);
      PyTuple_SET_ITEM(result.get(), i, to_python(t));
    }
    return result.release();
  });
}

PyMethodDef functions[] = {
    {"_delayed_error", delayed_error, METH_VARARGS,
     "Results with a history that raises when it is differentiated."},
    {"_function_apply", reinterpret_cast<PyCFunction>(function_apply),
     METH_FASTCALL | METH_KEYWORDS, "Function.apply: (cls, *args)."},
    {"_set_check_functions", set_check_functions, METH_O,
     "What to call with (cls, args) before each recorded call; None for nothing."},
    {"_backward_class", backward_class, METH_VARARGS, "The class of a custom function's nodes."},
    {nullptr}};

}  // namespace

namespace {
// The module keeps what is returned.
PyObject* from_module(const char* module, const char* name) {
  Object m = checked(PyImport_ImportModule(module));
  return checked(PyObject_GetAttrString(m.get(), name)).get();
}
}  // namespace

PyObject* from_function_module(const char* name) {
  return from_module("adjoint.autograd.function", name);
}
PyObject* from_structures(const char* name) {
  return from_module("adjoint.autograd._structures", name);
}

void add_function_node(PyObject* module) {
  function_backward = run_function_backward;
  free_function_node = free_node;
  PyTypeObject& t = g_type;
  t.tp_name = "adjoint.autograd.function._FunctionNode";
  t.tp_basicsize = sizeof(FunctionNode);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
  t.tp_base = node_type;
  t.tp_dealloc = dealloc;
  t.tp_traverse = traverse;
  t.tp_clear = clear;
  t.tp_new = new_refused;
  t.tp_getattro = getattr;
  t.tp_getset = attributes;
  t.tp_methods = methods;
  t.tp_doc = "One recorded call of a custom function.";
  function_node_type = &t;
  checked(PyType_Ready(&t));
  checked(PyModule_AddObjectRef(module, "_FunctionNode", reinterpret_cast<PyObject*>(&t)));
  add_functions(module, functions);
}

}  // namespace adjoint
