// From what forward returned to outputs with a history. Read function_apply.cpp, which calls this.
#pragma once
#include <vector>

#include "bindings/function/function_node.h"

namespace adjoint {

struct Arguments {
  PyObject* const* items;
  Py_ssize_t count;
};

// Whether an object is among the items of a tuple, which may be null, or among the arguments.
bool is_among(PyObject* tuple, PyObject* o);
bool is_among(Arguments a, PyObject* o);

// The outputs, one by one: the items of a tuple, the leaves of anything nested.
std::vector<Object> output_items(FunctionNode* n, PyObject* raw);
// The result, in the form in which forward returned it.
Object as_result(FunctionNode* n, PyObject* raw, std::vector<Object>& items);

class Outputs {
 public:
  Outputs(FunctionNode* n, Arguments in, bool recording, bool split)
      : n_(n), in_(in), recording_(recording), split_(split) {}

  // Gives every output its history; `items` are replaced where the user gets another object.
  void finish(std::vector<Object>& items);

 private:
  void set(Object& item, int slot);
  void set_without_history(Object& item, bool is_input, bool changed);
  void set_changed(const Tensor& t, int slot, bool is_input);
  void mark_views(std::vector<Object>& items);

  FunctionNode* n_;
  Arguments in_;
  bool recording_, split_;
  int with_history_ = 0;
};

}  // namespace adjoint
