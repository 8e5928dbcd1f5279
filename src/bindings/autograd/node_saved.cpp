// What a node keeps, by PyTorch's names: `_saved_self`, `_saved_other`, `_saved_dim`,
// `_saved_result`, and what it knows about arguments it does not keep: `_saved_self_sym_sizes`. The
// SavedTensor objects behind `_raw_saved_self` are in saved_hooks.cpp.
#include "bindings/autograd/autograd.h"
#include "bindings/autograd/node_saved.h"
#include "dispatch/program_recorder.h"
#include "dispatch/saved.h"
#include "engine/match_edge.h"
#include "graph/second_backward.h"

namespace adjoint {
namespace {

constexpr std::string_view kSizes = "_sym_sizes", kType = "_scalar_type";

std::string torch_name(const std::string& argument) {
  return argument == "input" ? "self" : argument;
}

// What any of the op's rules may read.
Uses uses_of(const Op& op) {
  Uses all = op.joint_uses;
  for (Uses u : op.uses) all = all | u;
  return all;
}

bool may_be_saved(const Node* n, int argument) {
  bool tensor = n->op->schema.arguments[argument].is_tensor();
  bool number = argument < n->saved_count && n->saved[argument].value.is_scalar();
  return !tensor || number || (uses_of(*n->op).inputs >> argument & 1);
}

// The index of an argument by its name here or in PyTorch; -1 when there is none.
int argument_of(const Node* n, std::string_view name) {
  for (int i = 0; i < n->op->argument_count; ++i) {
    const std::string& own = n->op->schema.arguments[i].name;
    if (name == own || name == torch_name(own)) return i;
  }
  return -1;
}

int result_of(const Node* n, std::string_view name) {
  if (name == "result") return 0;
  const auto& fields = n->op->result_fields;
  for (size_t k = 0; k < fields.size(); ++k) {
    if (name == fields[k] || name == "result" + std::to_string(k)) return static_cast<int>(k);
  }
  return -1;
}

// The edge of a tensor argument, if a gradient goes there: it knows the shape and the dtype.
const Edge* edge_of(const Node* n, int argument) {
  int e = argument < 0 ? -1 : n->op->edge_of[argument];
  return e >= 0 && e < n->edge_count && n->edges[e].node ? &n->edges[e] : nullptr;
}

PyObject* argument_value(Node* n, int i) {
  bool stored = i < n->saved_count;
  if (stored && n->saved[i].value.is_none()) {
    bool gone = n->released && n->saved[i].version != kNotSaved;
    if (gone && n->op->schema.arguments[i].is_tensor()) fail_freed(n);
    Py_RETURN_NONE;  // no derivative reads it, or it was None
  }
  Tensor none[1];
  return to_python(Context(n, none).in(i));
}

PyObject* result_value(Node* n, int k) {
  if (n->released) fail_freed(n);
  if (n->output.value.is_none()) Py_RETURN_NONE;
  Tensor none[1];
  return to_python(Context(n, none).out(k));
}

}  // namespace

PyObject* saved_attribute(Node* n, std::string_view name) {
  if (captured()) t_recorder->pass(n, true);  // values of an older graph
  UnpackScope scope;
  int i = argument_of(n, name), k = result_of(n, name);
  if (i >= 0 && may_be_saved(n, i)) return argument_value(n, i);
  if (k >= 0 && uses_of(*n->op).outputs) return result_value(n, k);
  auto stem = [&](std::string_view end) { return name.substr(0, name.size() - end.size()); };
  if (name.ends_with(kSizes)) {
    if (const Edge* e = edge_of(n, argument_of(n, stem(kSizes))))
      return new_size(expected_at(*e).shape);
  }
  if (name.ends_with(kType)) {
    if (const Edge* e = edge_of(n, argument_of(n, stem(kType))))
      return Object::borrow(dtype_object(expected_at(*e).dtype)).release();
  }
  PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '_saved_%s'", n->name,
               std::string(name).c_str());
  return nullptr;
}

std::vector<std::string> saved_names(const Node* n) {
  std::vector<std::string> names;
  for (int i = 0; n->op && i < n->op->argument_count; ++i) {
    bool unsaved = i < n->saved_count && n->saved[i].version == kNotSaved;
    if (!unsaved) names.push_back("_saved_" + torch_name(n->op->schema.arguments[i].name));
  }
  if (n->op && !n->output.value.is_none()) {
    if (n->op->result_fields.empty()) names.push_back("_saved_result");
    for (const std::string& field : n->op->result_fields) names.push_back("_saved_" + field);
  }
  return names;
}

}  // namespace adjoint
