// Batch rules for kinds of ops, and what the rules of single ops are written with. A rule runs an
// op on arguments with one more axis in front, where `axes` says so (see BatchRule in dispatch/op.h).
//
// A block names its rule, or has one of its own: `.batch(batch::along)`. Elementwise ops need not
// say anything, and neither do ops without a derivative that are written with others. Read
// batched.h first.
#pragma once
#include "dispatch/op.h"

namespace adjoint::batch {

// --- kinds ---------------------------------------------------------------------------------------
// Operands are lined up, and promoted as samples would be: those from `First` on take part.
template <int First>
Value pointwise_from(Call& c, const int* axes);
inline constexpr BatchRule pointwise = pointwise_from<0>;
// The same without promotion.
Value lined_up(Call& c, const int* axes);
// On the batch as it is: no argument names an axis or a size.
Value as_is(Call& c, const int* axes);
// Axes named by arguments (dim, dims, dim0 ...) are counted behind the batch axis. `Extra` axes
// more than the sample has are counted where the result has them.
template <int Extra>
Value along_with(Call& c, const int* axes);
inline constexpr BatchRule along = along_with<0>;
inline constexpr BatchRule along_new = along_with<1>;
// The transposes of views: axes are those of the whole, whose sizes are given.
Value by_sizes(Call& c, const int* axes);
// Rows along `dim` (argument 1), named by an index that all samples share (argument 2). What is
// brought there (argument 3) has rows too, or is one number.
template <bool Brought>
Value rows_at(Call& c, const int* axes);
inline constexpr BatchRule rows = rows_at<true>;
inline constexpr BatchRule rows_filled = rows_at<false>;
// Once per sample, and says so: there is no other way, or nobody has written it down.
Value each_sample(Call& c, const int* axes);
// Refuses: how large the result is depends on the values, so that samples would not fit together.
Value refuse_by_values(Call& c, const int* axes);

// What a rule is called in op_table(): "own" for one of a single op, "composed" for none.
const char* kind_of(BatchRule rule);

// --- for rules of single ops ---------------------------------------------------------------------
int64_t size(Call& c, const int* axes);
// Argument i with a batch axis in any case.
Tensor whole(Call& c, const int* axes, int i);
inline int sample_ndim(Call& c, const int* axes, int i) {
  return c.tensor(i).ndim() - (axes[i] >= 0);
}
// Axes of length one after the batch axis, so that the sample has `ndim` axes.
Tensor line_up(Tensor t, int ndim);
// Each sample as one row.
Tensor flat_sample(const Tensor& t);
// How many elements of memory a sample of these strides reaches over.
int64_t reach(Span shape, const Dims& strides);

// A reduction of everything, by an op that reduces axes.
template <OpName Along>
Value over_sample(Call& c, const int*) {
  return op<Along>(flat_sample(c.tensor(0)), Dims{1});
}

}  // namespace adjoint::batch
