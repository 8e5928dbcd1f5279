// retain_grad() and in-place changes: the request belongs to the tensor, and moves to the node of
// its new value.
#pragma once
#include "graph/node.h"

namespace adjoint {

// Makes `t`, which may have a history already, output `slot` of `n`. Nothing but the caller holds
// so many of the views of `t`.
void change_history(const Tensor& t, Node* n, uint32_t slot, int own_views = 0);

}  // namespace adjoint
