// The class of the classes Tensor and Size.
#pragma once
#include "bindings/python.h"

namespace adjoint {

// Makes a type one of the classes that are shown as PyTorch's where adjoint answers to its name.
// To be called before PyType_Ready.
void show_as_torchs(PyTypeObject& type);
void add_tensor_class(PyObject* module);

}  // namespace adjoint
