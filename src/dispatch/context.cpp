// What rules see, and the backward of nodes made by ops. Read op.h first.
#include "dispatch/autocast.h"
#include "dispatch/direct.h"
#include "dispatch/op.h"
#include "dispatch/program_recorder.h"
#include "dispatch/record_node.h"
#include "dispatch/reuse.h"
#include "dispatch/saved.h"
#include "graph/second_backward.h"

namespace adjoint {

constinit thread_local TensorObject* t_reuse = nullptr;
constinit thread_local bool t_grads_unread = false;
// Of saved.h: flags that stand together take no more room than one (tests/unit/repository
// counts the bytes of thread-locals).
constinit thread_local bool t_unpacked = false;
constinit thread_local bool t_watch_changes = false;

Value Context::in(int i) {
  if (call_) return call_->args[i];
  if (i >= node_->saved_count) return node_->op->schema.arguments[i].default_value;
  const Saved& s = node_->saved[i];
  if (s.value.is_tensor() && !grad_enabled()) {
    if (s.value.object()->storage->version != s.version)
      changed_in_place(node_, s.value.tensor(), s.version);
    return s.value;
  }
  // The hook that unpacked another value ran a pass that freed this node.
  if (is_packed(s) && s.value.is_none()) fail_freed(node_);
  if (s.version == kNotSaved && s.value.is_none()) {
    throw std::logic_error("the derivative of " + node_->op->full_name + " reads argument " +
                           std::to_string(i) + " but its block does not say so");
  }
  int e = node_->op->edge_of[i];
  if (s.value.is_tensor() || s.value.kind() == Value::Object)
    return unpack(node_, s, e >= 0 ? node_->edges[e] : Edge{});
  if (!s.value.is_tensors() && !is_packed(s)) return s.value;
  // A list without a rule (of indices) has no edges.
  return unpack_list(node_, s, e >= 0 && node_->op->joint ? node_->edges + e : nullptr);
}

Tensor Context::out(int k) {
  if (call_) return result_->is_tensor() ? result_->tensor() : result_->tensors()[k];
  const Saved& s = node_->output;
  if (is_packed(s) && s.value.is_none()) fail_freed(node_);
  if (s.value.is_none()) {
    throw std::logic_error("the derivative of " + node_->op->full_name +
                           " reads its output but its block does not say so");
  }
  Edge self{node_, static_cast<uint32_t>(k)};
  if (s.value.is_tensor() || s.value.kind() == Value::Object) return unpack(node_, s, self);
  if (s.value.kind() == Value::String) runtime_error(s.value.str());  // see mark_unsaved
  return unpack(node_, saved_item(s, k), self);
}

const Value& Context::kept() const { return call_ ? call_->kept : unpack_kept(node_); }

Span Context::shape(int i) {
  if (call_) return {call_->args[i].object()->shape, call_->args[i].object()->ndim};
  const Edge& e = node_->edges[node_->op->edge_of[i]];
  if (e.node->variable) return {e.node->variable->shape, e.node->variable->ndim};
  return e.node->meta_of(e.slot).shape();
}

DType Context::dtype(int i) {
  if (call_) return call_->args[i].object()->dtype;
  const Edge& e = node_->edges[node_->op->edge_of[i]];
  return e.node->variable ? e.node->variable->dtype : e.node->meta_of(e.slot).dtype;
}

Span Context::out_shape(int k) {
  if (call_) return (result_->is_tensor() ? result_->tensor() : result_->tensors()[k]).shape();
  return node_->meta_of(k).shape();
}

bool Context::needs(int i) {
  if (call_) return true;
  return node_->edges[node_->op->edge_of[i]].node != nullptr;
}

Tensor Context::grad(int k) {
  if (grads_[k]) return grads_[k];
  const Meta& m = node_->meta_of(k);
  return fresh_zeros(m.shape(), m.dtype);
}

void op_backward(Node* node, Tensor* grads, Tensor* result) {
  if (node->released) fail_freed(node);
  const Op& op = *node->op;
  UnpackScope scope;
  AutocastOff as_recorded;  // gradients have the precision that the call had
  Context c(node, grads);
  bool unread = std::exchange(t_grads_unread, false);
  if (op.is_product && grads[0] && product_backward(op, node, grads, result, unread)) return;
  if (op.joint) return op.joint(c, result);
  if (!grads[0]) [[unlikely]]
    grads[0] = c.grad(0);
  int due[kMaxArguments], count = 0;  // arguments with a gradient to compute
  for (int k = 0; k < op.tensor_arguments; ++k) {
    int i = op.tensor_at[k], e = op.edge_of[i];
    if (e >= 0 && op.grads[i] && node->edges[e].node) due[count++] = i;
  }
  bool conjugated = op.is_partial && is_complex(grads[0].dtype());
  for (int k = 0; k < count; ++k) {
    int i = due[k], e = op.edge_of[i];
    if (conjugated) [[unlikely]] {
      Tensor conj = adjoint::op<"conj_physical">(grads[0]).tensor();
      result[e] = adjoint::op<"conj_physical">(op.grads[i](conj, c)).tensor();
    } else if (k + 1 == count && unread && op.reads_grad_once) {
      Tensor mine = std::move(grads[0]);
      Reuse taken(mine);
      result[e] = op.grads[i](mine, c);
    } else {
      result[e] = op.grads[i](grads[0], c);
    }
  }
}

}  // namespace adjoint
