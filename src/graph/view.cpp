// Views, in-place checks and rebased history. Read view.h first.
//
// Note [Rebased history]
// Let b be a base and v = b's view with geometry G. After v.op_(), with `node` the node of op:
//   b' = scatter(b, op(gather(b, G)), G)
// so the gradient of b is that of b' with the slice at G replaced by node's gradient of v's old
// value. CopySlices does this with the engine's own ops (as_strided, as_strided_scatter), hence to
// any order. v itself becomes gather(b', G) again: an AsStrided node, made when v's history is next
// asked for.
#include "view.h"

#include "../engine/freed.h"
#include "../engine/strong_zeros.h"
#include "../ops/op.h"
#include "foreign_node.h"
#include "retained.h"
#include "saved.h"

namespace adjoint {
namespace {

struct Geometry {
  Dims shape, strides;
  int64_t offset;
};

Geometry geometry_of(const Tensor& t) { return {Dims(t.shape()), Dims(t.strides()), t.offset()}; }

// saved[0..2]: shape, strides, offset of the view; saved[3]: the wrapped node; saved[4], saved[5]:
// strides and offset of the base.
void copy_slices_backward(Node* n, Tensor* grads, Tensor* result) {
  Node* inner = reinterpret_cast<Node*>(n->saved[3].value.python());
  const Value &shape = n->saved[0].value, &strides = n->saved[1].value, &offset = n->saved[2].value;
  if (n->released || !inner) fail_freed(n);
  // The gradient laid out as the base was, so that the view's geometry means the same elements.
  Tensor g = grads[0];
  Dims base_strides = n->saved[4].value.ints();
  int64_t base_offset = n->saved[5].value.integer();
  Tensor whole = op<"_with_strides">(g, base_strides);
  Value at = offset.integer() - base_offset;
  Tensor slice = op<"as_strided">(whole, shape, strides, at);
  std::vector<Tensor> inner_result(inner->edge_count);
  Tensor inner_grads[1] = {op<"clone">(slice)};
  inner->backward(inner, inner_grads, inner_result.data());
  if (mode_on(kStrongZeros)) keep_zeros(inner, inner_grads, inner_result.data());
  for (int i = 1; i < inner->edge_count; ++i) result[i] = std::move(inner_result[i]);
  if (n->edges[0].node) {
    Tensor into = inner_result[0] ? inner_result[0] : zeros(slice.shape(), slice.dtype());
    result[0] = op<"as_strided_scatter">(whole, op<"expand">(into, shape), shape, strides, at);
  }
}

[[noreturn]] void refuse_function_view(const Tensor& t, const char* what) {
  runtime_error(
      "Output ", t->grad_fn ? t->output_nr : 0, " of ",
      t->grad_fn ? t->grad_fn->name : "a custom Function", " is a view and ", what,
      ". This view was created inside a custom Function (or because an input was returned as-is) "
      "and the autograd logic to handle view+inplace would override the custom backward associated "
      "with the custom Function, leading to incorrect gradients. This behavior is forbidden. You "
      "can fix this by cloning the output of the custom Function.");
}

}  // namespace

Tensor make_view(const Tensor& t, Span shape, Span strides, int64_t offset) {
  return make_view_as(t, shape, strides, offset, t.dtype());
}

Tensor make_view_as(const Tensor& t, Span shape, Span strides, int64_t offset, DType dtype) {
  Tensor v = on_storage(t->storage, shape, strides, offset, dtype);
  TensorObject* base = t->base ? t->base : t.get();
  Py_INCREF(base);
  v->base = base;
  v->view_version = t->storage->version;
  if (!grad_enabled()) v.set(kNoGradView);
  v->flags |= t->flags & (kInference | kFunctionView | kMultiView);
  return v;
}

namespace {

void refuse_unwritable(const Tensor& t, const char* what) {
  if (t->storage->read_only) {
    runtime_error(
        what, ": this tensor shares read-only memory; use .clone() to get one that can be written");
  }
  for (int i = 0; i < t.ndim(); ++i) {
    if (t.stride(i) == 0 && t.size(i) > 1 && t.numel() > 0) {
      runtime_error(
          "unsupported operation: more than one element of the written-to tensor refers to a "
          "single memory location (shape ",
          t.shape(), ", strides ", t.strides(), "). Please clone() the tensor before performing ",
          what, ".");
    }
  }
}

// What would make a history wrong.
void refuse_unrecordable(const Tensor& t, bool recording, const char* what) {
  // A view made before its base came to require grad knows nothing of it, but changes it.
  bool changes_leaf = t.is_view() && needs_grad(t->base) && !t->base->grad_fn;
  if (!recording && !needs_grad(t.get()) && !changes_leaf) return;
  if (t.requires_grad() && t.is_leaf() && !stale_view(t.get())) {
    if (t.is_view()) {
      runtime_error(
          "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    }
    runtime_error("a leaf Variable that requires grad is being used in an in-place operation. (",
                  what, " on a leaf of shape ", t.shape(),
                  "; fix: use the out-of-place form, or wrap the change in "
                  "`with no_grad():`)");
  }
  if (!t.is_view()) return;
  if (t.has(kFunctionView)) refuse_function_view(t, "is being modified inplace");
  if (t.has(kNoGradView)) {
    runtime_error(
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
        "Make the view outside no_grad, or change it inside no_grad.");
  }
  Tensor base = Tensor::borrow(t->base);
  if (base.requires_grad() && base.is_leaf()) {
    runtime_error(
        "a view of a leaf Variable that requires grad is being used in an in-place operation. (",
        what, " on a view of shape ", t.shape(), " of a leaf of shape ", base.shape(),
        "; fix: clone the leaf first, or wrap the change in `with no_grad():`)");
  }
  if (t.has(kMultiView)) {
    runtime_error("Output ", t->output_nr, " of ",
                  t->grad_fn ? t->grad_fn->name : "a multi-view op",
                  " is a view and is being modified inplace. This view is the output of a function "
                  "that returns "
                  "multiple views. Such functions do not allow the output views to be modified "
                  "inplace. You should "
                  "replace the inplace operation by an out-of-place one.");
  }
  if (t.dtype() != base.dtype()) {
    runtime_error("a ", t.dtype(), " view of a ", base.dtype(),
                  " tensor is being modified inplace while gradients are recorded (", what,
                  "), which is not supported; fix: build the tensor from its parts instead");
  }
}

}  // namespace

void check_inplace(const Tensor& t, bool recording, const char* what) {
  refuse_unwritable(t, what);
  if (grad_enabled()) refuse_unrecordable(t, recording, what);
  if (t_watch_changes) saved_hooks.before_change(t);
}

void bump_version(const Tensor& t) {
  ++t->storage->version;
  t->storage->changed = SourceLine::here();
}

void rebase_history(const Tensor& t, Node* node) {
  set_meta(node, 0, t);
  if (!t.is_view()) {
    change_history(t, node, 0);
    return;
  }
  Tensor base = Tensor::borrow(t->base);
  Edge base_edge = gradient_edge(base.get());
  Node* slices = new_node("CopySlices", copy_slices_backward, node->edge_count, 6);
  Geometry g = geometry_of(t);
  slices->saved[0].value = g.shape;
  slices->saved[1].value = g.strides;
  slices->saved[2].value = g.offset;
  slices->saved[3].value = Value::object(reinterpret_cast<PyObject*>(node));
  slices->saved[4].value = Dims(base.strides());
  slices->saved[5].value = base.offset();
  slices->edges[0] = base_edge;
  for (int i = 1; i < node->edge_count; ++i) {
    slices->edges[i] = node->edges[i];
    Py_XINCREF(slices->edges[i].node);
  }
  set_meta(slices, 0, base);
  change_history(base, slices, 0);
  Py_DECREF(slices);
  refresh_view_history(t.get());
}

namespace {

// The view's elements taken from its base, by ops. A complex view of real memory, or a real one of
// complex memory, goes through the other dtype.
Tensor gather(const Tensor& base, const Tensor& t) {
  Geometry g = geometry_of(t);
  if (base.dtype() == t.dtype()) return op<"as_strided">(base, g.shape, g.strides, g.offset);
  if (is_complex(base.dtype())) {
    return op<"as_strided">(op<"view_as_real">(base), g.shape, g.strides, g.offset);
  }
  for (int64_t& s : g.strides) s *= 2;
  g.shape.push_back(2);
  g.strides.push_back(1);
  return op<"view_as_complex">(op<"as_strided">(base, g.shape, g.strides, 2 * g.offset));
}

}  // namespace

void refresh_view_history(TensorObject* view) {
  Tensor t = Tensor::borrow(view), base = Tensor::borrow(view->base);
  if (!base.requires_grad()) return;
  bool of_function = t->grad_fn && is_function_node(t->grad_fn);
  if (t.has(kFunctionView) || (t.has(kMultiView) && of_function)) {
    refuse_function_view(t, "its base or another view of its base has been modified inplace");
  }
  GradMode on(true);
  Tensor fresh = gather(base, t);
  change_history(t, fresh->grad_fn, fresh->output_nr);
}

}  // namespace adjoint
