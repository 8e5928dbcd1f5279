// One long transform, on contiguous or strided memory. Read plan.h first.
#pragma once
#include "kernels/fft/scratch.h"
#include "kernels/fft/tile.h"

namespace adjoint::fft {

// Element k has its real part at base[k * step], its imaginary part `imag` further on (0: none).
template <class T>
struct Strip {
  T* base;
  int64_t step, imag;
};

// Complex numbers of scratch memory that a Line needs.
template <class T>
int64_t line_scratch(const Line<T>& line);

// `in` and `out` may be the same memory. Runs on the pool if it is free.
template <class T>
void run_line(const Line<T>& line, Strip<const T> in, Strip<T> out, bool inverse, T scale,
              T* scratch, Failed& failed);

}  // namespace adjoint::fft
