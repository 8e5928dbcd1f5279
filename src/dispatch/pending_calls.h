// Calls of ops with operands whose sign is pending: Note [Pending signs] in tensor/tensor.h. All
// forwards are run by one of the two functions here, so this is the one place that resolves
// operands: an op gets copies that hold what its operands show, unless it is a view, is written with
// other ops, or says that it knows such operands (`.takes_pending()`).
#pragma once
#include "dispatch/op.h"
#include "dispatch/record_node.h"

namespace adjoint {

// What `t` shows, without history: itself if its memory holds just that, otherwise a copy.
Tensor resolved(const Tensor& t);

// The same for a result that PyTorch gives the conjugate bit: a copy that has it.
Tensor shown_as_conjugate(const Tensor& t);

// The operands of a call as its op wants them; `c.kept` comes back.
Value compute_resolved(Call& c);

// c.op.forward.
inline Value compute(Call& c) {
  if (g_pending) [[unlikely]]
    return compute_resolved(c);
  return c.op.forward(c);
}

// The same for a change of `self`, which holds the new values then.
void compute_into_resolved(Call& c, const Tensor& self);
inline void compute_into(Call& c, const Tensor& self) {
  if (g_pending) [[unlikely]]
    return compute_into_resolved(c, self);
  finish_inplace(self, c.op.forward(c), c.op);
}

}  // namespace adjoint
