// The tangents of a tensor: finding them (a view's from its base), attaching, writing in place.
// Note [Tangents of views] in graph/transformed.h has the idea. Read next: dual.cpp.
#pragma once
#include "dispatch/transformed_calls.h"
#include "graph/transformed.h"

namespace adjoint {

// May `t` have a tangent, its own or its base's? A quick look.
inline bool may_have_tangent(const TensorObject* t) {
  return (t->flags & kTransformed) || (t->base && (t->base->flags & kTransformed));
}
// The levels at which `t` has a tangent that this thread sees, as bits of t_levels.
uint64_t tangent_levels(const Tensor& t);
// The tangent of `t` at a level; undefined where there is none.
Tensor tangent_of(const Tensor& t, Level level);
// Gives `t` a tangent of its shape and dtype; undefined says that it has none, whatever its base
// has.
void set_tangent(const Tensor& t, Level level, Tensor tangent);
// A tangent with the shape and dtype of `t`.
Tensor fit_tangent(Tensor tangent, const Tensor& t);
// Does the tangent lie in its memory as `t` does in its own?
bool is_laid_out_as(const Tensor& t, const Tensor& tangent);
// The tangent moved to where `t`'s elements lie in their memory, in memory of the same size. Elements
// that share a place may have tangents that differ: those of such a tensor are dense instead.
Tensor laid_out_as(const Tensor& t, const Tensor& tangent);
// The same for the tangent that `t` has: before a view of `t` is made.
void lay_out_tangent(const Tensor& t, Level level);
// Memory as large as that of `t`, where the elements of a tangent lie in the places of t's elements;
// those that share a place count equally there, as in the transpose of as_strided.
Tensor in_memory_of(const Tensor& t, const Tensor& tangent);
// Raises if a change of `t` in place would change elements whose tangents are not laid out as they
// are, and so would not change with them.
void refuse_change(const Tensor& t, Level level, const char* name);
// Changes the tangent of `t` in place, and with it those of its base and of other views.
void write_tangent(const Tensor& t, Level level, Tensor tangent);

// The same memory and history, with only the tangents outside `level`: `t` itself if it has no
// others.
Tensor stripped(const Tensor& t, Level level);
// The same in any case as a second header.
Tensor stripped_alias(const Tensor& t, Level level);
}  // namespace adjoint
