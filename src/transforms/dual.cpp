// Forward mode: ops on dual tensors.
//
// An op with a derivative runs on the values as always, and is recorded with the dual operands
// themselves, so that what backward reads has its tangents (forward over reverse). Then, for every
// level present, from the outside in, the tangent of the result is computed by the op's rule from
// operands stripped of that level and those inside it, by ops that see the levels further out
// (forward over forward) and are themselves recorded (reverse over forward). An op without a
// derivative of its own either calls ops that have one, or its result has no tangent.
// Read next: tangents.h.
#include "transforms/tangents.h"

#include "dispatch/keep_cuts.h"
#include "dispatch/operands.h"
#include "dispatch/program_recorder.h"
#include "dispatch/record_node.h"
#include "dispatch/saved.h"
#include "dispatch/view.h"
#include "graph/hidden_reads.h"

namespace adjoint {
namespace {

bool has_rule(const Op& op, int i) { return op.edge_of[i] >= 0 && (op.joint || op.grads[i]); }

uint64_t levels_of(const Op& op, const Value* args) {
  uint64_t bits = 0;
  for (int i = 0; i < op.argument_count; ++i) {
    if (has_rule(op, i)) each_tensor(args[i], [&](const Tensor& t) { bits |= tangent_levels(t); });
  }
  return bits;
}

template <class F>
void each_level(uint64_t levels, F&& f) {
  for (size_t i = 0; i < t_levels.size() && levels >> i; ++i) {
    if (levels >> i & 1) f(t_levels[i].level);
  }
}

Tensor zeros_for(const Tensor& t) { return fresh_zeros(t.shape(), t.dtype()); }

// --- the rules -----------------------------------------------------------------------------------
// One application of an op as forward mode sees it, at one level.
struct Application {
  const Op& op;
  const Value* dual;  // the arguments
  Value* args;        // the same, stripped of the level
  Value result;       // stripped too
  Value kept;
  Level level;

