// Inference mode: a flag of the thread and of the tensors made under it. The rules are where they
// apply: dispatch/view.cpp (changes in place), dispatch/saved.cpp (saving), dispatch/apply.cpp
// (results); people use python/adjoint/autograd/grad_mode.py.
#include "bindings/python.h"
#include "dispatch/program_recorder.h"

namespace adjoint {
namespace {

PyObject* enabled(PyObject*, PyObject*) { return PyBool_FromLong(mode_on(kInferenceOn)); }

// Returns what was set before.
PyObject* set_enabled(PyObject*, PyObject* on) {
  int v = PyObject_IsTrue(on);
  if (v < 0) return nullptr;
  if (v) refuse_recording("inference_mode() is turned on; fix: do that outside, or use no_grad()");
  bool before = mode_on(kInferenceOn);
  set_mode(kInferenceOn, v);
  return PyBool_FromLong(before);
}

PyObject* is_inference_method(PyObject* o, PyObject*) {
  look_at(as_tensor(o));
  return PyBool_FromLong(as_tensor(o)->flags & kInference);
}
PyObject* is_inference(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"input", nullptr};
  PyObject* o = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:is_inference", const_cast<char**>(names), &o))
    return nullptr;
  if (!is_tensor(o)) {
    PyErr_Format(PyExc_TypeError, "is_inference(): argument 'input' must be Tensor, not %s",
                 Py_TYPE(o)->tp_name);
    return nullptr;
  }
  return is_inference_method(o, nullptr);
}

PyMethodDef functions[] = {
    {"is_inference_mode_enabled", enabled, METH_NOARGS,
     "Whether inference_mode is on in this thread."},
    {"_set_inference_mode", set_enabled, METH_O,
     "Turns inference mode on or off in this thread; returns what was set before."},
    {"is_inference", reinterpret_cast<PyCFunction>(is_inference), METH_VARARGS | METH_KEYWORDS,
     "is_inference(input): whether a tensor was made in inference mode."},
    {nullptr}};
PyMethodDef methods[] = {{"is_inference", is_inference_method, METH_NOARGS,
                          "Whether the tensor was made in inference mode."},
                         {nullptr}};

}  // namespace

void add_inference(PyObject* module) {
  add_functions(module, functions);
  extend_tensor_type(methods, nullptr);
}

}  // namespace adjoint
