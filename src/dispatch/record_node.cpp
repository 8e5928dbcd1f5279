// Recording. Read record_node.h first.
#include "dispatch/record_node.h"

#include "tensor/donated_arrays.h"

#include "dispatch/program_recorder.h"

#include "dispatch/keep_cuts.h"
#include "dispatch/saved.h"
#include "dispatch/view.h"
#include "graph/back_links.h"
#include "tensor/geometry.h"

namespace adjoint {
namespace {

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

const char* node_name(const Op& op, const Value* args) {
  return op.name_of ? op.name_of(args) : op.node_name.c_str();
}

bool has_rule(const Op& op, int i) { return op.joint || op.grads[i]; }

// Keeps the arguments that the rules read, and everything that is not a tensor.
void save_arguments(Node* node, const Op& op, const Value* args, bool inplace) {
  uint32_t used = uses_of(op, args).inputs;
  for (int i = 0; i < op.argument_count; ++i) {
    if (op.edge_of[i] < 0 || (used >> i & 1) || args[i].is_scalar()) {
      // Of what is about to be changed a copy is kept, also where it is the other operand as well.
      bool copy = inplace && args[i].is_tensor() && args[i].object() == args[0].object();
      if (args[i].is_none()) continue;
      node->saved[i] = pack(copy ? Value(op_clone(args[0])) : args[i]);
      note_saved(node, node->saved[i].value);
    } else {
      node->saved[i].version = kNotSaved;
    }
  }
}

// Edges come before the node: a leaf's accumulator made with them must be older.
Node* begin_with_lists(const Op& op, Value* args, bool inplace) {
  std::vector<Edge> edges;
  for (int k = 0; k < op.tensor_arguments; ++k) {
    int i = op.tensor_at[k];
    bool rule = has_rule(op, i);
    if (args[i].is_tensors()) {
      if (!rule) continue;  // a list of indices: nothing goes there
      each_tensor(args[i],
                  [&](TensorObject* t) { edges.push_back(t ? gradient_edge(t) : Edge{}); });
    } else {
      edges.push_back(args[i].is_tensor() && rule ? gradient_edge(args[i].object()) : Edge{});
    }
  }
  NodeRef node(new_node(node_name(op, args), op_backward, static_cast<int>(edges.size()),
                        op.argument_count));
  node->op = &op;
  std::copy(edges.begin(), edges.end(), node->edges);
  save_arguments(node.get(), op, args, inplace);
  if (any_cut(op, args)) keep_cuts(node.get(), op, args);
  return node.release();
}

}  // namespace

bool needs_grad(const Value& v) {
  bool any = false;
  each_tensor(v, [&](TensorObject* t) { any |= t && needs_grad(t); });
  return any;
}

bool wants_recording(const Op& op, const Value* args) {
  for (int k = 0; k < op.tensor_arguments; ++k) {
    int i = op.tensor_at[k];
    if (args[i].is_tensor()) {
      if (needs_grad(args[i].object()) && has_rule(op, i)) return true;
    } else if (args[i].is_tensors() && op.joint && needs_grad(args[i])) {
      return true;
    }
  }
  return false;
}

Uses uses_of(const Op& op, const Value* args) {
  if (op.joint) return op.joint_uses;
  Uses u;
  for (int k = 0; k < op.tensor_arguments; ++k) {
    int i = op.tensor_at[k];
    if (op.grads[i] && args[i].is_tensor() && needs_grad(args[i].object())) u = u | op.uses[i];
  }
  return u;
}

Node* begin_record(const Op& op, Value* args, bool inplace) {
  if (op.takes_list) return begin_with_lists(op, args, inplace);
  Edge edges[kMaxTensorArguments];
  for (int k = 0; k < op.tensor_arguments; ++k) {
    int i = op.tensor_at[k];
    edges[k] = args[i].is_tensor() && has_rule(op, i) ? gradient_edge(args[i].object()) : Edge{};
  }
  NodeRef node(new_node(node_name(op, args), op_backward, op.tensor_arguments, op.argument_count));
  node->op = &op;
  std::copy_n(edges, op.tensor_arguments, node->edges);
  save_arguments(node.get(), op, args, inplace);
  if (any_cut(op, args)) keep_cuts(node.get(), op, args);
  return node.release();
}

void save_outputs(Node* node, const Op& op, const Value* args, const Value& out) {
  Uses uses = uses_of(op, args);
  if (!uses.outputs) return;
  if (out.is_tensor()) {
    node->output = pack_output(out.tensor());
    return note_saved(node, node->output.value);
  }
  Tensors kept(out.tensors().size());
  for (size_t k = 0; k < kept.size(); ++k) {
    if (uses.outputs >> k & 1) kept[k] = alias(out.tensors()[k]);
  }
  node->output = pack(Value(std::move(kept)));
  note_saved(node, node->output.value);
  // Results of one op are as old as each other, so one version serves.
  if (!is_packed(node->output))
    node->output.version = out.tensors().empty() ? 0 : out.tensors()[0].version();
}

void record(Call& c, Value& out) {
  const Op& op = c.op;
  if (out.is_tensor()) {
    Tensor t = out.tensor();
    if (!is_differentiable(t.dtype()) || (op.is_view && t.has(kInference)))
      return mark_unrecorded(op, c.args, out);
    for (int k = 0; k < op.tensor_arguments; ++k) {
      const Value& v = c.args[op.tensor_at[k]];
      if (v.is_tensor() && v.object() == t.get()) return;  // returned as it came
    }
    NodeRef node(begin_record(op, c.args));
    keep(node.get(), std::move(c.kept));
    set_meta(node.get(), 0, t);
    save_outputs(node.get(), op, c.args, out);
    set_history(t, node.get(), 0);
    return;
  }
  const Tensors& ts = out.tensors();
  if (ts.empty()) return;
  NodeRef node(begin_record(op, c.args));
  keep(node.get(), std::move(c.kept));
  node->set_output_count(static_cast<int>(ts.size()));
  save_outputs(node.get(), op, c.args, out);
  for (size_t k = 0; k < ts.size(); ++k) {
    set_meta(node.get(), static_cast<uint32_t>(k), ts[k]);
    if (!is_differentiable(ts[k].dtype())) {
      mark_unrecorded(op, c.args, Value(ts[k]));
      continue;
    }
    set_history(ts[k], node.get(), static_cast<uint32_t>(k));
  }
}

Tensor op_clone(const Tensor& t) {
  if (captured()) [[unlikely]] {
    GradMode off(false);
    return op<"clone">(alias(t));
  }
  Tensor copy = empty_like(t, t.dtype());
  copy_into(copy, t);
  return copy;
}

// Another tensor on new memory would no longer be what the owner of the old one sees.
static void refuse_foreign_growth(const Storage* s, size_t bytes) {
  if (s->own || is_adopted(s)) return;
  runtime_error("Trying to resize storage that is not resizable: ", bytes,
                " bytes are needed, and the ", s->bytes,
                " there are belong to an array or are shared. (fix: resize a clone())");
}

void resize(const Tensor& out, Span shape) {
  int64_t n = checked_numel(shape, out.itemsize());
  size_t bytes = n * out.itemsize();
  const Dims strides = contiguous_strides(shape);
  if (bytes > room(out.get())) {
    refuse_foreign_growth(out->storage, bytes);
    Storage* fresh = new_storage(bytes);
    note_parting(out.get());
    fresh->version = out->storage->version;
    drop(std::exchange(out->storage, fresh));
    out->data = static_cast<char*>(fresh->data);
  }
  set_geometry(out.get(), shape, strides);
}

}  // namespace adjoint
