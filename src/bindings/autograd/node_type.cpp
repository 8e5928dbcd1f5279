// Graph nodes as Python sees them: `grad_fn`, `next_functions`, saved values, hooks.
#include "bindings/signatures.h"
#include "bindings/autograd/autograd.h"
#include "bindings/autograd/node_saved.h"
#include "bindings/autograd/saved_hooks.h"
#include "bindings/program/program.h"
#include "dispatch/program_recorder.h"
#include "dispatch/saved.h"
#include "engine/match_edge.h"

#include <map>

namespace adjoint {
namespace {

PyTypeObject g_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

Node* node_of(PyObject* o) { return reinterpret_cast<Node*>(o); }

int traverse(PyObject* o, visitproc visit, void* arg) {
  return traverse_node(node_of(o), visit, arg);
}
int clear(PyObject* o) {
  clear_node(node_of(o));
  return 0;
}
void dealloc(PyObject* o) { destroy_node(node_of(o)); }

PyObject* name(PyObject* o, PyObject*) {
  Node* n = node_of(o);
  return PyUnicode_FromFormat(n->variable || !n->backward ? "torch::autograd::%s" : "%s", n->name);
}
PyObject* repr(PyObject* o) {
  return PyUnicode_FromFormat("<%s object at %p>", node_of(o)->name, o);
}

PyObject* next_functions(PyObject* o, void*) {
  Node* n = node_of(o);
  PyObject* t = PyTuple_New(n->edge_count);
  for (int i = 0; t && i < n->edge_count; ++i) {
    PyTuple_SET_ITEM(
        t, i,
        Py_BuildValue("(Ni)", to_python(n->edges[i].node), static_cast<int>(n->edges[i].slot)));
  }
  return t;
}
PyObject* variable(PyObject* o, void*) {
  if (!node_of(o)->variable) {
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'", node_of(o)->name);
    return nullptr;
  }
  return to_python(Tensor::borrow(node_of(o)->variable));
}
PyObject* sequence_nr(PyObject* o, PyObject*) {
  return PyLong_FromUnsignedLongLong(node_of(o)->sequence);
}
PyObject* source(PyObject* o, void*) {
  const SourceLine& line = node_of(o)->line;
  if (!line) Py_RETURN_NONE;
  return Py_BuildValue("(si)", line.file().c_str(), line.line());
}
// The dict for notes, borrowed.
PyObject* notes_of(Node* n) {
  if (!n->dict && !(n->dict = PyDict_New())) return nullptr;
  PyObject* key = PyUnicode_InternFromString("metadata");
  PyObject* d = PyDict_GetItem(n->dict, key);
  if (!d) {
    d = PyDict_New();
    if (d) {
      PyDict_SetItem(n->dict, key, d);
      Py_DECREF(d);
    }
  }
  Py_DECREF(key);
  return d;
}
PyObject* metadata(PyObject* o, void*) {
  add_back_link(node_of(o));  // who has the dict may put anything into it
  return Py_XNewRef(notes_of(node_of(o)));
}

// _note(node, key[, value]): reads or writes a note of the library's own, which leads nowhere.
PyObject* note(PyObject*, PyObject* args) {
  PyObject *o, *key, *value = nullptr;
  if (!PyArg_ParseTuple(args, "OO|O:_note", &o, &key, &value)) return nullptr;
  if (!is_node(o)) {
    PyErr_Format(PyExc_TypeError, "expected a graph node, got %s", Py_TYPE(o)->tp_name);
    return nullptr;
  }
  if (!value && !node_of(o)->dict) Py_RETURN_NONE;
  PyObject* notes = notes_of(node_of(o));
  if (!notes || (value && PyDict_SetItem(notes, key, value) < 0)) return nullptr;
  PyObject* found = PyDict_GetItemWithError(notes, key);
  if (!found && PyErr_Occurred()) return nullptr;
  return Py_NewRef(found ? found : Py_None);
}

PyObject* getattr(PyObject* o, PyObject* name) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &length);
  Node* n = node_of(o);
  if (text && text[0] == '_' && n->op) {
    if (std::strncmp(text, "_raw_saved_", 11) == 0)
      return guard([&] { return raw_saved_attribute(n, text + 11); });
    if (std::strncmp(text, "_saved_", 7) == 0)
      return guard([&] { return saved_attribute(n, text + 7); });
  }
  return PyObject_GenericGetAttr(o, name);
}

