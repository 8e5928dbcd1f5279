// Two functions of one argument that take little more time together than one of them alone: sin and
// cos, which share their reduction, gelu and its derivative. Read kernel.h first; next:
// kernels/isa/sin_and_cos.cpp, kernels/isa/gelu_and_slope.cpp.
#pragma once
#include "kernels/kernel.h"

namespace adjoint {

// `product` is x * second(y) as one kernel, which gradients of the first are made of; `second` may be
// null, where nobody wants it by itself. All give the same bits this way and by themselves.
struct KernelPair {
  const Kernel *first, *second, *product;
  Loop loop[kDTypes] = {};  // p[0] and p[1] are the outputs, p[2] is the input
};
const KernelPair* kernel_pairs(int* count);

// Called by static registrars before main.
void register_pair(Isa isa, const char* first, const char* second, const char* product, DType dtype,
                   Loop loop);

struct PairRegistrar {
  PairRegistrar(Isa isa, const char* first, const char* second, const char* product, DType dtype,
                Loop loop) {
    register_pair(isa, first, second, product, dtype, loop);
  }
};

}  // namespace adjoint
