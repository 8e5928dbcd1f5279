// Cuts (graph/cut.h) as ops make and keep them.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// What an op that was not recorded owes its results; `out` is a tensor or a list of tensors.
void mark_unrecorded(const Op& op, const Value* args, const Value& out);
// The same for an `out=` argument.
void mark_written(const Op& op, const Value* args, TensorObject* out);
// What a node owes to operands without history; called when one of them has a cut.
void keep_cuts(Node* node, const Op& op, const Value* args);
bool any_cut(const Op& op, const Value* args);

}  // namespace adjoint
