// From a call to a node: which values are kept, where gradients will go.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

class NodeRef {
 public:
  explicit NodeRef(Node* n) : n_(n) {}
  ~NodeRef() { Py_XDECREF(n_); }
  NodeRef(const NodeRef&) = delete;
  Node* get() const { return n_; }
  Node* operator->() const { return n_; }
  Node* release() { return std::exchange(n_, nullptr); }

 private:
  Node* n_;
};

// Does this argument hold a tensor that needs a gradient?
bool needs_grad(const Value& v);
// Does any tensor argument that the op has a derivative for need a gradient?
bool wants_recording(const Op& op, const Value* args);
// What the rules that will run read.
Uses uses_of(const Op& op, const Value* args);
// A node with edges and saved arguments, before the result exists: a new reference. For a change in
// place, args[0] is kept as a copy, where it is kept.
Node* begin_record(const Op& op, Value* args, bool inplace = false);
void save_outputs(Node* node, const Op& op, const Value* args, const Value& out);
// The whole of it, for results that are new tensors.
void record(Call& c, Value& out);

// A copy that is not recorded.
Tensor op_clone(const Tensor& t);
// Puts the result of an in-place form where it belongs, if forward has not done so.
void finish_inplace(const Tensor& self, const Value& out, const Op& op);
// The forward of an op, and that of its in-place form (the new version of `self` included), taken
// down where a program is recorded.
Value run_forward(Call& c);
void run_change(Call& c, const Tensor& self);
// Gives `out` another shape, with new memory if it needs more; refuses tensors that share memory.
void resize(const Tensor& out, Span shape);
// Puts a result where out= wants it.
void write_out(const Tensor& out, const Tensor& value);

}  // namespace adjoint
