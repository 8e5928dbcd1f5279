// Attributes that people give to tensors and nodes, and the classes of tensors: links to Python
// objects, of which the garbage collector has to know (Note [Objects aside] in
// python/gc_list.h). Numbers and strings lead nowhere, so a name on a parameter costs nothing.
#include "bindings/python.h"
#include "bindings/tensor/subclass.h"

#include "python/gc_list.h"

namespace adjoint {
namespace {

// Whether an attribute of that name is in the dict, rather than what a descriptor takes care of.
bool is_in_dict(PyObject* dict, PyObject* name, PyObject* value) {
  return dict && PyDict_GetItemWithError(dict, name) == value;
}

template <class T>
int set_attribute(PyObject* o, PyObject* name, PyObject* value) {
  if (PyObject_GenericSetAttr(o, name, value) < 0) return -1;
  auto* self = reinterpret_cast<T*>(o);
  if (value && PyObject_IS_GC(value) && is_in_dict(self->dict, name, value)) add_back_link(self);
  return 0;
}

// Who asks for the dict may put anything into it.
PyObject* get_dict(PyObject* o, void*) {
  add_back_link(as_tensor(o));
  return PyObject_GenericGetDict(o, nullptr);
}
int set_dict(PyObject* o, PyObject* value, void*) {
  add_back_link(as_tensor(o));
  return PyObject_GenericSetDict(o, value, nullptr);
}

PyGetSetDef attributes[] = {
    {"__dict__", get_dict, set_dict, "The attributes a user has set.", nullptr}, {nullptr}};

PyTypeObject* g_parameter = nullptr;

PyObject* set_parameter_class(PyObject*, PyObject* type) {
  Py_INCREF(type);
  Py_XSETREF(g_parameter, reinterpret_cast<PyTypeObject*>(type));
  Py_RETURN_NONE;
}

// --- the collector -------------------------------------------------------------------------------
PyObject* see_everything(PyObject*, PyObject*) {
  gc::see_everything();
  Py_RETURN_NONE;
}
PyObject* knows_collector(PyObject*, PyObject*) { return PyBool_FromLong(gc::ring != nullptr); }
PyObject* back_links(PyObject*, PyObject*) { return PyLong_FromLongLong(gc::back_links()); }

// One of gc.callbacks: before a full collection.
PyObject* before_collection(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n == 2 && PyUnicode_CompareWithASCIIString(args[0], "start") == 0 && PyDict_Check(args[1])) {
    PyObject* generation = PyDict_GetItemString(args[1], "generation");
    if (generation && PyLong_AsLong(generation) == 2) gc::see_everything();
  }
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_set_parameter_class", set_parameter_class, METH_O,
     "Names the one subclass whose instances the garbage collector need not know of."},
    {"_see_everything", see_everything, METH_NOARGS,
     "Shows all tensors and nodes to gc.get_objects(), also those that can be in no cycle."},
    {"_knows_collector", knows_collector, METH_NOARGS,
     "Whether the lists of this Python's collector are known, so that anything can be kept from "
     "it."},
    {"_back_links", back_links, METH_NOARGS,
     "How many tensors and nodes have links that can close a cycle; with none, new ones are kept "
     "from the collector."},
    {nullptr}};
PyMethodDef callback = {"_before_collection", reinterpret_cast<PyCFunction>(before_collection),
                        METH_FASTCALL, "Shows all tensors and nodes to a full collection."};

}  // namespace

int set_tensor_attribute(PyObject* o, PyObject* name, PyObject* value) {
  if (set_attribute<TensorObject>(o, name, value) < 0) return -1;
  if (Py_TYPE(o) != tensor_type && has_back_link(Py_TYPE(o))) add_back_link(as_tensor(o));
  return 0;
}
int set_node_attribute(PyObject* o, PyObject* name, PyObject* value) {
  return set_attribute<Node>(o, name, value);
}

bool has_back_link(const PyTypeObject* type) { return type != tensor_type && type != g_parameter; }

void add_attributes(PyObject* module) {
  add_functions(module, functions);
  extend_tensor_type(nullptr, attributes);
  if (!gc::ring) return;  // nothing is ever aside
  Object gc_module = checked(PyImport_ImportModule("gc"));
  Object callbacks = checked(PyObject_GetAttrString(gc_module.get(), "callbacks"));
  Object ours = checked(PyCFunction_New(&callback, nullptr));
  checked(PyList_Append(callbacks.get(), ours.get()));
}

}  // namespace adjoint
