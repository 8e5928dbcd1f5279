// Grad mode, and where histories were cut off. Running passes is in backward.cpp, hooks are in
// hooks.cpp.
#include "bindings/autograd/autograd.h"

#include "dispatch/view.h"
#include "graph/accumulator.h"

namespace adjoint {
namespace {

// Under inference_mode nothing records, whatever enable_grad says: recording stays off there, and
// what was asked for is kept to be told. grad_mode.py sets the grad mode after the inference mode.
thread_local bool t_asked_in_inference = false;

PyObject* is_grad_enabled(PyObject*, PyObject*) {
  return PyBool_FromLong(mode_on(kInferenceOn) ? t_asked_in_inference : grad_enabled());
}
PyObject* set_grad_enabled_(PyObject*, PyObject* on) {
  int v = PyObject_IsTrue(on);
  if (v < 0) return nullptr;
  t_asked_in_inference = v;
  set_grad_enabled(v && !mode_on(kInferenceOn));
  Py_RETURN_NONE;
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

PyObject* increment_version(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("increment_version expects a Tensor, got ", Py_TYPE(o)->tp_name);
    if (!(as_tensor(o)->flags & kInference)) bump_version(Tensor::borrow(as_tensor(o)));
    Py_RETURN_NONE;
  });
}

PyObject* renew_accumulator_(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("expected a Tensor, got ", Py_TYPE(o)->tp_name);
    renew_accumulator(as_tensor(o));
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {
    {"_renew_accumulator", renew_accumulator_, METH_O,
     "Makes a leaf another one to graphs to come, as set_() does."},
    {"_increment_version", increment_version, METH_O,
     "Counts a change of a tensor's memory that was made behind autograd's back."},
    {"_cuts", cuts_of, METH_O, "Where operands of a node, or a tensor, lost their history."},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "Whether operations are recorded in this thread."},
    {"_set_grad_enabled", set_grad_enabled_, METH_O, "Turns recording on or off in this thread."},
    {nullptr}};

}  // namespace

void add_autograd(PyObject* module) {
  add_functions(module, functions);
  add_backward(module);
  add_hooks(module);
  prepare_fresh_threads();
}

}  // namespace adjoint
