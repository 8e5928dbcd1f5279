// What the drivers of pooling hand to the loops of kernels/isa/pool.cpp: the windows that slide over planes,
// worked out per axis. p[0] of a loop is the job.
#pragma once
#include "kernels/windows/pool.h"

namespace adjoint {

// Along one axis, for window q: the taps inside, where the first of them lies, and the size by which
// means divide; for tap t: the windows in which it is inside. Plain pointers: what a file that is
// built once per instruction set instantiates of the standard library, all builds would share.
struct SlidingAxis {
  const int32_t *first_tap, *end_tap;
  const int64_t* first;  // the element under the first tap that is inside, or -1
  const int64_t* elements;
  const int64_t *begin, *end;  // by tap
};

struct PoolJob {
  const Pool* pool = nullptr;
  const SlidingAxis* axes = nullptr;  // three of them
  int64_t divisor = 0;                // or 0
  int64_t first = 0, end = 0;         // planes
  const char* x = nullptr;
  char* y = nullptr;
  int64_t* index = nullptr;
  char* row = nullptr;  // room for one row of results, of eight bytes each
};

}  // namespace adjoint
