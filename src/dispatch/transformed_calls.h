// Calls of ops on batched and on dual tensors, as apply.cpp hands them over. They are declared here and
// defined in src/transforms, which is written over ops: dispatch does not know how transforms work.
#pragma once
#include "dispatch/op.h"
#include "graph/transformed.h"

namespace adjoint {

// --- vmap: transforms/batched.h ------------------------------------------------------------------
bool any_batched(const Op& op, const Value* args);
Value apply_batched(const Op& op, Value* args);
Tensor apply_inplace_batched(const Op& op, Value* args);
// Is it random, and is a vmap under way? Then its numbers are drawn as `randomness` says.
bool draws_under_vmap(const Op& op);
Value apply_random_under_vmap(const Op& op, Value* args);
Tensor apply_inplace_random_under_vmap(const Op& op, Value* args);
// How an op batches whose block does not say; null for one that is written with ops, which do.
BatchRule batch_rule_by_kind(const Op& op);
// `t` without any batched tensor around it.
Tensor innermost(const Tensor& t);

// --- forward mode: transforms/dual.cpp -------------------------------------------------------------
// Does an argument have a tangent that this thread sees? To be asked only if g_transformed is not
// zero.
bool any_tangent(const Op& op, const Value* args);
// What apply and apply_inplace do when one has.
Value apply_dual(const Op& op, Value* args);
Tensor apply_inplace_dual(const Op& op, Value* args);
// What apply_out does.
void refuse_out_of_dual(const Op& op, const Value* args, const Tensor& out);
// `to` is the same value as `from`: it gets its tangents too.
void share_tangents(const Tensor& to, const Tensor& from);

}  // namespace adjoint
