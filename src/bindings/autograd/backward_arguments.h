// From Python's arguments of a backward pass to the engine's: backward.cpp.
#pragma once
#include "bindings/autograd/autograd.h"

namespace adjoint {

// `outputs` is a tuple of tensors or of (node, slot); `grads` one of tensors or None, for one element.
void take_outputs(PyObject* outputs, PyObject* grads, Edges& from, std::vector<Root>& roots);
// `inputs` is such a tuple, too; where gradients are accumulated, non-leaves are to keep theirs.
void take_inputs(PyObject* inputs, bool accumulate, Edges& to);

}  // namespace adjoint
