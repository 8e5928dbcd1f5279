// Elementwise functions of one float32 or float64 argument, one line each.
// How the lines expand is in kernels/isa/kernel_lines.h, what they call in math/*.h. Beside a line: the largest
// error seen in float32 and float64, in ulp (docs/reference/accuracy.md says how).
#include "kernels/isa/kernel_lines.h"
#include "kernels/isa/math/basic.h"
#include "kernels/isa/math/erf.h"
#include "kernels/isa/math/erfinv.h"
#include "kernels/isa/math/exp.h"
#include "kernels/isa/math/gamma.h"
#include "kernels/isa/math/hyperbolic.h"
#include "kernels/isa/math/inverse_trig.h"
#include "kernels/isa/math/log.h"
#include "kernels/isa/math/activations.h"
#include "kernels/isa/math/trig.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

KERNEL1_FLOAT(positive, x)
KERNEL1_FLOAT(neg, -x)
KERNEL1_FLOAT(abs, abs(x))
KERNEL1_FLOAT(sign, sign(x))
KERNEL1_FLOAT(square, x* x)
KERNEL1_FLOAT(reciprocal, 1 / x)
KERNEL1_FLOAT(sqrt, sqrt(x))
KERNEL1_FLOAT(rsqrt, 1 / sqrt(x))  // 1.5, 1.5
KERNEL1_FLOAT(floor, floor(x))
KERNEL1_FLOAT(ceil, ceil(x))
KERNEL1_FLOAT(round, round(x))
KERNEL1_FLOAT(trunc, trunc(x))
KERNEL1_FLOAT(frac, x - trunc(x))
KERNEL1_FLOAT(relu, relu(x))

KERNEL1_FLOAT(exp, exp(x))                  // 1.0, 0.9
KERNEL1_FLOAT(exp2, exp2(x))                // 0.9, 1.0
KERNEL1_FLOAT(expm1, expm1(x))              // 1.6, 1.9
KERNEL1_FLOAT(log, log(x))                  // 0.8, 0.8
KERNEL1_FLOAT(log2, log2(x))                // 0.7, 0.7
KERNEL1_FLOAT(log10, log10(x))              // 0.7, 0.7
KERNEL1_FLOAT(log1p, log1p(x))              // 0.8, 0.8
KERNEL1_FLOAT(sin, sin(x))                  // 1.0, 0.9
KERNEL1_FLOAT(cos, cos(x))                  // 1.0, 0.9
KERNEL1_FLOAT(tan, tan(x))                  // 2.4, 2.2
KERNEL1_FLOAT(asin, asin(x))                // 1.7, 1.7
KERNEL1_FLOAT(acos, acos(x))                // 1.2, 1.1
KERNEL1_FLOAT(atan, atan(x))                // 1.9, 1.7
KERNEL1_FLOAT(sinh, sinh(x))                // 1.7, 1.7
KERNEL1_FLOAT(cosh, cosh(x))                // 1.4, 1.4
KERNEL1_FLOAT(tanh, tanh(x))                // 1.3, 1.3
KERNEL1_FLOAT(asinh, asinh(x))              // 1.7, 1.6
KERNEL1_FLOAT(acosh, acosh(x))              // 2.1, 2.1
KERNEL1_FLOAT(atanh, atanh(x))              // 1.9, 1.6
KERNEL1_FLOAT(sigmoid, sigmoid(x))          // 1.5, 1.5
KERNEL1_FLOAT(log_sigmoid, log_sigmoid(x))  // 1.6, 1.5
KERNEL1_FLOAT(silu, silu(x))                // 2.4, 2.4
KERNEL1_FLOAT(mish, mish(x))
KERNEL1_FLOAT(hardsigmoid, six(x) / 6)
KERNEL1_FLOAT(hardswish, x*(six(x) / 6))
KERNEL1_FLOAT(gelu, gelu(x))            // 4.3, 4.7
KERNEL1_FLOAT(gelu_tanh, gelu_tanh(x))  // 2.6, 2.6
KERNEL1_FLOAT(erf, erf(x))              // 1.3, 1.6
KERNEL1_FLOAT(erfc, erfc(x))            // 3.2, 3.6
KERNEL1_FLOAT(erfinv, erfinv(x))        // 3.8, 2.2
KERNEL1_WIDE(lgamma, lgamma(x))         // 0.5, 2.3
KERNEL1_WIDE(digamma, digamma(x))       // 0.5, 4.6
KERNEL1_WIDE(trigamma, trigamma(x))     // 0.5, 5.0

KERNEL1_PREDICATE(isnan, x != x)
KERNEL1_PREDICATE(isinf, (x == kInfinity) | (x == -kInfinity))
KERNEL1_PREDICATE(isfinite, (x < kInfinity) & (x > -kInfinity))
KERNEL1_PREDICATE(isposinf, x == kInfinity)
KERNEL1_PREDICATE(isneginf, x == -kInfinity)
KERNEL1_PREDICATE(signbit, __builtin_signbit(x) != 0)

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
