// Convolutions over up to three spatial axes, of float32, float64 and 16-bit floats (computed in
// float32, rounded once; bfloat16 by pairs where the processor can: Note [Pairs of bfloat16]). Three functions, since a convolution is linear in its input and in its
// weight: the result, the gradient of the input (a transposed convolution) and the gradient of the
// weight.
//
//   y[n, o, q]  = sum over c, t of x[n, c, q * stride - padding + t * dilation] * w[o, c, t]
//
// What lies outside of x is zero: `padding` is what stands before it, the size of y says how much
// stands behind. No BLAS and no copy of windows: channels are copied into zero-padded planes, in
// which a tap is an offset (Note [Planes] in conv_geometry.h). Results do not depend on the number
// of threads. None of this needs the GIL; no memory for scratch throws std::bad_alloc.
//
// Read next: conv_geometry.h, conv.cpp, then kernels/isa/conv_tiles.cpp for the loops.
#pragma once
#include <array>
#include <cstdint>

#include "tensor/dtype.h"

namespace adjoint {

using Axes3 = std::array<int64_t, 3>;

struct Conv {
  int64_t samples = 0, groups = 1, ci = 0, co = 0;   // channels of one group
  Axes3 in, out, kernel, stride, padding, dilation;  // missing axes are the first ones, of size 1
};

// A tensor [samples, channels, z, y, x] of any strides, in elements.
struct Planes {
  const char* data = nullptr;
  int64_t sample = 0, channel = 0;
  Axes3 strides = {};
};

// y, dx and dw are contiguous, and so are the weight [groups * co, ci, kernel] and the bias, which
// may be null: one number per channel of the result. No size is zero.
void conv_output(const Conv& c, DType dtype, const Planes& x, const char* w, const char* bias,
                 char* y);
void conv_input(const Conv& c, DType dtype, const Planes& g, const char* w, const char* bias,
                char* dx);
void conv_weight(const Conv& c, DType dtype, const Planes& g, const Planes& x, char* dw);

// The same by plain loops, with int64 as one more dtype: for integers, and for what planes are no
// good for (see conv.cpp).
void plain_conv_output(const Conv& c, DType dtype, const Planes& x, const char* w, const char* bias,
                       char* y);
void plain_conv_input(const Conv& c, DType dtype, const Planes& g, const char* w, const char* bias,
                      char* dx);
void plain_conv_weight(const Conv& c, DType dtype, const Planes& g, const Planes& x, char* dw);

}  // namespace adjoint
