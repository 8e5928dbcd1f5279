// Moving elements between memory and between dtypes: runs of them with strides, and single scalars.
// The conversion rules are PyTorch's; convert_element.h states them.
// Read next: convert.cpp, isa/convert.cpp for the loops.
#pragma once
#include <complex>
#include <cstdint>

#include "kernels/kernel.h"

namespace adjoint {

// Copies n elements, converting. Strides are in bytes and may be zero or negative. `out` and `in`
// do not overlap unless they are the same memory with the same strides and item size.
void copy_run(char* out, int64_t out_stride, DType to, const char* in, int64_t in_stride,
              DType from, int64_t n);

// Writes n copies of *value, an element of `dtype`, to contiguous memory.
void fill_run(char* out, DType dtype, const void* value, int64_t n);

// Writes one element. A complex value loses its imaginary part in a real dtype.
void store_scalar(DType to, void* out, double value);
void store_scalar(DType to, void* out, int64_t value);
void store_scalar(DType to, void* out, std::complex<double> value);

// Reads one element.
double load_double(DType from, const void* in);
int64_t load_int(DType from, const void* in);
std::complex<double> load_complex(DType from, const void* in);

// The contiguous loop from one dtype to another (p[0] the output, p[1] the input) of the best
// instruction set; null when the dtypes are the same.
Loop conversion(DType to, DType from);

// Called by isa/convert.cpp before main.
void register_conversion(Isa isa, DType to, DType from, Loop loop);

}  // namespace adjoint
