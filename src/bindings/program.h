// What the two binding files of programs share: program.cpp has the types, program_node.cpp the
// node of a replayed call.
#pragma once
#include "../program/program.h"
#include "python.h"

namespace adjoint {

// The program in a `_Program`; a TypeError for anything else.
const Program& program_in(PyObject* o);
// A list or tuple of tensors; None is no tensor where `optional`.
Tensors tensors_of(PyObject* o, const char* what, bool optional = false);
PyObject* list_of(const Tensors& ts);

PyObject* replay(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace adjoint
