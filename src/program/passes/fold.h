// What a program computes from nothing is computed once, when it is made: an identity matrix, whose
// columns a Jacobian or Hessian is taken along, is zeros and a fill of their diagonal.
#pragma once
#include "program/program.h"

namespace adjoint {

// Makes constants of tensors that no input goes into, and of what follows from those alone, if nobody
// outside gets to see them and they are small enough to be kept.
void fold(Program& p);

}  // namespace adjoint
