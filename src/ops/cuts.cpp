// What ops owe to explanations. Read cuts.h first.
#include "cuts.h"

#include "../graph/hidden.h"
#include "../graph/intermediate.h"
#include "operands.h"

namespace adjoint {

namespace {

CutReason reason_now(const Op& op, const TensorObject* out) {
  if (mode_on(kInferenceOn)) return CutReason::Inference;
  if (!grad_enabled()) return CutReason::NoGrad;
  if (!is_differentiable(out->dtype)) return CutReason::NotDifferentiable;
  return op.differentiable() ? CutReason::NotDifferentiable : CutReason::NoDerivative;
}

// Operands that a custom forward computes with: their derivative would have been needed.
void note_reads(const Op& op, const Value* args, const Value& out) {
  if (grad_enabled() || !op.differentiable()) return;
  if (out.is_tensor() && !is_differentiable(out.object()->dtype)) return;
  any_tensor(op, args, [&](TensorObject* t, int i) {
    bool written = out.is_tensor() && out.object() == t;
    if (needs_grad(t) && !written && op.edge_of[i] >= 0) t_forward_reads->note(t, op.name.c_str());
    return false;
  });
}

}  // namespace

bool any_cut(const Op& op, const Value* args) {
  return any_tensor(op, args, [](TensorObject* t, int) { return t->cut && !needs_grad(t); });
}

void mark_unrecorded(const Op& op, const Value* args, const Value& out) {
  if (t_forward_reads) [[unlikely]]
    note_reads(op, args, out);
  if (mode_on(kNoCuts)) return;
  TensorObject* source = nullptr;
  Cut* cut = nullptr;
  any_tensor(op, args, [&](TensorObject* t, int) {
    if (needs_grad(t)) return source = t, true;
    if (t->cut && !cut) cut = t->cut;
    return false;
  });
  if (!source && !cut) return;
  auto mark = [&](TensorObject* t) {
    if (t == source || needs_grad(t)) return;  // returned as it came, or changed in place
    if (!source) return pass_cut(t, cut);
    mark_cut(t, source, reason_now(op, t), op.name.c_str());
  };
  if (out.is_tensor()) mark(out.object());
  if (out.is_tensors()) {
    for (const Tensor& t : out.tensors()) {
      if (t) mark(t.get());
    }
  }
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
