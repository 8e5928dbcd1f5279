// What CPython does not show of a frame: the function that it runs. Read bindings/program/walk.cpp, which uses it.
#pragma once
#include <Python.h>

#include <cstdint>

namespace adjoint::frames {

// Where `f_funcobj` stands in CPython's pycore_frame.h, which extensions cannot include: the first
// word in 3.11, the third from 3.12 on, where from 3.14 on the lowest bits are flags.
// python/adjoint/compiler/_walk.py verifies it on a function that it knows.
inline PyObject* function(PyFrameObject* frame) {
  struct Outer {
    PyObject_HEAD PyObject* back;
    const uintptr_t* inner;
  };
  constexpr int place = PY_VERSION_HEX < 0x030C0000 ? 0 : 2;
  uintptr_t word = reinterpret_cast<Outer*>(frame)->inner[place];
  return reinterpret_cast<PyObject*>(word & ~uintptr_t{7});
}

}  // namespace adjoint::frames
