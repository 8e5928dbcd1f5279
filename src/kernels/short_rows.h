// What loops over many short rows are told of them: see kernels/isa/short_rows.cpp.
#pragma once
#include <cstdint>

namespace adjoint {

struct RepeatedElements {
  int64_t length;  // of a row
  int64_t step;    // bytes from one element to the next
};

// One operand is repeated along each row.
struct RepeatedOperand {
  int64_t length;  // of a row
  int64_t step;    // bytes from one repeated element to the next
  int64_t row;     // bytes from row to row of the other operand; 0: one row again and again
};

// Fewer rows than are folded (kernels/reduce/reduce.cpp).
struct SummedColumns {
  int64_t rows;
  int64_t step;  // bytes from row to row
};

struct SummedRows {
  int64_t length;
  int64_t step;        // bytes from row to row
  double divisor = 0;  // of the sums, unless it is zero
};

}  // namespace adjoint
