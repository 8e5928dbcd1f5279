// What loops over many short rows are told of them: see kernels/isa/short_rows.cpp.
#pragma once
#include <cstdint>

namespace adjoint {

struct RepeatedElements {
  int64_t length;  // of a row
  int64_t step;    // bytes from one element to the next
};

struct SummedRows {
  int64_t length;
  int64_t step;        // bytes from row to row
  double divisor = 0;  // of the sums, unless it is zero
};

}  // namespace adjoint
