// The loops of the random numbers in which a fused multiply-add decides the last bit.
// PyTorch's kernels are compiled with FMA, so equality with them needs it too. These loops are
// built once with the processor's own instruction and once, for processors without it, with libm's
// fma: the numbers are the same everywhere.
#pragma once
#include <cstdint>

namespace adjoint::random {

// x[i] = x[i] * scale + shift, rounded once.
void scale_shift(float* x, int64_t n, float scale, float shift);
void scale_shift(double* x, int64_t n, double scale, double shift);

// Box-Muller in blocks of 16: uniforms in, normals out, in place; n is a multiple of 16. The first
// eight of a block are radii, the last eight angles, of eight pairs.
void box_muller(float* x, int64_t n, float mean, float std);
void box_muller(double* x, int64_t n, double mean, double std);

}  // namespace adjoint::random
