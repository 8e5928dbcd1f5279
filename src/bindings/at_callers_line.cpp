// Errors that end in the caller's line: what a name's absence has to tell is told where the name was
// written, not in the function of adjoint's that looked for it (python/adjoint/_missing.py).
//
// `_at_callers_line(f)` is f, except that an error which carries `_at_callers_line` leaves without the frames of f. A native
// function has no frame of its own.
#include "bindings/python.h"

namespace adjoint {
namespace {

struct Wrapped {
  PyObject_HEAD PyObject* function;
};

PyTypeObject wrapped_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject absent_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

void drop_frames() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  int marked = value ? PyObject_HasAttrString(value, "_at_callers_line") : 0;
  if (marked) {
    PyException_SetTraceback(value, Py_None);
    Py_CLEAR(trace);
  }
  PyErr_Restore(type, value, trace);
}

PyObject* call(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* result = PyObject_Call(reinterpret_cast<Wrapped*>(self)->function, args, keywords);
  if (!result) drop_frames();
  return result;
}

PyObject* attribute(PyObject* self, PyObject* name) {
  return PyObject_GetAttr(reinterpret_cast<Wrapped*>(self)->function, name);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<Wrapped*>(self)->function);
  return 0;
}
int clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Wrapped*>(self)->function);
  return 0;
}
void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyObject_GC_Del(self);
}

// Reading an attribute that is an Absent calls its function, which raises: of objects and of the class.
PyObject* read_absent(PyObject* self, PyObject*, PyObject*) {
  PyObject* result = PyObject_CallNoArgs(reinterpret_cast<Wrapped*>(self)->function);
  if (!result) drop_frames();
  return result;
}

PyObject* make(PyTypeObject* type, PyObject* function) {
  auto* made = PyObject_GC_New(Wrapped, type);
  if (!made) return nullptr;
  made->function = Py_NewRef(function);
  PyObject_GC_Track(made);
  return reinterpret_cast<PyObject*>(made);
}

PyObject* wrap(PyObject*, PyObject* function) { return make(&wrapped_type, function); }
PyObject* absent(PyObject*, PyObject* function) { return make(&absent_type, function); }

void ready(PyTypeObject& t, const char* name) {
  t.tp_name = name;
  t.tp_basicsize = sizeof(Wrapped);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  t.tp_traverse = traverse;
  t.tp_clear = clear;
  t.tp_dealloc = destroy;
}

PyMethodDef functions[] = {
    {"_at_callers_line", wrap, METH_O,
     "_at_callers_line(function): the function; errors so marked end in the line of its caller."},
    {"_absent_attribute", absent, METH_O,
     "_absent_attribute(function): an attribute of a class that is not there: the function "
     "raises."},
    {nullptr}};

}  // namespace

void add_at_callers_line(PyObject* module) {
  ready(wrapped_type, "adjoint._core.AtCallersLine");
  wrapped_type.tp_call = call;
  wrapped_type.tp_getattro = attribute;
  checked(PyType_Ready(&wrapped_type));
  ready(absent_type, "adjoint._core.Absent");
  absent_type.tp_descr_get = read_absent;
  checked(PyType_Ready(&absent_type));
  add_functions(module, functions);
}

}  // namespace adjoint
