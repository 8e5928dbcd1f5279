// The values a node keeps, by name.
#pragma once
#include <string>
#include <string_view>

#include "bindings/python.h"

namespace adjoint {

// The value of `_saved_<name>` of a node made by an op; an AttributeError where there is none.
PyObject* saved_attribute(Node* n, std::string_view name);
// The names that have something to show.
std::vector<std::string> saved_names(const Node* n);

}  // namespace adjoint
