// Whether a call has an argument whose class wants to be asked first. Read subclass.cpp.
#pragma once
#include "bindings/python.h"

namespace adjoint {

extern bool g_subclasses;  // an instance of such a class was made in this process
bool is_overriding(PyObject* o);
bool any_function_mode();
inline bool any_overriding(PyObject* const* args, Py_ssize_t n) {
  if (!g_subclasses) [[likely]]
    return false;
  if (n == 0) return any_function_mode();
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (is_overriding(args[i])) return true;
  }
  return false;
}
// Whether instances of a subclass need the garbage collector: to them the class is a Python object
// like any other. Read attributes.cpp.
bool has_back_link(const PyTypeObject* type);
// function(*args, **keywords) by way of __torch_function__.
PyObject* call_overriding(PyObject* function, PyObject* const* args, Py_ssize_t positional,
                          PyObject* keywords);
// The same where the call has failed and one of its arguments is an object of another kind that defines
// __torch_function__; null with the error that is set if none is.
PyObject* call_tensor_like(PyObject* function, PyObject* const* args, Py_ssize_t positional,
                           PyObject* keywords);
// The same for what is not an op: Tensor's method `name`, or its attribute.
PyObject* call_overriding_method(const char* name, PyObject* self, PyObject* const* args,
                                 Py_ssize_t positional, PyObject* keywords);
PyObject* get_overriding(const char* name, PyObject* self);

}  // namespace adjoint
