// Elementwise functions of two to five float32 or float64 arguments, and the fused derivatives that
// backward rules call so that a common backward is one pass over memory. One line each.
// How the lines expand is in kernels/isa/kernel_lines.h, what they call in math/*.h. Beside a line: the largest
// error seen in float32 and float64, in ulp (docs/reference/accuracy.md says how).
#include "kernels/isa/kernel_lines.h"
#include "kernels/isa/math/basic.h"
#include "kernels/isa/math/divide.h"
#include "kernels/isa/math/erf.h"
#include "kernels/isa/math/inverse_trig.h"
#include "kernels/isa/math/activations.h"
#include "kernels/isa/math/pow.h"
#include "kernels/isa/math/trig.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

KERNEL2_FLOAT(maximum, maximum(x, y))
KERNEL2_FLOAT(minimum, minimum(x, y))
KERNEL2_FLOAT(fmax, fmax(x, y))
KERNEL2_FLOAT(fmin, fmin(x, y))
KERNEL2_FLOAT(copysign, with_sign_of(x, y))
KERNEL2_FLOAT(nextafter, nextafter(x, y))
KERNEL2_FLOAT(heaviside, heaviside(x, y))
KERNEL2_FLOAT(fmod, fmod(x, y))
KERNEL2_FLOAT(remainder, remainder(x, y))
KERNEL2_FLOAT(floor_divide, floor_divide(x, y))
KERNEL2_FLOAT(trunc_divide, trunc(x / y))
KERNEL2_WIDE_PAIR(pow, pow_of_float(x, y), pow(x, y))  // 0.5, 1.2
KERNEL2_FLOAT(atan2, atan2(x, y))                      // 2.1, 2.0
KERNEL2_WIDE(hypot, hypot(x, y))                       // 0.5, 1.2
KERNEL2_FLOAT(logaddexp, logaddexp(x, y))
KERNEL2_FLOAT(logaddexp2, logaddexp2(x, y))
KERNEL2_FLOAT(xlogy, xlogy(x, y))  // 1.7, 1.7
KERNEL2_FLOAT(leaky_relu, x > 0 ? x : x * y)
KERNEL3_FLOAT(softplus, softplus(x, y, z))

// Derivatives: the incoming gradient first, then what the forward kernel saw or made.
KERNEL2_FLOAT(mul_cos, x* cos(y))  // 1.6, 1.6
KERNEL2_FLOAT(mul_neg_sin, -x* sin(y))
KERNEL2_FLOAT(tanh_grad, x * (1 - y * y))
KERNEL2_FLOAT(sigmoid_grad, x * (1 - y) * y)
KERNEL2_FLOAT(relu_grad, y <= 0 ? V{} : x)
KERNEL2_FLOAT(gelu_grad, gelu_grad(x, y))
KERNEL2_FLOAT(gelu_tanh_grad, gelu_tanh_grad(x, y))
KERNEL2_FLOAT(silu_grad, silu_grad(x, y))
KERNEL3_FLOAT(leaky_relu_grad, y > 0 ? x : x * z)
KERNEL4_FLOAT(softplus_grad, softplus_grad(w, x, y, z))
KERNEL5_FLOAT(elu_grad, w > 0 ? v * x : v * (y * exp(w * z)))

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