  Tensor tangent(int i) const {
    return has_rule(op, i) && dual[i].is_tensor() ? tangent_of(dual[i].tensor(), level) : Tensor();
  }
};

// A product is linear in each factor; a copy, a scatter or a concatenation in all together. What
// the derivative reads tells them apart: that of a product reads the other factor.
bool is_multilinear(const Op& op) {
  uint32_t reads = op.joint_uses.inputs;
  for (const Uses& u : op.uses) reads |= u.inputs;
  for (int i = 0; i < op.argument_count; ++i) {
    if ((reads >> i & 1) && has_rule(op, i)) return true;
  }
  return false;
}

Value product_rule(const Application& a) {
  Tensor sum;
  for (int i = 0; i < a.op.argument_count; ++i) {
    Tensor t = a.tangent(i);
    if (!t) continue;
    Value args[kMaxArguments];
    std::copy_n(a.args, a.op.argument_count, args);
    args[i] = t;
    Tensor part = apply(a.op, args);
    sum = sum ? sum + part : part;
  }
  return sum;
}

Value linear_rule(const Application& a) {
  if (is_multilinear(a.op)) return product_rule(a);
  Value args[kMaxArguments];
  for (int i = 0; i < a.op.argument_count; ++i) {
    bool varies = has_rule(a.op, i);
    if (varies && a.dual[i].is_scalar()) {
      args[i] = 0;
    } else if (varies) {
      args[i] = map_tensors(a.dual[i], [&](const Tensor& x) {
        Tensor t = tangent_of(x, a.level);
        return t ? t : zeros_for(x);
      });
    } else {
      args[i] = a.args[i];
    }
  }
  return apply(a.op, args);
}

Value partial_rule(const Application& a, Context& c) {
  Tensor sum;
  for (int i = 0; i < a.op.argument_count; ++i) {
    Tensor t = a.tangent(i);
    if (!t) continue;
    Tensor part = a.op.grads[i](t, c);
    sum = sum ? sum + part : part;
  }
  return sum;
}

Value tangent_by_rule(Application& a) {
  Call call{a.op, a.args};
  call.kept = a.kept;
  Context c(&call, &a.result);
  if (a.op.tangent) {
    Tensor tangents[kMaxArguments];
    for (int i = 0; i < a.op.argument_count; ++i) tangents[i] = a.tangent(i);
    return a.op.tangent(c, tangents);
  }
  if (a.op.is_linear) return linear_rule(a);
  if (a.op.is_partial) return partial_rule(a, c);
  not_implemented("Trying to use forward AD with ", a.op.full_name,
                  " that does not support it because it has not been implemented yet.");
}

Value tangent_at(const Op& op, const Value* dual, const Value& kept, const Value& out,
                 Level level) {
  Value args[kMaxArguments];
  for (int i = 0; i < op.argument_count; ++i)
    args[i] = map_tensors(dual[i], [&](const Tensor& t) { return stripped(t, level); });
  // A second header, so that what the rule saves makes no circle of the result and its tangent.
  Value result = map_tensors(out, [&](const Tensor& t) { return stripped_alias(t, level); });
  Application a{op, dual, args, std::move(result), kept, level};
  return tangent_by_rule(a);
}

// --- results -------------------------------------------------------------------------------------
Tensor part_of(const Value& tangents, size_t k) {
  if (tangents.is_tensor()) return k == 0 ? tangents.tensor() : Tensor();
  return tangents.is_tensors() && k < tangents.tensors().size() ? tangents.tensors()[k] : Tensor();
}

void attach(const Op& op, const Value* args, const Tensor& out, Tensor tangent, Level level) {
  if (!tangent || !is_differentiable(out.dtype())) return;
  tangent = fit_tangent(std::move(tangent), out);
  bool shared = false;
  each_tensor(op, args, [&](const Tensor& t) {
    Tensor other = tangent_of(t, level);
    shared |= other && other->storage == tangent->storage;
  });
  // Memory of its own, so that changing one value in place changes no other's tangent.
  if (shared && !op.is_view) tangent = adjoint::op<"clone">(tangent);
  set_tangent(out, level, std::move(tangent));
}

// A node that keeps a result for backward keeps an alias, which has the same tangents.
void share_with_saved(const Tensor& out, size_t k) {
  Node* n = out->grad_fn;
  if (!n || !n->op) return;
  const Value& saved = n->output.value;
  if (saved.is_tensor()) share_tangents(saved.tensor(), out);
  if (saved.is_tensors() && k < saved.tensors().size() && saved.tensors()[k])
    share_tangents(saved.tensors()[k], out);
}

bool is_argument(const Op& op, const Value* args, const Value& out) {
  bool any = false;
  each_tensor(op, args,
              [&](const Tensor& t) { any |= out.is_tensor() && out.object() == t.get(); });
  return any;
}

void attach_all(const Op& op, const Value* args, const Value& kept, const Value& out,
                uint64_t levels) {
  Tensors results = out.is_tensors() ? out.tensors() : Tensors{out.tensor()};
  each_level(levels, [&](Level level) {
    if (op.is_view) each_tensor(op, args, [&](const Tensor& t) { lay_out_tangent(t, level); });
    Value tangents = tangent_at(op, args, kept, out, level);
    for (size_t k = 0; k < results.size(); ++k)
      attach(op, args, results[k], part_of(tangents, k), level);
  });
  for (size_t k = 0; k < results.size(); ++k) share_with_saved(results[k], k);
}

// A custom forward sees no tangents, and its jvp knows those of its inputs alone.
void note_hidden_tangents(const Op& op, const Value* args, ForwardReads& reads) {
  for (int i = 0; i < op.argument_count; ++i) {
    if (!has_rule(op, i)) continue;
    each_tensor(args[i], [&](const Tensor& t) {
      Level none = std::exchange(t_tangent_limit, reads.limit());
      if (reads.aside) t_levels.swap(*reads.aside);
      bool any = tangent_levels(t);
      if (reads.aside) t_levels.swap(*reads.aside);
      t_tangent_limit = none;
      if (any) reads.note_tangent(t.get(), op.name.c_str());
    });
  }
}

}  // namespace

bool any_tangent(const Op& op, const Value* args) {
  bool off = t_tangent_limit <= 0;
  if (t_forward_reads && t_forward_reads->limit() > 0 && (off || t_forward_reads->aside))
      [[unlikely]]
    note_hidden_tangents(op, args, *t_forward_reads);
  if (off) return false;
  bool any = false;
  each_tensor(op, args, [&](const Tensor& t) { any |= may_have_tangent(t.get()); });
  return any;
}

// A result that hooks pack is packed before its tangent is known: backward would lose it.
void refuse_packed_result(const Op& op, const Value* args) {
  if (!mode_on(kSavedHooks) || !grad_enabled() || !wants_recording(op, args)) return;
  if (!uses_of(op, args).outputs) return;
  runtime_error(op.name,
                "(): its result carries a tangent and is saved for backward under "
                "saved_tensors_hooks, which would lose the tangent; fix: leave the hooks (or "
                "checkpoint) out of forward mode, or record under no_grad");
}

Value apply_dual(const Op& op, Value* args) {
  refuse_packed_result(op, args);
  Call c{op, args};
  uint64_t levels = levels_of(op, args);
  Value out;
  if (levels) {
    TangentLimit off(0);
    out = run_forward(c);
  } else {
    out = run_forward(c);  // its tangents, if any, come from the ops it calls
  }
  Value kept = c.kept;
  if (grad_enabled() && wants_recording(op, args)) {
    record(c, out);
  } else {
    mark_unrecorded(op, args, out);
  }
  if (levels && !is_argument(op, args, out)) attach_all(op, args, kept, out, levels);
  return out;
}

namespace {

// `self` as it is now: a copy with its history, and copies of its tangents.
Tensor copy_before_change(const Tensor& self) {
  Tensor old = op_clone(self);
  Edge e = gradient_edge(self.get());
  if (e.node) {
    set_history(old, e.node, e.slot);
    Py_DECREF(e.node);
  }
  each_level(tangent_levels(self),
             [&](Level level) { set_tangent(old, level, op<"clone">(tangent_of(self, level))); });
  return old;
}

}  // namespace

Tensor apply_inplace_dual(const Op& op, Value* args) {
  Tensor self = args[0].tensor();
  refuse_packed_result(op, args);
  bool recording = grad_enabled() && wants_recording(op, args);
  std::string name = op.name + "_";
  check_inplace(self, recording, name.c_str());
  if (recording && !is_differentiable(self.dtype())) {
    runtime_error(name, ": a result that requires grad can't be written into a tensor of dtype ",
                  self.dtype());
  }
  uint64_t levels = tangent_levels(self) | levels_of(op, args);
  if (levels & ~tangent_levels(self)) refuse_captured(self, name.c_str());
  each_level(tangent_levels(self), [&](Level level) {
    refuse_change(self, level, name.c_str());
    check_inplace(tangent_of(self, level), false, name.c_str());
  });
  Tensor old = copy_before_change(self);
  Value before[kMaxArguments];
  for (int i = 0; i < op.argument_count; ++i)
    before[i] = map_tensors(args[i], [&](const Tensor& t) { return t.is(self) ? old : t; });
  NodeRef node(recording ? begin_record(op, before) : nullptr);
  Call c{op, args, self};
  {
    TangentLimit off(0);
    run_change(c, self);
  }
  if (recording) {
    keep(node.get(), c.kept);
    rebase_history(self, node.get());
    save_outputs(node.get(), op, before, Value(self));
  } else {
    mark_unrecorded(op, args, Value(self));
  }
  if (!is_differentiable(self.dtype())) return self;
  each_level(levels, [&](Level level) {
    Value tangent;
    if (op.differentiable()) tangent = tangent_at(op, before, c.kept, Value(self), level);
    write_tangent(self, level, tangent.is_tensor() ? tangent.tensor() : zeros_for(self));
  });
  if (recording && node->output.value.is_tensor())
    share_tangents(node->output.value.tensor(), self);
  return self;
}

void refuse_out_of_dual(const Op& op, const Value* args, const Tensor& out) {
  uint64_t levels = tangent_levels(out);
  each_tensor(op, args, [&](const Tensor& t) { levels |= tangent_levels(t); });
  if (!levels) return;
  not_implemented("Trying to use forward AD with ", op.name,
                  "(out=...) that does not support it because it is an out= function; fix: assign "
                  "the result instead");
}

}  // namespace adjoint
