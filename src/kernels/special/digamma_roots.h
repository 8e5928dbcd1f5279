// digamma next to its negative roots, where the reflection formula cancels.
#pragma once

namespace adjoint::special {

// digamma(x) if x is within 0.07 of one of the first twenty negative roots; `otherwise` if not.
double digamma_near_root(double x, double otherwise);

}  // namespace adjoint::special
