// What the functions of convolutions share: sizes of results, and calls of the three products of
// convolution.cpp.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// Stride, padding, dilation: one number per spatial axis.
struct ConvSteps {
  Dims stride, padding, dilation;
  int64_t groups = 1;
};

// The spatial axes of a tensor [samples, channels, ...].
inline Dims spatial(Span shape) { return Dims(Span{shape.p + 2, shape.n - 2}); }

// y of this spatial size from x and w; x of this size from y and w. The bias may be undefined.
Tensor conv_output_of(const Tensor& x, const Tensor& w, const Value& bias, const Dims& size,
                      const ConvSteps& s);
Tensor conv_input_of(const Tensor& g, const Tensor& w, const Value& bias, const Dims& size,
                     const ConvSteps& s);

}  // namespace adjoint
