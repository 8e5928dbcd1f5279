// One element of each run along an axis, by its rank: what kthvalue and median share.
#pragma once
#include "dispatch/op.h"
#include "kernels/index/sorting.h"

namespace adjoint {

// The value and its place, with an axis of one element where the runs were. Runs have elements.
Tensors picked_along(const Tensor& t, int axis, Pick pick, int64_t k);

}  // namespace adjoint
