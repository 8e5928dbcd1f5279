// Histories of tensors, where they end: the cuts that explanations tell of, changes made behind
// autograd's back, leaves that become other ones.
#include "bindings/autograd/autograd.h"
#include "dispatch/view.h"
#include "graph/accumulator.h"

namespace adjoint {
namespace {

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
    {nullptr}};

}  // namespace

void add_cuts(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
