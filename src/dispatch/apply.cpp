// Running an op: forward, then (if anything needs a gradient) a node. Read op.h first.
#include <optional>

#include "dispatch/anomaly.h"
#include "dispatch/autocast.h"
#include "dispatch/direct.h"
#include "dispatch/keep_cuts.h"
#include "dispatch/checkpoint_cache.h"
#include "dispatch/out_dtype.h"
#include "dispatch/overlap.h"
#include "dispatch/pending_calls.h"
#include "dispatch/profile.h"
#include "dispatch/program_recorder.h"
#include "dispatch/record_node.h"
#include "dispatch/reuse.h"
#include "dispatch/saved.h"
#include "dispatch/sparse_calls.h"
#include "dispatch/transformed_calls.h"
#include "dispatch/view.h"
#include "dispatch/wide_unsigned.h"
#include "tensor/geometry.h"

namespace adjoint {

namespace {

template <class F>
void each_result(const Value& out, F&& f) {
  if (out.is_tensor()) return f(out.object());
  if (!out.is_tensors()) return;
  for (const Tensor& t : out.tensors()) {
    if (t) f(t.get());
  }
}

bool is_argument(const Op& op, const Value* args, const TensorObject* t) {
  for (int i = 0; i < op.argument_count; ++i) {
    if (args[i].is_tensor() && args[i].object() == t) return true;
  }
  return false;
}

// What results owe to the mode they were made in: those of inference mode, and views of which there
// are several.
void mark_creation(const Op& op, const Value* args, const Value& out) {
  each_result(out, [&](TensorObject* t) {
    if (is_argument(op, args, t)) return;
    if (mode_on(kInferenceOn)) {
      if (!t->base && !op.is_view) t->flags |= kInference;
    } else if (t->base && grad_enabled()) {
      t->flags = static_cast<uint16_t>((t->flags & ~kCreation) | kMultiView);
    }
  });
}

// Whether nobody looks at this call (Note [Samples of a tally]), or at anything inside: then a TallyOff is due.
bool is_passed_over(const Op& op, const Value* args) {
  return mode_on(kTallied) && tally_passes_over(op.calls, tally_elements(op, args));
}

// Under autocast, or while calls are timed.
[[gnu::noinline]] Value apply_watched(const Op& op, Value* args) {
  auto applied = [&] {
    return mode_on(kAutocast) ? apply_autocast(op, args) : apply_as_given(op, args);
  };
  if (!(t_modes & kWatched)) return applied();
  if (is_passed_over(op, args)) {
    TallyOff unseen;
    return applied();
  }
  ProfiledScope scope(op, args, false);
  Value out = applied();
  scope.made(out);
  return out;
}

}  // namespace

Value apply(const Op& op, Value* args) {
  if (op.operands) {
    if (TensorObject* out = apply_direct(op, args)) return Tensor::steal(out);
  }
  if (t_modes & (kAutocast | kWatched)) [[unlikely]]
    return apply_watched(op, args);
  return apply_as_given(op, args);
}

// Values that were never written must not decide over a shape, or be told.
static void refuse_values(const Op& op, const Value* args) {
  if (op.facts.by_values && op.facts.by_values(args)) {
    not_implemented("Cannot copy out of meta tensor; no data! (the result of ", op.name,
                    " depends on values)");
  }
}

Value apply_as_given(const Op& op, Value* args) {
  if (g_sparse && any_sparse(op, args)) [[unlikely]]
    return apply_sparse(op, args);
  if (mode_on(kTransforms) || g_transformed) [[unlikely]] {
    if (draws_under_vmap(op)) return apply_random_under_vmap(op, args);
    // Their rules read operands more than once: none is written over.
    bool batched = any_batched(op, args);
    if (batched || any_tangent(op, args)) {
      t_reuse = nullptr;
      return batched ? apply_batched(op, args) : apply_dual(op, args);
    }
  }
  std::optional<OpAnomalyCheck> check;
  if (t_modes & (kAnomaly | kNoValues)) [[unlikely]] {
    if (mode_on(kNoValues)) refuse_values(op, args);
    if (mode_on(kAnomaly)) check.emplace(op, args, false);
  }
  Call c{op, args};
  refuse_wide_unsigned(c);
  Value out = t_checkpoint_cache ? cached_forward(c) : run_forward(c);
  if (op.is_multi_view || mode_on(kInferenceOn)) mark_creation(op, args, out);
  if (grad_enabled() && wants_recording(op, args)) {
    record(c, out);
  } else {
    mark_unrecorded(op, args, out);
  }
  if (check) check->finished(out);
  return out;
}

Value run_forward(Call& c) { return captured() ? t_recorder->forward(c) : compute(c); }

void run_change(Call& c, const Tensor& self) {
  refuse_wide_unsigned(c);
  if (captured()) return t_recorder->change(c, self);
  compute_into(c, self);
  bump_version(self);
}

void finish_inplace(const Tensor& self, const Value& out, const Op& op) {
  if (out.object() == self.get()) return;
  Tensor value = out.tensor();
  if (!(value.shape() == self.shape())) {
    runtime_error("output with shape ", self.shape(), " doesn't match the broadcast shape ",
                  value.shape());
  }
  if (!can_cast(value.dtype(), self.dtype())) {
    runtime_error("result type ", value.dtype(), " can't be cast to the desired output type ",
                  self.dtype(), " (in ", op.name, "_)");
  }
  copy_into(self, value);
}

namespace {

// A pack hook raised when the change was done already: the history stands, but lacks a value.
void mark_unsaved(Node* node, const Op& op) {
  node->output = {Value(text("the output of `", op.name, "_` (", node->line.describe(),
                             ") is needed for its gradient but was not saved: the pack hook "
                             "raised an error when it was recorded")),
                  0};
}

Tensor change_in_place(const Op& op, Value* args) {
  AutocastOff as_given;  // a tensor that is written into has its dtype
  if (g_sparse && any_sparse(op, args)) [[unlikely]]
    return apply_inplace_sparse(op, args);
  if (mode_on(kTransforms) || g_transformed) [[unlikely]] {
    if (draws_under_vmap(op)) return apply_inplace_random_under_vmap(op, args);
    if (any_batched(op, args)) return apply_inplace_batched(op, args);
    if (any_tangent(op, args)) return apply_inplace_dual(op, args);
  }
  std::optional<OpAnomalyCheck> check;
  if (mode_on(kAnomaly)) [[unlikely]]
    check.emplace(op, args, true);
  Tensor self = args[0].tensor();
  bool recording = grad_enabled() && wants_recording(op, args);
  check_inplace(self, recording, (op.name + "_").c_str());
  if (!recording) {
    Call c{op, args, self};
    run_change(c, self);
    mark_unrecorded(op, args, Value(self));
    if (check) check->finished(Value(self));
    return self;
  }
  if (!is_differentiable(self.dtype())) {
    runtime_error(op.name,
                  "_: a result that requires grad can't be written into a tensor of dtype ",
                  self.dtype());
  }
  // The node is made first: its edges and saved values are those of before the change.
  NodeRef node(begin_record(op, args, true));
  Call c{op, args, self};
  run_change(c, self);
  keep(node.get(), std::move(c.kept));
  rebase_history(self, node.get());
  try {
    save_outputs(node.get(), op, args, Value(self));
  } catch (...) {
    mark_unsaved(node.get(), op);
    throw;
  }
  if (check) check->finished(Value(self));
  return self;
}

}  // namespace

Tensor apply_inplace(const Op& op, Value* args) {
  if (!(t_modes & kWatched)) [[likely]]
    return change_in_place(op, args);
  if (is_passed_over(op, args)) {
    TallyOff unseen;
    return change_in_place(op, args);
  }
  ProfiledScope scope(op, args, true);
  Tensor out = change_in_place(op, args);
  scope.made(Value(out));
  return out;
}

namespace {

// An out= of another shape is most likely a mistake, as PyTorch warns.
void resize_out(const Tensor& out, Span shape) {
  if (out.numel() > 0) {
    std::string warning =
        text("An output with one or more elements was resized since it had shape ", out.shape(),
             ", which does not match the required output shape ", shape,
             ". This behavior is deprecated, and in a future PyTorch release outputs will not be "
             "resized unless they have zero elements. You can explicitly reuse an out tensor t by "
             "resizing it, inplace, to zero elements with t.resize_(0).");
    if (PyErr_WarnEx(PyExc_UserWarning, warning.c_str(), 1) < 0) throw PythonError{};
  }
  resize(out, shape);
}

// What is refused of any tensor given as out=, and of the arguments beside it.
void refuse_out(const Op& op, Value* args, const Tensor& out) {
  if (g_sparse && (is_sparse(out) || any_sparse(op, args))) refuse_sparse_out(op);
  if (grad_enabled()) {
    bool any = needs_grad(out.get());
    for (size_t i = 0; i < op.schema.arguments.size(); ++i) any |= needs_grad(args[i]);
    if (any) {
      runtime_error(op.name,
                    "(): functions with out=... arguments don't support automatic differentiation, "
                    "but one of "
                    "the arguments requires grad.");
    }
  }
  if (mode_on(kTransforms) || g_transformed) {
    if (draws_under_vmap(op)) {
      runtime_error("vmap: calling out variants of random operations is not supported (", op.name,
                    "(out=...)); fix: assign the result instead");
    }
    if (is_batched(out) || any_batched(op, args)) {
      runtime_error("vmap: Batching rule not implemented for aten::", op.name,
                    ".out; the fallback path doesn't work on out= or view ops. fix: assign the "
                    "result instead");
    }
    refuse_out_of_dual(op, args, out);
  }
  refuse_shared_out(op, args, out);
  check_inplace(out, false, op.name.c_str());
  refuse_recording("`", op.name, "` writes into out=; fix: assign the result instead");
}

}  // namespace

Value apply_out(const Op& op, Value* args, const Tensor& out) {
  AutocastOff as_given;
  refuse_out(op, args, out);
  check_out_dtype(op, args, out.dtype());
  let_out_decide(op, args, out.dtype());
  std::optional<ProfiledScope> timed;
  std::optional<TallyOff> unseen;
  if (t_modes & kWatched) [[unlikely]] {
    if (is_passed_over(op, args))
      unseen.emplace();
    else
      timed.emplace(op, args, false);
  }
  std::optional<OpAnomalyCheck> check;
  if (mode_on(kAnomaly)) [[unlikely]]
    check.emplace(op, args, true);
  Call c{op, args};
  bool fits = op.facts.fills_out;
  if (op.is_elementwise) {
    Dims shape;
    for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
      if (args[i].is_tensor())
        shape = broadcast_shapes(shape, {args[i].object()->shape, args[i].object()->ndim});
    }
    fits = Span(shape) == out.shape();
  }
  if (fits && !is_pending(out.get())) c.out = out;
  refuse_wide_unsigned(c);
  Value result = compute(c);
  if (!result.is_tensor())
    type_error(op.name, "(): argument 'out' must be a tuple of tensors, not a tensor: it returns ",
               result.is_tensors() ? result.tensors().size() : 0, " results");
  if (!result.tensor().is(out)) check_out_result(op, args, result.tensor().dtype(), out.dtype());
  write_out(out, result.tensor());
  mark_written(op, args, out.get());
  if (check) check->finished(Value(out));
  return Value(out);
}

