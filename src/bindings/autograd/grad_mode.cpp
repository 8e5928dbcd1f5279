// Whether operations are recorded in this thread, as Python asks and sets it. Read tensor/modes.h
// first; inference mode is in inference.cpp.
#include "bindings/autograd/autograd.h"

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

PyMethodDef functions[] = {
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "Whether operations are recorded in this thread."},
    {"_set_grad_enabled", set_grad_enabled_, METH_O, "Turns recording on or off in this thread."},
    {nullptr}};

}  // namespace

void add_grad_mode(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
