// The windows of planes as columns (im2col), and their sums (col2im).
#pragma once
#include "kernels/windows/conv.h"

namespace adjoint {

// x: [samples, channels, h, w]; columns: [samples, channels * kernel, windows]; both contiguous, two
// axes. Axis 0 of the arrays is not used.
struct Unfold {
  int64_t samples = 0, channels = 0;
  Axes3 in, out, kernel, stride, padding, dilation;
};

void unfold_windows(const Unfold& u, DType dtype, const char* x, char* columns);
// Adds up what stands for one element, in the order of taps. Not for 16-bit floats, nor for bool.
void fold_windows(const Unfold& u, DType dtype, const char* columns, char* x);

}  // namespace adjoint
