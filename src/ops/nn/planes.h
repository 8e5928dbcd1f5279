// What pooling ops share: the last axes of a tensor as planes, and results that lie in memory as
// their input does.
#pragma once
#include "dispatch/op.h"
#include "kernels/windows/conv.h"

namespace adjoint {

// One number per axis, those of missing axes first.
Axes3 three_axes(Span d, int64_t fill);
// How many planes of the last `axes` axes there are.
int64_t planes_of(const Tensor& t, int axes);
// The leading axes of `t`, then `size` for the last ones.
Dims with_planes(const Tensor& t, const Dims& size);
inline Dims last_sizes(Span shape, int axes) { return Dims(Span{shape.p + shape.n - axes, axes}); }
// The result in channels-last order if one of the inputs lies so and is not contiguous.
Tensor in_format_of(const Tensor& result, std::initializer_list<Tensor> inputs);

// The dtype that pooling computes `d` in: int64 for integers, float32 for 16-bit floats.
DType pool_dtype(const char* name, DType d, bool integers);

}  // namespace adjoint
