// Saved values of nodes as Python objects. Read dispatch/saved.h first.
#pragma once
#include <string>

#include "bindings/python.h"

namespace adjoint {

// A SavedTensor for argument `index` of a node, or for its output (-1); `item` where that is a
// list.
PyObject* raw_saved(Node* n, int index, int item = -1);
// `_raw_saved_<want>` of a node that an op made.
PyObject* raw_saved_attribute(Node* n, const std::string& want);
void add_saved_hooks(PyObject* module);

}  // namespace adjoint
