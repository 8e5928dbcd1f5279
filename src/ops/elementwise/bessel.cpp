// Modified Bessel functions of the first kind, elementwise. The names are PyTorch's: `i0`, and the
// others in `adjoint.special`.
#include "dispatch/op.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// i1(x) / x, or the same of i1e, which differ by exp(-|x|). Near zero by the series: f may be
// rounded to a denormal number or to nothing there.
Tensor over_x(T f, T x, bool scaled) {
  Value near = op<"lt">(op<"abs">(x), 1e-4);
  Tensor small = op<"where">(near, x, 0.0), square = small * small;
  Tensor series = (square / 384.0 + 1.0 / 16) * square + 0.5;
  if (scaled) series = series * op<"exp">(op<"neg">(op<"abs">(small))).tensor();
  return op<"where">(near, series, f / op<"where">(near, 1.0, x));
}

}  // namespace

static const Op& i0_ =
    def("i0(input)", "The modified Bessel function of the first kind of order 0.")
        .elementwise("i0", ToFloat)
        .partial(0, input(0), [](T g, C c) { return g * op<"special_i1">(c.in(0)); })
        .inplace();

static const Op& i0e_ =
    def("special_i0e(input)", "i0(input) times exp(-|input|), which does not overflow.")
        .elementwise("i0e", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) {
                   Tensor x = c.in(0), towards = op<"sgn">(x);
                   return g * (op<"special_i1e">(x).tensor() - towards * c.out());
                 })
        .function_only()
        .node("SpecialI0EBackward0");

static const Op& i1_ =
    def("special_i1(input)", "The modified Bessel function of the first kind of order 1.")
        .elementwise("i1", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) {
                   Tensor x = c.in(0);
                   return g * (op<"i0">(x).tensor() - over_x(c.out(), x, false));
                 })
        .function_only()
        .node("SpecialI1Backward0");

static const Op& i1e_ =
    def("special_i1e(input)", "special.i1(input) times exp(-|input|), which does not overflow.")
        .elementwise("i1e", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) {
                   Tensor x = c.in(0), y = c.out(), towards = op<"sgn">(x);
                   return g * (op<"special_i0e">(x).tensor() - over_x(y, x, true) - towards * y);
                 })
        .function_only()
        .node("SpecialI1EBackward0");

}  // namespace adjoint
