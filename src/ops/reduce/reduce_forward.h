// What the forwards of reductions share: which axes, which dtypes, the result's shape. The loops
// are in kernels/reduce/reduce.h.
#pragma once
#include "dispatch/op.h"
#include "kernels/reduce/reduce.h"

namespace adjoint {

// Axes to reduce as bits. None and an empty list mean all of them; a 0-d tensor has axis 0 and -1.
uint64_t axes_mask(const Value& dims, int ndim);
inline uint64_t all_axes(int ndim) { return ndim >= 64 ? ~uint64_t{0} : (uint64_t{1} << ndim) - 1; }
// How many elements go to one result.
int64_t reduced_count(Span shape, uint64_t mask);
// For what has no value of nothing: raises, in the name of `name`, where no elements go to a result.
// `all` says that no axes were named.
void check_not_empty(const Tensor& t, uint64_t mask, bool all, const char* name);
// The shape of the result.
Dims reduced_shape(Span shape, uint64_t mask, bool keepdim);
// The shape with ones in place of the reduced axes.
inline Dims kept_shape(Span shape, uint64_t mask) { return reduced_shape(shape, mask, true); }

struct Reduction {
  reduce::Kind kind;
  DType accumulator;  // has a loop for `kind`
  DType result;
  bool mean = false;             // divide by the number of elements
  double divisor = 0;            // or by this
  const char* centre = nullptr;  // the data of a result made with `memory_order`
  bool memory_order = false;     // leave the kept axes in the order in which the input lies
};
// Reduces; an empty set of elements gives the identity (NaN for a mean).
Tensor reduce_tensor(const Reduction& r, const Tensor& t, uint64_t mask, bool keepdim);

// What sums and products of `d` are carried out in.
inline DType sum_dtype(DType d) { return is_integral(d) ? DType::Int64 : compute_dtype(d); }

// The gradient of a reduction's result seen from every element that went into it.
Tensor spread(const Tensor& g, Span shape, const Value& dims, bool keepdim);

}  // namespace adjoint
