// vmap: ops on batched tensors.
//
// A batched tensor looks like one sample; its `batch` has one more axis in front. An op on batched
// tensors runs once, on the batches, by the batch rule of its block (batch_rules.h); an op that only
// calls other ops needs none; the few left over are looped over, which is said once, by name.
// Note [Derivatives under vmap]: history and tangents belong to the batches, never to the batched
// tensors around them. Samples do not depend on one another, so the gradient of all of them at once
// is the gradient of each; graph, engine and forward mode know nothing of vmap. What is
// differentiated by inside a vmap must be batched there (batched_everywhere).
// Read next: batched.cpp, batch_rules.h.
#pragma once
#include "dispatch/transformed_calls.h"
#include "graph/transformed.h"

namespace adjoint {

// A sample of `batch`, whose first axis belongs to `level`.
Tensor make_batched(const Tensor& batch, Level level);
// The geometry of one sample, for what asks for no values.
Tensor first_sample(const Tensor& batch);
// The innermost level at which `t`, or a tangent of it, is batched; 0 if there is none.
Level batch_level(const Tensor& t);
// `t` with the axis of `level` in front: expanded if it was not batched there.
Tensor explicit_batch(const Tensor& t, Level level, int64_t size);
// `t` without any batched tensor around it is `innermost(t)`. The same with `change` applied to what is inside.
template <class F>
Tensor map_innermost(const Tensor& t, F&& change) {
  Transformed* x = batch_of(t.get());
  if (!x) return change(t);
  Level level = x->batch_level;
  return make_batched(map_innermost(x->batch, change), level);
}
// `t` batched at every vmap that is under way.
Tensor batched_everywhere(Tensor t);

// A tensor that all samples share would receive a value of each of them.
[[noreturn]] void refuse_shared_self(const Op& op);

// Calls the op once per sample and stacks what it returns; says so once.
Value loop_over_samples(const Op& op, Value* args, const int* axes, int64_t size);
[[noreturn]] void refuse_reading_batched(const char* what);

}  // namespace adjoint
