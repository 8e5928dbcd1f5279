// Integer division by zero inside a kernel. Kernels neither throw nor trap: they put 0 in the place
// and raise this flag; whoever called the loop turns it into the error the user sees.
#pragma once

namespace adjoint {

// The flag belongs to the thread that ran the loop. Code that spreads a loop over threads takes the
// flag on each of them at the end of its chunk and joins the answers.
void raise_integer_fault();

// Whether a loop on this thread divided by zero since the last call; clears the flag.
bool take_integer_fault();

}  // namespace adjoint
