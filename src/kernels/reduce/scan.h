// Scans along an axis (running sums, products, maxima) and searches for the place of an extremum.
// Memory is contiguous and seen as outer x n x inner; the scan runs along n.
#pragma once
#include <cstdint>

#include "kernels/kernel.h"

namespace adjoint::scan {

struct Shape {
  int64_t outer, n, inner;
};

enum Kind : uint8_t { Sum, SumFromEnd, Prod, LogSumExp };

// Floats run in double precision and round once per element. Floats, complex numbers, and but for
// LogSumExp Int64.
void run(Kind kind, DType dtype, const char* in, char* out, Shape s);

// The largest (or smallest) so far and its last place; NaN wins and stays. Any real dtype but
// 16-bit floats.
void running_extremum(bool largest, DType dtype, const char* in, char* out, int64_t* index,
                      Shape s);

// The first place of the largest (or smallest) along n, the first NaN if there is one; one per
// outer x inner. n > 0; any real dtype but 16-bit floats.
void find_extremum(bool largest, DType dtype, const char* in, int64_t* index, Shape s);

}  // namespace adjoint::scan
