// Elementwise functions of one float32 or float64 argument, one line each.
// How the lines expand is in isa_lines.h, what they call in math_*.h, the errors in
// docs/accuracy.md.
#include "../isa_lines.h"
#include "../math_basic.h"
#include "../math_erf.h"
#include "../math_erfinv.h"
#include "../math_exp.h"
#include "../math_gamma.h"
#include "../math_hyper.h"
#include "../math_inverse.h"
#include "../math_log.h"
#include "../math_nn.h"
#include "../math_trig.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

KERNEL1_FLOAT(positive, x)
KERNEL1_FLOAT(neg, -x)
KERNEL1_FLOAT(abs, abs(x))
KERNEL1_FLOAT(sign, sign(x))
KERNEL1_FLOAT(square, x* x)
KERNEL1_FLOAT(reciprocal, 1 / x)
KERNEL1_FLOAT(sqrt, sqrt(x))
KERNEL1_FLOAT(rsqrt, 1 / sqrt(x))
KERNEL1_FLOAT(floor, floor(x))
KERNEL1_FLOAT(ceil, ceil(x))
KERNEL1_FLOAT(round, round(x))
KERNEL1_FLOAT(trunc, trunc(x))
KERNEL1_FLOAT(frac, x - trunc(x))
KERNEL1_FLOAT(relu, relu(x))

KERNEL1_FLOAT(exp, exp(x))
KERNEL1_FLOAT(exp2, exp2(x))
KERNEL1_FLOAT(expm1, expm1(x))
KERNEL1_FLOAT(log, log(x))
KERNEL1_FLOAT(log2, log2(x))
KERNEL1_FLOAT(log10, log10(x))
KERNEL1_FLOAT(log1p, log1p(x))
KERNEL1_FLOAT(sin, sin(x))
KERNEL1_FLOAT(cos, cos(x))
KERNEL1_FLOAT(tan, tan(x))
KERNEL1_FLOAT(asin, asin(x))
KERNEL1_FLOAT(acos, acos(x))
KERNEL1_FLOAT(atan, atan(x))
KERNEL1_FLOAT(sinh, sinh(x))
KERNEL1_FLOAT(cosh, cosh(x))
KERNEL1_FLOAT(tanh, tanh(x))
KERNEL1_FLOAT(asinh, asinh(x))
KERNEL1_FLOAT(acosh, acosh(x))
KERNEL1_FLOAT(atanh, atanh(x))
KERNEL1_FLOAT(sigmoid, sigmoid(x))
KERNEL1_FLOAT(log_sigmoid, log_sigmoid(x))
KERNEL1_FLOAT(silu, silu(x))
KERNEL1_FLOAT(gelu, gelu(x))
KERNEL1_FLOAT(gelu_tanh, gelu_tanh(x))
KERNEL1_FLOAT(erf, erf(x))
KERNEL1_FLOAT(erfc, erfc(x))
KERNEL1_FLOAT(erfinv, erfinv(x))
KERNEL1_WIDE(lgamma, lgamma(x))
KERNEL1_WIDE(digamma, digamma(x))
KERNEL1_WIDE(trigamma, trigamma(x))

KERNEL1_PREDICATE(isnan, x != x)
KERNEL1_PREDICATE(isinf, (x == kInfinity) | (x == -kInfinity))
KERNEL1_PREDICATE(isfinite, (x < kInfinity) & (x > -kInfinity))
KERNEL1_PREDICATE(isposinf, x == kInfinity)
KERNEL1_PREDICATE(isneginf, x == -kInfinity)
KERNEL1_PREDICATE(signbit, __builtin_signbit(x) != 0)

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
