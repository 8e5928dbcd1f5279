// What rules see, and the backward of nodes made by ops. Read op.h first.
#include "../engine/freed.h"
#include "../graph/saved.h"
#include "op.h"
#include "record.h"
#include "reuse.h"

namespace adjoint {

thread_local TensorObject* t_reuse __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local bool t_grads_unread __attribute__((tls_model("initial-exec"))) = false;

Value Context::in(int i) {
  if (call_) return call_->args[i];
  if (i >= node_->saved_count) return node_->op->schema.arguments[i].default_value;
  const Saved& s = node_->saved[i];
  if (s.value.is_tensor() && !grad_enabled()) {
    if (s.value.object()->storage->version != s.version)
      changed_in_place(node_, s.value.tensor(), s.version);
    return s.value;
  }
  if (s.version == kNotSaved && s.value.is_none()) {
    if (node_->released) fail_freed(node_);
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
  return zeros(m.shape(), m.dtype);
}

void op_backward(Node* node, Tensor* grads, Tensor* result) {
  if (node->released) fail_freed(node);
  const Op& op = *node->op;
  UnpackScope scope;
  Context c(node, grads);
  bool unread = std::exchange(t_grads_unread, false);
  bool reuse = unread && grads[0] && op.reads_grad_once && !is_complex(grads[0].dtype());
  if (op.joint) return op.joint(c, result);
  Tensor made;
  if (!grads[0]) made = c.grad(0);
  const Tensor& g = grads[0] ? grads[0] : made;
  int last = -1;  // the last argument with a gradient to compute
  for (int k = 0; reuse && k < op.tensor_arguments; ++k) {
    int i = op.tensor_at[k];
    if (op.grads[i] && node->edges[op.edge_of[i]].node) last = i;
  }
  for (int k = 0; k < op.tensor_arguments; ++k) {
    int i = op.tensor_at[k], e = op.edge_of[i];
    if (e < 0 || !op.grads[i] || !node->edges[e].node) continue;
    if (i == last) {
      Tensor mine = std::move(grads[0]);
      Reuse taken(mine);
      result[e] = op.grads[i](mine, c);
      return;
    }
    if (op.is_partial && is_complex(g.dtype())) {
      result[e] = adjoint::op<"conj">(op.grads[i](adjoint::op<"conj">(g).tensor(), c)).tensor();
    } else {
      result[e] = op.grads[i](g, c);
    }
  }
}

}  // namespace adjoint
