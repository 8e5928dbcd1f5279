// Views, in-place checks and rebased history. Read view.h first.
//
// Note [Rebased history]
// Let b be a base and v = b's view with geometry G. After v.op_(), with `node` the node of op:
//   b' = scatter(b, op(gather(b, G)), G)
// so the gradient of b is that of b' with the slice at G replaced by node's gradient of v's old
// value. CopySlices does this with the engine's own ops (as_strided, as_strided_scatter), hence to
// any order. v itself becomes gather(b', G) again: an AsStrided node, made when v's history is next
// asked for.
//
// Note [Windows that share places]
// If elements of G share places (unfold, as_strided), op reads all of them and the last in row-major
// order is the one that b' holds (overlap.h). So op gets the gradient of b' at the last element of
// each place, the others get zero, and what op gives back for one place is added up. This is true of
// ops that write every element; of those that write some places only, the last one written counts,
// and the backward pass refuses them.
#include "dispatch/view.h"

#include "dispatch/copy_slices.h"
#include "dispatch/op.h"
#include "dispatch/program_recorder.h"
#include "dispatch/saved.h"
#include "dispatch/strong_zeros.h"
#include "graph/change_log.h"
#include "graph/foreign_node.h"
#include "graph/second_backward.h"
#include "graph/retained_grad.h"
#include "tensor/self_overlap.h"

