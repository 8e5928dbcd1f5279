// Read pending_calls.h first.
#include "dispatch/pending_calls.h"

#include "dispatch/operands.h"
#include "dispatch/program_recorder.h"

namespace adjoint {
namespace {

bool takes_pending(const Op& op) { return op.is_view || !op.batch || op.facts.takes_pending; }

bool any_pending(const Call& c) {
  if (c.out && is_pending(c.out.get())) return true;
  return any_tensor(c.op, c.args, [](TensorObject* t, int) { return is_pending(t); });
}

// A copy of an operand. An op without a derivative may be written with others that have one: what it
// is given keeps its history then.
Tensor copied_for(const Op& op, const Tensor& t) {
  return op.differentiable() ? resolved(t) : adjoint::op<"clone">(t).tensor();
}

// The arguments with what they show. An operand that stands in two places is copied once: ops may
// ask whether two are the same.
struct Resolved {
  Value args[kMaxArguments];

  explicit Resolved(const Call& c) {
    std::vector<std::pair<Tensor, Tensor>> copies;
    auto copy_of = [&](const Tensor& t) {
      if (!is_pending(t.get())) return t;
      for (const auto& [from, copy] : copies) {
        if (from.is(t)) return copy;
      }
      return copies.emplace_back(t, copied_for(c.op, t)).second;
    };
    for (int i = 0; i < c.op.argument_count; ++i) args[i] = map_tensors(c.args[i], copy_of);
  }
};

}  // namespace

Tensor resolved(const Tensor& t) {
  if (!is_pending(t.get())) return t;
  Uncaptured quiet;
  GradMode off(false);
  Tensor copy = empty_like(t, t.dtype());
  copy_into(copy, t);
  return copy;
}

Tensor shown_as_conjugate(const Tensor& t) {
  Uncaptured quiet;
  GradMode off(false);
  Tensor copy = empty_like(t, t.dtype());
  copy.turn_sign(kConjugate);
  copy_into(copy, t);
  return copy;
}

Value compute_resolved(Call& c) {
  if (takes_pending(c.op) || !any_pending(c)) return c.op.forward(c);
  Resolved plain(c);
  Call inner{c.op, plain.args, c.out};
  Value out = c.op.forward(inner);
  c.kept = std::move(inner.kept);
  return out;
}

void compute_into_resolved(Call& c, const Tensor& self) {
  if (!any_pending(c)) return finish_inplace(self, c.op.forward(c), c.op);
  Resolved plain(c);
  Tensor changed = is_pending(self.get()) ? plain.args[0].tensor() : self;
  Call inner{c.op, plain.args, changed};
  finish_inplace(changed, c.op.forward(inner), c.op);
  c.kept = std::move(inner.kept);
  if (is_pending(self.get())) copy_into(self, changed);
}

}  // namespace adjoint
