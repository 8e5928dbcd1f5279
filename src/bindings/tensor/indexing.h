// x[...], x[...] = v, iteration and membership: the Tensor type's slots.
#pragma once
#include <Python.h>

namespace adjoint {

PyObject* get_item(PyObject* self, PyObject* key);
int set_item(PyObject* self, PyObject* key, PyObject* value);
PyObject* iterate(PyObject* self);
int contains(PyObject* self, PyObject* element);

}  // namespace adjoint
