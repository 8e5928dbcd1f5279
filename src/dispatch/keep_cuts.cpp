// What ops owe to explanations. Read keep_cuts.h first.
#include "dispatch/keep_cuts.h"

#include <algorithm>
#include <string_view>

#include "dispatch/operands.h"
#include "graph/hidden_reads.h"
#include "graph/intermediate.h"
#include "graph/transformed.h"

namespace adjoint {

namespace {

CutReason reason_now(const Op& op, const TensorObject* out) {
  if (mode_on(kInferenceOn)) return CutReason::Inference;
  if (!grad_enabled()) return CutReason::NoGrad;
  if (!is_differentiable(out->dtype)) return CutReason::NotDifferentiable;
  return op.differentiable() ? CutReason::NotDifferentiable : CutReason::NoDerivative;
}

const char* called(const Op& op) { return op.facts.called ? op.facts.called : op.name.c_str(); }

// Whether a custom forward computes `out` from what it was not given. Notes operands whose
// derivative would have been needed.
bool note_reads(const Op& op, const Value* args, const Value& out) {
  if (!op.differentiable()) return false;
  if (out.is_tensor() && !is_differentiable(out.object()->dtype)) return false;
  bool reads = !grad_enabled(), hidden = false, changed = false;
  any_tensor(op, args, [&](TensorObject* t, int i) {
    bool written = out.is_tensor() && out.object() == t;
    changed |= written && t->storage->version;  // not a temporary whose memory is used again
    if (op.edge_of[i] < 0) return false;
    if (!needs_grad(t))
      hidden |= t->cut && t->cut->hidden;
    else if (reads && !written)
      hidden |= t_forward_reads->note(t, op.name.c_str());
    return false;
  });
  if (hidden && (changed || g_transformed || mode_on(kNoCuts))) t_forward_reads->lose_track();
  return hidden;
}

// For a view that was written into: what is read next is likely its base.
void mark_base(TensorObject* view) {
  if (!view->base->cut && !needs_grad(view->base)) pass_cut(view->base, view->cut);
}

bool is_operand(const Op& op, const Value* args, const TensorObject* out) {
  return any_tensor(op, args, [&](TensorObject* t, int) { return t == out; });
}

}  // namespace

bool any_cut(const Op& op, const Value* args) {
  return any_tensor(op, args, [](TensorObject* t, int) { return t->cut && !needs_grad(t); });
}

void mark_unrecorded(const Op& op, const Value* args, const Value& out) {
  bool hidden = false;
  if (t_forward_reads) [[unlikely]]
    hidden = note_reads(op, args, out);
  if (mode_on(kNoCuts)) return;
  TensorObject* source = nullptr;
  Cut* cut = nullptr;
  any_tensor(op, args, [&](TensorObject* t, int) {
    if (needs_grad(t)) return source = t, true;
    if (t->cut && (!cut || (t->cut->in_forward && !cut->in_forward))) cut = t->cut;
    return false;
  });
  if (!source && !cut) return;
  auto mark = [&](TensorObject* t) {
    if (t == source || needs_grad(t)) return;  // returned as it came, or changed in place
    // Ops without a rule may be made of others, which have marked the result; what they did not
    // mark depends on no value (ones_like).
    bool was_hidden = t->cut && t->cut->hidden;
    bool was_intermediate = t->cut && t->cut->in_forward;
    if (source)
      mark_cut(t, source, reason_now(op, t), called(op));
    else
      pass_cut(t, cut);
    if (t_in_function_forward) [[unlikely]] {
      bool smooth = is_differentiable(t->dtype);
      bool intermediate = op.differentiable() ? t->cut->in_forward : was_intermediate;
      // A step function of its operands is a constant to derivatives, like a mask: as good as
      // recorded.
      set_forward_facts(t, intermediate && smooth && !op.facts.flat,
                        (hidden || was_hidden) && smooth);
    }
    if (t->base && is_operand(op, args, t)) mark_base(t);
  };
  if (out.is_tensor()) mark(out.object());
  if (out.is_tensors()) {
    for (const Tensor& t : out.tensors()) {
      if (t) mark(t.get());
    }
  }
}

void mark_written(const Op& op, const Value* args, TensorObject* out) {
  mark_unrecorded(op, args, Value(Tensor::borrow(out)));
  if (!out->cut) return;
  if (out->base) mark_base(out);
  if (t_forward_reads && out->cut->hidden) t_forward_reads->lose_track();
}

void keep_cuts(Node* node, const Op& op, const Value* args) {
  any_tensor(op, args, [&](TensorObject* t, int i) {
    if (t->cut && !needs_grad(t)) {
      extra_of(node).cuts.emplace_back(i, CutRef(t->cut));
      if (t_recorded_function) watch_operand(node, t);
    }
    return false;
  });
}

}  // namespace adjoint
