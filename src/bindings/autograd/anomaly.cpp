// Anomaly detection and strong zeros, as Python switches them.
// Read next: dispatch/anomaly.h, python/adjoint/autograd/anomaly_mode.py.
#include "dispatch/anomaly.h"

#include "bindings/python.h"
#include "dispatch/program_recorder.h"

namespace adjoint {
namespace {

// A function of adjoint.autograd.anomaly_mode, imported when it is first needed.
Object python_function(const char* name) {
  Object module = checked(PyImport_ImportModule("adjoint.autograd.anomaly_mode"));
  return checked(PyObject_GetAttrString(module.get(), name));
}

void created(Node* node, Node* parent) {
  Object n = checked(to_python(node)), p = checked(to_python(parent));
  checked(
      PyObject_CallFunctionObjArgs(python_function("_created").get(), n.get(), p.get(), nullptr));
}

// Called with an error under way, perhaps one of Python's: it must be there afterwards.
void failed(Node* node) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Object done = Object::steal(guard([&] {
    Object n = checked(to_python(node));
    return PyObject_CallOneArg(python_function("_failed").get(), n.get());
  }));
  if (!done) PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

PyObject* set_anomaly(PyObject*, PyObject* args) {
  int on, nan, inf, forward;
  if (!PyArg_ParseTuple(args, "pppp", &on, &nan, &inf, &forward)) return nullptr;
  if (on) refuse_recording("detect_anomaly() looks at values; fix: turn it on outside");
  t_anomaly = {nan != 0, inf != 0, forward != 0};
  set_mode(kAnomaly, on);
  Py_RETURN_NONE;
}

PyObject* get_anomaly(PyObject*, PyObject*) {
  auto flag = [](bool b) { return b ? Py_True : Py_False; };
  return PyTuple_Pack(4, flag(mode_on(kAnomaly)), flag(t_anomaly.nan), flag(t_anomaly.inf),
                      flag(t_anomaly.forward));
}

PyObject* set_strong_zeros(PyObject*, PyObject* on) {
  int v = PyObject_IsTrue(on);
  if (v < 0) return nullptr;
  if (v) refuse_recording("strong_zeros() looks at values; fix: turn it on outside");
  set_mode(kStrongZeros, v);
  Py_RETURN_NONE;
}

PyObject* get_strong_zeros(PyObject*, PyObject*) { return PyBool_FromLong(mode_on(kStrongZeros)); }

PyMethodDef functions[] = {
    {"_set_anomaly", set_anomaly, METH_VARARGS, "(on, nan, inf, forward) for this thread."},
    {"_anomaly", get_anomaly, METH_NOARGS, "(on, nan, inf, forward) of this thread."},
    {"_set_strong_zeros", set_strong_zeros, METH_O, "Turns strong zeros on or off."},
    {"_strong_zeros", get_strong_zeros, METH_NOARGS, "Whether strong zeros are on."},
    {nullptr}};

}  // namespace

void add_anomaly(PyObject* module) {
  anomaly_hooks = {created, failed};
  add_functions(module, functions);
}

}  // namespace adjoint
