// What rules see, and the backward of nodes made by ops. Read op.h first.
#include "op.h"
#include "record.h"

namespace adjoint {
namespace {

constexpr uint32_t kNotSaved = UINT32_MAX;

[[noreturn]] void changed_in_place(Node* n, const Tensor& t, uint32_t saved_version) {
  runtime_error(
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: a value needed "
      "for the gradient of `",
      n->op ? n->op->name : n->name,
      "` was changed in place.\n"
      "  saved here    ",
      n->line.describe(), "          (", t.dtype(), " ", t.shape(), ", version ", saved_version,
      ")\n"
      "  changed here  ",
      t->storage->changed.describe(), "          (now version ", t.version(),
      ")\n"
      "  fix: use the out-of-place form of the second line, or save a copy with .clone() before "
      "it");
}

[[noreturn]] void freed(Node* n) {
  runtime_error(
      "Trying to backward through the graph a second time (or directly access saved tensors after "
      "they have already "
      "been freed). Saved intermediate values of the graph are freed when you call .backward() or "
      "autograd.grad().\n"
      "  the node      ",
      n->name, " made at ", n->line.describe(),
      "\n"
      "  freed here    ",
      n->freed_by.describe(),
      "\n"
      "  fix: Specify retain_graph=True there if you need to backward through the graph a second "
      "time");
}

// `t` with the history that argument had when it was recorded.
Tensor with_edge(const Tensor& t, const Edge& e) {
  bool same =
      t->grad_fn ? t->grad_fn == e.node && t->output_nr == e.slot : t->accumulator == e.node;
  if (same || !e.node || !e.node->backward) return t;
  Tensor a = alias(t);
  set_history(a, e.node, e.slot);
  return a;
}

}  // namespace

Value Context::in(int i) {
  if (call_) return call_->args[i];
  if (i >= node_->saved_count) return node_->op->schema.arguments[i].default_value;
  const Saved& s = node_->saved[i];
  if (s.version == kNotSaved && s.value.is_none()) {
    if (node_->released) freed(node_);
    throw std::logic_error("the derivative of " + node_->op->full_name + " reads argument " +
                           std::to_string(i) + " but its block does not say so");
  }
  if (s.value.is_tensors() && version_of(s.value.tensors()) != s.version) [[unlikely]] {
    for (const Tensor& t : s.value.tensors()) {
      if (t && t.version() > 0) changed_in_place(node_, t, 0);
    }
  }
  if (!s.value.is_tensor()) return s.value;
  if (s.value.object()->storage->version != s.version)
    changed_in_place(node_, s.value.tensor(), s.version);
  int e = node_->op->edge_of[i];
  if (grad_enabled() && e >= 0) return with_edge(s.value.tensor(), node_->edges[e]);
  return s.value;
}

Tensor Context::out(int k) {
  if (call_) return result_->is_tensor() ? result_->tensor() : result_->tensors()[k];
  const Value& v = node_->output.value;
  if (v.is_none()) {
    throw std::logic_error("the derivative of " + node_->op->full_name +
                           " reads its output but its block does not say so");
  }
  Tensor t = v.is_tensor() ? v.tensor() : v.tensors()[k];
  if (t.version() != node_->output.version) changed_in_place(node_, t, node_->output.version);
  if (!grad_enabled() || !is_differentiable(t.dtype())) return t;
  Tensor a = alias(t);
  set_history(a, node_, static_cast<uint32_t>(k));
  return a;
}

const Value& Context::kept() const { return call_ ? call_->kept : node_->kept; }

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
  if (node->released) freed(node);
  const Op& op = *node->op;
  Context c(node, grads);
  if (op.joint) return op.joint(c, result);
  for (size_t i = 0; i < op.schema.arguments.size() && i < op.grads.size(); ++i) {
    int e = op.edge_of[i];
    if (e < 0 || !op.grads[i] || !node->edges[e].node) continue;
    Tensor g = node->output_count == 1 ? grads[0] : c.grad(0);
    if (op.is_partial && is_complex(g.dtype())) {
      result[e] = adjoint::op<"conj">(op.grads[i](adjoint::op<"conj">(g).tensor(), c)).tensor();
    } else {
      result[e] = op.grads[i](g, c);
    }
  }
}

}  // namespace adjoint
