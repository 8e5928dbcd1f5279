// Read sparse_calls.h first.
#include "dispatch/sparse_calls.h"

#include "dispatch/program_recorder.h"
#include "dispatch/record_node.h"
#include "dispatch/view.h"

namespace adjoint {
namespace {

TensorObject* sparse_in(const Value& v) {
  if (v.is_tensor()) return is_sparse(v.object()) ? v.object() : nullptr;
  if (!v.is_tensors()) return nullptr;
  for (const Tensor& t : v.tensors()) {
    if (is_sparse(t)) return t.get();
  }
  return nullptr;
}

void refuse_recorded(const Op& op) {
  refuse_recording("`", op.name, "` is called with a sparse tensor; fix: leave it to eager code");
}

Value run_rule(const Op& op, Value* args) {
  refuse_recorded(op);
  if (!op.facts.sparse) refuse_sparse(op, args);
  return op.facts.sparse(op, args);
}

}  // namespace

bool any_sparse(const Op& op, const Value* args) {
  if (op.facts.takes_sparse) {
    if (captured()) refuse_recorded(op);
    return false;
  }
  for (int k = 0; k < op.tensor_arguments; ++k) {
    if (sparse_in(args[op.tensor_at[k]])) return true;
  }
  return false;
}

void refuse_sparse(const Op& op, const Value* args) {
  for (int k = 0; k < op.tensor_arguments; ++k) {
    const int i = op.tensor_at[k];
    TensorObject* t = sparse_in(args[i]);
    if (!t) continue;
    const char* layout = name_of(parts_of(Tensor::borrow(t)).layout);
    not_implemented(op.name, "() does not take these operands: `", op.schema.arguments[i].name,
                    "` is a ", layout, " tensor of shape ", Span{t->shape, t->ndim},
                    ". fix: call it with .to_dense(), or on .values()");
  }
  not_implemented(op.name, "() does not take sparse tensors. fix: call it with .to_dense()");
}

void refuse_sparse_out(const Op& op) {
  not_implemented(op.name,
                  "(out=...) does not take sparse tensors. fix: assign the result instead");
}

Value apply_sparse(const Op& op, Value* args) { return run_rule(op, args); }

Tensor apply_inplace_sparse(const Op& op, Value* args) {
  Tensor self = args[0].tensor();
  if (!is_sparse(self)) {  // dense.add_(sparse)
    Tensor made = run_rule(op, args);
    if (is_sparse(made)) made = adjoint::op<"_to_dense">(made);
    return op_inplace<"copy">(self, made);
  }
  if (grad_enabled() && (needs_grad(self.get()) || wants_recording(op, args))) {
    runtime_error(op.name,
                  "_: a sparse tensor that takes part in a graph can't be changed in place"
                  ". fix: use the form without the _, or no_grad()");
  }
  check_new_geometry(self, false, (op.name + "_").c_str());
  Tensor made;
  {
    GradMode off(false);
    made = run_rule(op, args);
  }
  if (made.is(self)) return self;
  if (!(made.shape() == self.shape())) {
    runtime_error("output with shape ", self.shape(), " doesn't match the broadcast shape ",
                  made.shape());
  }
  if (made.dtype() != self.dtype() || !is_sparse(made)) refuse_sparse(op, args);
  const SparseParts &old = parts_of(self), &fresh = parts_of(made);
  if (old.indices.is(fresh.indices) && old.values.shape() == fresh.values.shape()) {
    // The same places: whoever has asked for values() sees the change.
    copy_into(old.values, fresh.values);
    bump_version(old.values);
  } else {
    replace_parts(self, fresh);
  }
  bump_version(self);
  return self;
}

}  // namespace adjoint
