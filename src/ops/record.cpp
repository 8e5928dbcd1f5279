// Recording. Read record.h first.
#include "record.h"

#include "../graph/view.h"

namespace adjoint {
namespace {

constexpr uint32_t kNotSaved = UINT32_MAX;

template <class F>
void each_tensor(const Value& v, F&& f) {
  if (v.is_tensor()) {
    f(v.object());
  } else if (v.is_tensors()) {
    for (const Tensor& t : v.tensors()) {
      if (t)
        f(t.get());
      else
        f(nullptr);
    }
  }
}

int count_edges(const Op& op, const Value* args) {
  int n = 0;
  for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
    if (op.edge_of[i] < 0) continue;
    n += args[i].is_tensors() ? static_cast<int>(args[i].tensors().size()) : 1;
  }
  return n;
}

}  // namespace

bool needs_grad(const Value& v) {
  bool any = false;
  each_tensor(v, [&](TensorObject* t) { any |= t && needs_grad(t); });
  return any;
}

bool wants_recording(const Op& op, const Value* args) {
  for (size_t i = 0, n = op.schema.arguments.size(); i < n; ++i) {
    if (op.edge_of[i] < 0) continue;
    if (args[i].is_tensor()) {
      if (needs_grad(args[i].object()) && (op.joint || op.grads[i])) return true;
    } else if (args[i].is_tensors() && op.joint && needs_grad(args[i])) {
      return true;
    }
  }
  return false;
}

Uses uses_of(const Op& op, const Value* args) {
  if (op.joint) return op.joint_uses;
  Uses u;
  for (size_t i = 0; i < op.schema.arguments.size() && i < op.grads.size(); ++i) {
    if (op.grads[i] && args[i].is_tensor() && needs_grad(args[i].object())) u = u | op.uses[i];
  }
  return u;
}

Node* begin_record(const Op& op, Value* args) {
  int arguments = static_cast<int>(op.schema.arguments.size());
  int edge_total =
      op.tensor_arguments <= 2 && !op.joint ? op.tensor_arguments : count_edges(op, args);
  // Edges first: a leaf's accumulator made here must be older than the node.
  Edge few[4];
  std::vector<Edge> many(edge_total > 4 ? edge_total : 0);
  Edge* edges = edge_total > 4 ? many.data() : few;
  int e = 0;
  for (int i = 0; i < arguments; ++i) {
    if (op.edge_of[i] < 0) continue;
    bool has_rule = op.joint || (i < static_cast<int>(op.grads.size()) && op.grads[i]);
    if (args[i].is_tensors()) {
      each_tensor(args[i],
                  [&](TensorObject* t) { edges[e++] = t && has_rule ? gradient_edge(t) : Edge{}; });
    } else {
      edges[e++] = args[i].is_tensor() && has_rule ? gradient_edge(args[i].object()) : Edge{};
    }
  }
  Node* node = new_node(op.node_name.c_str(), op_backward, edge_total, arguments);
  node->op = &op;
  std::copy_n(edges, edge_total, node->edges);
  Uses uses = uses_of(op, args);
  for (int i = 0; i < arguments; ++i) {
    if (op.edge_of[i] >= 0 && !(uses.inputs >> i & 1) && !args[i].is_scalar()) {
      node->saved[i].version = kNotSaved;
    } else {
      node->saved[i] = save(args[i]);
    }
  }
  return node;
}

void save_outputs(Node* node, const Op& op, const Value* args, const Value& out) {
  Uses uses = uses_of(op, args);
  if (!uses.outputs) return;
  // An alias without history: the node must not keep itself alive through its own result.
  if (out.is_tensor()) {
    node->output = save(alias(out.tensor()));
    return;
  }
  Tensors kept(out.tensors().size());
  for (size_t k = 0; k < kept.size(); ++k) {
    if (uses.outputs >> k & 1) kept[k] = alias(out.tensors()[k]);
  }
  node->output = {Value(std::move(kept)), out.tensors().empty() ? 0 : out.tensors()[0].version()};
}

void record(Call& c, Value& out) {
  const Op& op = c.op;
  if (out.is_tensor()) {
    Tensor t = out.tensor();
    if (!is_differentiable(t.dtype())) return;
    for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
      if (c.args[i].is_tensor() && c.args[i].object() == t.get()) return;  // returned as it came
    }
    NodeRef node(begin_record(op, c.args));
    node->kept = std::move(c.kept);
    set_meta(node.get(), 0, t);
    save_outputs(node.get(), op, c.args, out);
    set_history(t, node.get(), 0);
    return;
  }
  const Tensors& ts = out.tensors();
  if (ts.empty()) return;
  NodeRef node(begin_record(op, c.args));
  node->kept = std::move(c.kept);
  node->set_output_count(static_cast<int>(ts.size()));
  save_outputs(node.get(), op, c.args, out);
  for (size_t k = 0; k < ts.size(); ++k) {
    set_meta(node.get(), static_cast<uint32_t>(k), ts[k]);
    if (!is_differentiable(ts[k].dtype())) continue;
    set_history(ts[k], node.get(), static_cast<uint32_t>(k));
    if (op.is_multi_view) ts[k].set(kMultiView);
  }
}

Tensor op_clone(const Tensor& t) {
  Tensor copy = empty_like(t, t.dtype());
  copy_into(copy, t);
  return copy;
}

void resize(const Tensor& out, Span shape) {
  int64_t n = checked_numel(shape, out.itemsize());
  if (shape.n > kInlineDims && shape.n > out.ndim())
    not_implemented("resize to more than ", kInlineDims, " axes");
  size_t bytes = n * out.itemsize();
  size_t room = out->storage->bytes - (out->data - static_cast<char*>(out->storage->data));
  if (bytes > room) {
    Storage* fresh = new_storage(bytes);
    fresh->version = out->storage->version;
    drop(std::exchange(out->storage, fresh));
    out->data = static_cast<char*>(fresh->data);
  }
  out->ndim = static_cast<uint8_t>(shape.n);
  Dims strides = contiguous_strides(shape);
  std::copy_n(shape.p, shape.n, out->shape);
  std::copy_n(strides.data(), shape.n, out->strides);
  out->numel = n;
  out.set(kContiguous);
}

}  // namespace adjoint