PyObject* dir(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    auto* base = reinterpret_cast<PyObject*>(&PyBaseObject_Type);
    Object plain = checked(PyObject_CallMethod(base, "__dir__", "O", o));
    Object names = checked(PySequence_List(plain.get()));
    for (const std::string& name : saved_names(node_of(o))) {
      for (const char* prefix : {"", "_raw"}) {
        Object text = checked(PyUnicode_FromString((prefix + name).c_str()));
        checked(PyList_Append(names.get(), text.get()));
      }
    }
    return names.release();
  });
}

// --- hooks: kept by hooks.cpp, made by python/adjoint/utils/hooks.py -----------------------------
PyObject* add_hook(PyObject* node, PyObject* hook, const char* adder) {
  Object good = Object::steal(guard([&]() -> PyObject* {
    refuse_state_of_loop(node_of(node), "a hook");
    Py_RETURN_NONE;
  }));
  if (!good) return nullptr;
  Object module = Object::steal(PyImport_ImportModule("adjoint.autograd._register_hooks"));
  if (!module) return nullptr;
  return PyObject_CallMethod(module.get(), adder, "OO", node, hook);
}
PyObject* register_hook(PyObject* o, PyObject* hook) { return add_hook(o, hook, "add_to_node"); }
PyObject* register_prehook(PyObject* o, PyObject* hook) {
  return add_hook(o, hook, "add_before_node");
}

// A tuple with the shape, dtype and device that the gradient of each output must have.
PyObject* input_metadata(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    Node* n = node_of(o);
    Object list = checked(PyTuple_New(n->output_count));
    Object module = checked(PyImport_ImportModule("adjoint.autograd._input_metadata"));
    for (uint32_t k = 0; k < static_cast<uint32_t>(n->output_count); ++k) {
      Expected m = expected_at({n, k});
      Object shape = checked(new_size(m.shape));
      PyTuple_SET_ITEM(list.get(), k,
                       checked(PyObject_CallMethod(module.get(), "InputMetadata", "OO", shape.get(),
                                                   dtype_object(m.dtype)))
                           .release());
    }
    return list.release();
  });
}
PyObject* requires_grad(PyObject*, void*) { Py_RETURN_TRUE; }

PyGetSetDef attributes[] = {
    {"_input_metadata", input_metadata, nullptr,
     "Shape, dtype and device of the gradients that arrive here.", nullptr},
    {"requires_grad", requires_grad, nullptr, "True: what needs no gradient has no node.", nullptr},
    {"next_functions", next_functions, nullptr, "Where gradients go next: pairs (node, slot).",
     nullptr},
    {"variable", variable, nullptr, "The leaf an AccumulateGrad node adds into.", nullptr},
    {"metadata", metadata, nullptr, "A dict for the user's notes.", nullptr},
    {"source", source, nullptr, "(file, line) of the user's program that made this node.", nullptr},
    {nullptr}};
PyMethodDef methods[] = {
    {"__dir__", dir, METH_NOARGS, "The attributes, those of saved values included."},
    {"name", name, METH_NOARGS, "The name of the node."},
    {"_sequence_nr", sequence_nr, METH_NOARGS, "When the node was made, relative to others."},
    {"register_hook", register_hook, METH_O,
     "Calls hook(grad_inputs, grad_outputs) after this node ran."},
    {"register_prehook", register_prehook, METH_O,
     "Calls hook(grad_outputs) before this node runs."},
    {nullptr}};

}  // namespace