void apply_outs(const Op& op, Value* args, const Tensors& outs) {
  AutocastOff as_given;
  for (const Tensor& out : outs) refuse_out(op, args, out);
  for (size_t i = 0; i < outs.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (!share_bytes(outs[i].get(), outs[k].get())) continue;
      runtime_error(op.name, "(): unsupported operation: results ", k, " and ", i,
                    " are to be written into the same memory (out= of shapes ", outs[k].shape(),
                    " and ", outs[i].shape(), "). Please clone() one of the tensors.");
    }
  }
  Tensors results;
  {
    GradMode off(false);
    Value given = apply(op, args);
    if (!given.is_tensors() || given.tensors().size() != outs.size()) {
      type_error(op.name, "(): argument 'out' has ", outs.size(),
                 " tensors, which is not what the op returns");
    }
    results = given.tensors();
  }
  for (size_t i = 0; i < outs.size(); ++i)
    check_out_result(op, args, results[i].dtype(), outs[i].dtype());
  for (size_t i = 0; i < outs.size(); ++i) write_out(outs[i], results[i]);
}

void write_out(const Tensor& out, const Tensor& given) {
  if (given.is(out)) return bump_version(out);
  Tensor value = apart(given, out);  // of an op that returns its argument
  if (!(value.shape() == out.shape())) {
    resize_out(out, value.shape());
    // A new place for the result lies in memory as the result does.
    if (!value.contiguous() && is_dense(value.shape(), value.strides()))
      set_geometry(out.get(), value.shape(), value.strides());
  }
  copy_into(out, value);
  bump_version(out);
}

namespace {

// The arguments of a call from C++, the missing ones by default.
struct Completed {
  Value at[kMaxArguments];
  Completed(const Op& op, Value* given, int n) {
    std::move(given, given + n, at);
    for (int i = n; i < op.argument_count; ++i) at[i] = op.schema.arguments[i].default_value;
  }
};

// Ends arguments that were handed over.
struct Ended {
  Value* args;
  int n;
  ~Ended() { std::destroy_n(args, n); }
};

}  // namespace

Value apply_given(const Op& op, Value* given, int n) {
  Ended ended{given, n};
  return op.argument_count == n ? apply(op, given) : apply(op, Completed(op, given, n).at);
}
Tensor apply_given_inplace(const Op& op, Value* given, int n) {
  Ended ended{given, n};
  return apply_inplace(op, Completed(op, given, n).at);
}

}  // namespace adjoint
