// Signatures of native functions and methods. Read signatures.cpp.
#pragma once
#include <Python.h>

namespace adjoint {

// Gives the functions of a table signatures, before it is added to a module or a type.
void add_signatures(PyMethodDef* table, bool methods);

}  // namespace adjoint
