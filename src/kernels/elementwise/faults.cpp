// The flag of faults.h.
#include "kernels/elementwise/faults.h"

namespace adjoint {

namespace {
thread_local bool fault = false;
}  // namespace

void raise_integer_fault() { fault = true; }

bool take_integer_fault() {
  const bool raised = fault;
  fault = false;
  return raised;
}

}  // namespace adjoint
