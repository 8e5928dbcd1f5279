// What a weak reference leads to, in the spelling of each CPython.
#pragma once
#include <Python.h>

namespace adjoint {

// The object, borrowed, or null if it is gone. While the GIL is held nothing else can let go of it,
// so that whoever keeps it longer than that takes a reference.
inline PyObject* referent(PyObject* weak) {
#if PY_VERSION_HEX < 0x030D0000
  PyObject* object = PyWeakref_GetObject(weak);
  return object == Py_None ? nullptr : object;
#else
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(weak, &object) > 0) Py_DECREF(object);  // somebody else holds it
  return object;
#endif
}

}  // namespace adjoint
