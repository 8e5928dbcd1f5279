// Elementwise functions of one float32 or float64 argument, one line each.
// How the lines expand is in isa_lines.h, what they call in math_*.h, the errors in
// docs/accuracy.md.
#include "../isa_lines.h"
#include "../math_basic.h"
#include "../math_nn.h"

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

KERNEL1_WIDE(exp, exp(x))
KERNEL1_WIDE(exp2, exp2(x))
KERNEL1_WIDE(expm1, expm1(x))
KERNEL1_WIDE(log, log(x))
KERNEL1_WIDE(log2, log2(x))
KERNEL1_WIDE(log10, log10(x))
KERNEL1_WIDE(log1p, log1p(x))
KERNEL1_WIDE(sin, sin(x))
KERNEL1_WIDE(cos, cos(x))
KERNEL1_WIDE(tan, tan(x))
KERNEL1_WIDE(asin, asin(x))
KERNEL1_WIDE(acos, acos(x))
KERNEL1_WIDE(atan, atan(x))
KERNEL1_WIDE(sinh, sinh(x))
KERNEL1_WIDE(cosh, cosh(x))
KERNEL1_WIDE(tanh, tanh(x))
KERNEL1_WIDE(asinh, asinh(x))
KERNEL1_WIDE(acosh, acosh(x))
KERNEL1_WIDE(atanh, atanh(x))
KERNEL1_WIDE(sigmoid, sigmoid(x))
KERNEL1_WIDE(log_sigmoid, log_sigmoid(x))
KERNEL1_WIDE(silu, silu(x))
KERNEL1_WIDE(gelu, gelu(x))
KERNEL1_WIDE(gelu_tanh, gelu_tanh(x))
KERNEL1_WIDE(erf, erf(x))
KERNEL1_WIDE(erfc, erfc(x))
KERNEL1_WIDE(erfinv, erfinv(x))
KERNEL1_WIDE(lgamma, lgamma(x))
KERNEL1_WIDE(digamma, digamma(x))
KERNEL1_WIDE(trigamma, trigamma(x))

KERNEL1_PREDICATE(isnan, x != x)
KERNEL1_PREDICATE(isinf, abs(x) == kInf<V>)
KERNEL1_PREDICATE(isfinite, abs(x) < kInf<V>)
KERNEL1_PREDICATE(isposinf, x == kInf<V>)
KERNEL1_PREDICATE(isneginf, x == -kInf<V>)
KERNEL1_PREDICATE(signbit, bits(x) < 0)

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
