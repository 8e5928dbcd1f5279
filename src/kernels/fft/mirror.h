// The second half of a real signal's spectrum, which is the conjugate of the first seen backwards.
#pragma once
#include <cstdint>

namespace adjoint::fft {

// `spectrum` is contiguous, complex, of this shape. Along axis `last` the elements 0 .. n/2 are
// there; the others are filled in. Bit d of `transformed` is set for axes that were transformed
// (`last` among them): along these, places are seen backwards.
void fill_mirrored(bool is_double, char* spectrum, const int64_t* shape, int ndim, int last,
                   uint64_t transformed);

}  // namespace adjoint::fft