// A node's class carries its name, as in PyTorch: `type(y.grad_fn).__name__ == "MulBackward0"`. The
// class is made, and the node given it, when Python first sees the node; the core never looks.
PyTypeObject* node_class(const char* name) {
  static std::map<std::string, PyTypeObject*> types;
  PyTypeObject*& type = types[name];
  if (type) return type;
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(clear)},
                         {0, nullptr}};
  // The spec's name must outlive the type.
  auto* full = new std::string(std::string("adjoint.autograd.graph.") + name);
  PyType_Spec spec = {full->c_str(), 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  Object bases = checked(PyTuple_Pack(1, node_type));
  type = reinterpret_cast<PyTypeObject*>(
      checked(PyType_FromSpecWithBases(&spec, bases.get())).release());
  return type;
}

PyObject* to_python(Node* n) {
  if (!n) Py_RETURN_NONE;
  if (Py_TYPE(n) == node_type) {
    PyTypeObject* type = node_class(n->name);
    Py_INCREF(type);
    Py_SET_TYPE(n, type);
  }
  Py_INCREF(n);
  return reinterpret_cast<PyObject*>(n);
}

namespace {

// Runs the derivative of a node by hand: grad_fn(*grad_outputs).
PyObject* call(PyObject* o, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    Node* n = node_of(o);
    if (keywords && PyDict_GET_SIZE(keywords)) type_error(n->name, "() takes no keyword arguments");
    if (PyTuple_GET_SIZE(args) != n->output_count) {
      type_error(n->name, ": expected ", n->output_count, " arguments, got ",
                 PyTuple_GET_SIZE(args), " instead (one gradient per output)");
    }
    Tensors grads(n->output_count), results(n->edge_count);
    bool any = false;
    for (uint32_t k = 0; k < static_cast<uint32_t>(n->output_count); ++k) {
      PyObject* g = PyTuple_GET_ITEM(args, k);
      if (g == Py_None) continue;
      if (!is_tensor(g)) type_error("gradients are Tensors or None, got ", Py_TYPE(g)->tp_name);
      grads[k] = match_edge(Tensor::borrow(as_tensor(g)), {n, k}, nullptr);
      any = true;
    }
    if (any && n->backward) {
      if (captured()) t_recorder->pass(n, true);
      n->backward(n, grads.data(), results.data());
    } else if (any && n->variable) {
      accumulate_grad(n->variable, grads[0]);
    }
    for (int i = 0; i < n->edge_count; ++i) {
      if (results[i] && n->edges[i].node) results[i] = match_edge(results[i], n->edges[i], n);
    }
    if (n->edge_count == 1) return to_python(results[0]);
    return tuple_of(results.data(), n->edge_count).release();
  });
}

PyObject* class_of_name(PyObject*, PyObject* name) {
  return guard([&]() -> PyObject* {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) throw PythonError{};
    auto* type = reinterpret_cast<PyObject*>(node_class(text));
    Py_INCREF(type);
    return type;
  });
}
PyMethodDef functions[] = {{"_note", note, METH_VARARGS, "Reads or writes a note of the library."},
                           {"_node_class", class_of_name, METH_O, "The class of nodes of a name."},
                           {nullptr}};

}  // namespace

void add_node_type(PyObject* module) {
  PyTypeObject& t = g_type;
  t.tp_name = "adjoint.autograd.graph.Node";
  t.tp_basicsize = sizeof(Node);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
  t.tp_dealloc = dealloc;
  t.tp_traverse = traverse;
  t.tp_clear = clear;
  t.tp_weaklistoffset = offsetof(Node, weakrefs);
  t.tp_dictoffset = offsetof(Node, dict);
  t.tp_getattro = getattr;
  t.tp_setattro = set_node_attribute;
  t.tp_getset = attributes;
  add_signatures(methods, true);
  t.tp_methods = methods;
  t.tp_repr = repr;
  t.tp_call = call;
  t.tp_doc = "One recorded application of an op.";
  node_type = &t;
  checked(PyType_Ready(&t));
  checked(PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(&t)));
  add_functions(module, functions);
}

}  // namespace adjoint
