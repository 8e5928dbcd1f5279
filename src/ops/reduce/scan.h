// What running sums (scan.cpp) and running products (products.cpp) share.
#pragma once
#include "dispatch/op.h"
#include "kernels/reduce/scan.h"

namespace adjoint {

// The result of a scan along an axis.
Tensor scanned(scan::Kind kind, Tensor t, int64_t dim, DType result);
// The dtype of a running sum or product, where `dtype` may name it.
DType scan_dtype(const Tensor& t, const Value& dtype);
// In-place forms cannot compute in another dtype than the one they write.
void check_inplace_dtype(const Call& c);
// The running sum from the end: the transpose of cumsum.
Tensor reversed_cumsum(const Tensor& g, const Value& dim);

}  // namespace adjoint