namespace adjoint {

constinit thread_local ChangeLog* t_change_log = nullptr;

namespace {

// Which elements of its base a view shows. `at` counts from the base's first element, in elements
// of the view's dtype; those of a complex view of real memory are counted one by one (a last axis
// of 2).
struct Window {
  Dims shape, strides;
  int64_t at;
  DType dtype;
  uint16_t turned;  // see turned_in
};

bool is_parts_of(DType real, DType complex) {
  return is_complex(complex) && real_dtype(complex) == real;
}

Window view_window(const Tensor& view, const Tensor& base) {
  Window w{Dims(view.shape()), Dims(view.strides()), view->data - base->data, view.dtype(),
           turned_in(view, base)};
  if (!is_parts_of(base.dtype(), view.dtype())) {
    w.at /= static_cast<int64_t>(view.itemsize());
    return w;
  }
  // A complex view of real memory, as one of pairs of numbers. It need not start at an even one.
  for (int64_t& s : w.strides) s *= 2;
  w.shape.push_back(2);
  w.strides.push_back(1);
  w.at /= static_cast<int64_t>(base.itemsize());
  return w;
}

// The same elements, whatever their signs.
Tensor elements(const Tensor& whole, const Window& w) {
  int64_t start = whole.offset();
  if (whole.dtype() == w.dtype) return op<"as_strided">(whole, w.shape, w.strides, start + w.at);
  if (whole.has(kConjugate))  // which has no parts as views
    return elements(op<"_with_strides">(whole, Dims(whole.strides())), w);
  if (is_complex(whole.dtype()))
    return op<"as_strided">(op<"view_as_real">(whole), w.shape, w.strides, 2 * start + w.at);
  Tensor pairs = op<"as_strided">(whole, w.shape, w.strides, start + w.at);
  return op<"view_as_complex">(op<"contiguous">(pairs));
}

// The elements of `whole`, which is laid out as the base is, that the window shows: by ops.
Tensor look(const Tensor& whole, const Window& w) {
  return as_turned(elements(whole, w), w.turned);
}

// `whole` with these elements replaced.
Tensor put(const Tensor& whole, const Tensor& by, const Window& w) {
  if (is_complex(whole.dtype()) && !is_complex(w.dtype)) {
    Tensor parts =
        op<"as_strided_scatter">(op<"view_as_real">(whole), by, w.shape, w.strides, w.at);
    return op<"view_as_complex">(op<"contiguous">(parts));
  }
  bool pairs = is_complex(w.dtype) && !is_complex(whole.dtype());
  Tensor from = pairs ? op<"view_as_real">(by).tensor() : by;
  return op<"as_strided_scatter">(whole, from, w.shape, w.strides, w.at);
}

// What a CopySlices node keeps.
enum Slot { kShape, kStrides, kAt, kType, kTurned, kInner, kBaseStrides, kSlots };

// Of a window whose elements share places: which elements count, and which of the base it covers.
struct Shared {
  Tensor counts, covered;
};

Shared share_places(const Tensor& whole, const Window& w) {
  GradMode off(false);
  int64_t n = 1;
  for (int64_t s : w.shape) n *= s;
  Tensor last = empty_strided(whole.shape(), whole.strides(), DType::Int64);
  op_inplace<"fill">(last, -1);
  Tensor seen = on_storage(last->storage, w.shape, w.strides, last.offset() + w.at, DType::Int64);
  Tensor own = op<"reshape">(op<"arange">(n), w.shape);
  copy_into(seen, own);  // as values are
  return {op<"eq">(seen, own), op<"ge">(last, 0)};
}

void copy_slices_backward(Node* n, Tensor* grads, Tensor* result) {
  if (n->released || n->saved[kInner].value.is_none()) fail_freed(n);
  auto* inner = reinterpret_cast<Node*>(n->saved[kInner].value.python());
  Window w{n->saved[kShape].value.ints(), n->saved[kStrides].value.ints(),
           n->saved[kAt].value.integer(), n->saved[kType].value.dtype(),
           static_cast<uint16_t>(n->saved[kTurned].value.integer())};
  // The gradient laid out as the base was, so that the window means the same elements.
  Tensor whole = op<"_with_strides">(grads[0], n->saved[kBaseStrides].value.ints());
  Tensor slice = op<"clone">(look(whole, w));
  Shared shared;
  if (whole.dtype() == w.dtype && inner->op && inner->op->facts.writes_all &&
      places_repeat(w.shape, w.strides)) {
    shared = share_places(whole, w);
    slice = op<"where">(shared.counts, slice, 0);
  }
  std::vector<Tensor> inner_result(inner->edge_count);
  Tensor inner_grads[1] = {slice};
  inner->backward(inner, inner_grads, inner_result.data());
  if (mode_on(kStrongZeros)) keep_zeros(inner, inner_grads, inner_result.data());
  for (int i = 1; i < inner->edge_count; ++i) result[i] = std::move(inner_result[i]);
  if (!n->edges[0].node) return;
  Tensor into = inner_result[0] ? inner_result[0] : fresh_zeros(slice.shape(), slice.dtype());
  if (is_complex(into.dtype()) && !is_complex(slice.dtype())) into = op<"real">(into);
  if (into.dtype() != slice.dtype()) into = op<"_to_copy">(into, slice.dtype());
  into = op<"expand">(into, slice.shape());
  if (w.turned) into = op<"clone">(as_turned(into, w.turned));
  if (!shared.counts) {
    result[0] = put(whole, into, w);
    return;
  }
  Tensor added = op<"_restride">(into, w.strides, w.at, whole.shape(), whole.strides(), 0, false);
  result[0] = op<"where">(shared.covered, 0, whole).tensor() + added;
}

// A base that was given other memory (`.data =`, set_, resize_) has nothing to do with the views of
// its old one any more.
bool parted(const Tensor& view) { return view->storage != view->base->storage; }

[[noreturn]] void refuse_by_creation(const Tensor& t, const char* modified) {
  std::string message;
  bool unrecorded = t.has(kNoGradView) || t.has(kInferenceView);
  std::string output =
      t->grad_fn ? text("Output ", t->output_nr, " of ", t->grad_fn->name) : std::string();
  if (unrecorded) {
    bool no_grad = t.has(kNoGradView);
    const char* mode = no_grad ? "no_grad" : "inference_mode";
    message = text(
        output.empty() ? "A view was" : output + " is a view of a view which was", " created in ",
        no_grad ? "no_grad" : "inference", " mode and ", modified, " modified inplace ",
        no_grad ? "with grad mode enabled" : "in normal mode",
        ". Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
        "your code by moving both the view and the inplace either both inside the ",
        mode,
        " block (if you don't want the inplace to be tracked) or both outside (if you want "
        "the inplace to be tracked).");
  } else {
    message = text(output.empty() ? "Output of a function" : output, " is a view and ", modified,
                   " modified inplace. ");
    message +=
        t.has(kMultiView)
            ? "This view is the output of a function that returns multiple views. Such "
              "functions do not allow the output views to be modified inplace. You should "
              "replace the inplace operation by an out-of-place one. (fix: change the tensor "
              "itself through an index: x[i].mul_(2) instead of `for r in x: r.mul_(2)`; for "
              "split or chunk, x[a:b].mul_(2))"
            : "This view was created inside a custom Function (or because an input was "
              "returned as-is) and the autograd logic to handle view+inplace would override "
              "the custom backward associated with the custom Function, leading to incorrect "
              "gradients. This behavior is forbidden. You can fix this by cloning the output "
              "of the custom Function.";
  }
  runtime_error(message);
}

}  // namespace

bool copied_window(const Node* n, CopiedWindow* out) {
  if (n->backward != copy_slices_backward || n->released) return false;
  const Value& inner = n->saved[kInner].value;
  if (inner.is_none()) return false;
  *out = {n->saved[kShape].value.ints(),       n->saved[kStrides].value.ints(),
          n->saved[kBaseStrides].value.ints(), n->saved[kAt].value.integer(),
          n->saved[kType].value.dtype(),       reinterpret_cast<Node*>(inner.python())};
  return true;
}

Tensor make_view(const Tensor& t, Span shape, Span strides, int64_t offset) {
  return make_view_as(t, shape, strides, offset, t.dtype());
}

Tensor make_view_as(const Tensor& t, Span shape, Span strides, int64_t offset, DType dtype) {
  Tensor v = on_storage(t->storage, shape, strides, offset, dtype);
  // Real numbers have no conjugate: who sees a complex tensor as those turns signs itself.
  v->flags |= t->flags & (dtype == t.dtype() ? kData | kPending : kData | kNegative);
  if (t.has(kInference)) {  // an inference tensor of its own: nothing tracks views of those
    v.set(kInference);
    return v;
  }
  TensorObject* base = t->base ? t->base : t.get();
  Py_INCREF(base);
  v->base = base;
  v->view_version = t->storage->version;
  if (grad_enabled()) {
    v->flags |= t->flags & kCreation;
    return v;
  }
  v.set(mode_on(kInferenceOn) ? kInferenceView : kNoGradView);
  // As in PyTorch, a view requires grad when its base does, recorded or not.
  if (needs_grad(base) && is_differentiable(dtype)) v.set(kRequiresGrad);
  return v;
}

uint16_t turned_in(const Tensor& view, const Tensor& base) {
  auto turned = static_cast<uint16_t>(view.pending() ^ base.pending());
  if (!base.has(kConjugate) || is_complex(view.dtype())) return turned;
  // Parts of a conjugate: imaginary ones have the other sign there, and stand at odd places.
  for (int i = 0; i < view.ndim(); ++i) {
    if (view.size(i) > 1 && view.stride(i) % 2)
      runtime_error(
          "real and imaginary parts of a tensor whose conjugate bit is set are seen as "
          "one tensor, of strides ",
          view.strides(), ". fix: use resolve_conj() first");
  }
  const bool imaginary = (view->data - base->data) / static_cast<int64_t>(view.itemsize()) % 2;
  return static_cast<uint16_t>((turned & kNegative) ^ (imaginary ? kNegative : 0));
}

Tensor as_turned(Tensor t, uint16_t which) {
  if (which & kConjugate) t = op<"conj">(t);
  if (which & kNegative) t = op<"_neg_view">(t);
  return t;
}

Tensor unshared(Tensor view) {
  view->flags &= static_cast<uint16_t>(~kCreation);
  Py_XDECREF(std::exchange(view->base, nullptr));
  return view;
}

namespace {

void refuse_inference_tensor(const Tensor& t, const char* what) {
  if (t.has(kInference) && !mode_on(kInferenceOn)) {
    runtime_error(
        "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a "
        "clone to get a normal tensor before doing inplace update. (",
        what, " on a tensor of shape ", t.shape(), ")");
  }
}

void refuse_unwritable(const Tensor& t, const char* what) {
  refuse_inference_tensor(t, what);
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
  if (t.is_view()) {
    Tensor base = Tensor::borrow(t->base);
    if (parted(t)) return;
    if (t->flags & kCreation) refuse_by_creation(t, "is being");
    if (base.is_leaf() && (base.requires_grad() || t.requires_grad())) {
      runtime_error(
          "a view of a leaf Variable that requires grad is being used in an in-place operation. (",
          what, " on a view of shape ", t.shape(), " of a leaf of shape ", base.shape(),
          "; fix: clone the leaf first, or wrap the change in `with no_grad():`)");
    }
    if (!shows_elements(t.dtype(), base.dtype())) {
      runtime_error("a ", t.dtype(), " view of a ", base.dtype(),
                    " tensor is being modified inplace while gradients are recorded (", what,
                    "), which is not supported; fix: build the tensor from its parts instead");
    }
    return;
  }
  if (t.requires_grad() && t.is_leaf()) {
    runtime_error("a leaf Variable that requires grad is being used in an in-place operation. (",
                  what, " on a leaf of shape ", t.shape(),
                  "; fix: use the out-of-place form, or wrap the change in "
                  "`with no_grad():`)");
  }
}

}  // namespace

void refuse_captured(const Tensor& t, const char* what) {
  if (transform_depth(t->storage->born) >= transform_depth(t_birth)) [[likely]]
    return;
  if ((t->base ? t->base : t.get())->flags & kArgument) return;
  runtime_error(
      "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
      "in-place operation (",
      what, ") that would mutate a captured Tensor (of shape ", t.shape(),
      "): it was made outside the function, and would keep a history that ends with the "
      "transform.\n  fix: hand the tensor to the function and return the new one, or change a "
      "clone() made inside");
}

void check_inplace(const Tensor& t, bool recording, const char* what) {
  refuse_unwritable(t, what);
  if (recording) refuse_captured(t, what);
  if (grad_enabled()) refuse_unrecordable(t, recording, what);
  if (recording && t.has(kData)) t->storage->counts_data = true;
  if (t_watch_changes) saved_hooks.before_change(t);
}

void check_new_geometry(const Tensor& t, bool recording, const char* what) {
  refuse_inference_tensor(t, what);
  if (grad_enabled()) refuse_unrecordable(t, recording, what);
}

void bump_version(const Tensor& t) {
  refuse_recording("memory is changed by something else than an op");
  if (t_recorder && !mode_on(kCaptured)) t_recorder->changed_aside(t);
  log_change(t.get());
  if (t.has(kData) && !t->storage->counts_data) return;
  ++t->storage->version;
  t->storage->changed = SourceLine::here();
  if (!t.is_view() || !parted(t)) return;
  ++t->base->storage->version;
  t->base->storage->changed = t->storage->changed;
}

void rebase_history(const Tensor& t, Node* node) {
  set_meta(node, 0, t);
  if (!t.is_view() || parted(t)) {
    change_history(t, node, 0);
    return;
  }
  Tensor base = Tensor::borrow(t->base);
  Edge base_edge = gradient_edge(base.get());
  Node* slices = new_node("CopySlices", copy_slices_backward, node->edge_count, kSlots);
  Window w = view_window(t, base);
  slices->saved[kShape].value = w.shape;
  slices->saved[kStrides].value = w.strides;
  slices->saved[kAt].value = w.at;
  slices->saved[kType].value = w.dtype;
  slices->saved[kTurned].value = int64_t{w.turned};
  slices->saved[kInner].value = Value::object(reinterpret_cast<PyObject*>(node));
  slices->saved[kBaseStrides].value = Dims(base.strides());
  slices->edges[0] = base_edge;
  for (int i = 1; i < node->edge_count; ++i) {
    slices->edges[i] = node->edges[i];
    Py_XINCREF(slices->edges[i].node);
  }
  set_meta(slices, 0, base);
  change_history(base, slices, 0, t.has(kHeld) ? 0 : 1);
  Py_DECREF(slices);
  refresh_view_history(t.get());
}

void refresh_view_history(TensorObject* view) {
  Tensor t = Tensor::borrow(view), base = Tensor::borrow(view->base);
  if (!base.requires_grad()) return;
  // Bytes of another dtype have no derivative, and a window that counts in them means nothing in
  // elements of the base.
  bool other = t.dtype() != base.dtype() && !is_parts_of(t.dtype(), base.dtype()) &&
               !is_parts_of(base.dtype(), t.dtype());
  if (parted(t) || other) {
    t->view_version = t->storage->version;
    return;
  }
  // Several views of one op can be taken from the base again; PyTorch refuses them too.
  bool of_function = t->grad_fn && is_function_node(t->grad_fn);
  if ((t->flags & kCreation & ~kMultiView) || (t.has(kMultiView) && of_function))
    refuse_by_creation(t, "its base or another view of its base has been");
  GradMode on(true);
  Tensor fresh = look(base, view_window(t, base));
  change_history(t, fresh->grad_fn, fresh->output_nr);
}

}  // namespace adjoint
