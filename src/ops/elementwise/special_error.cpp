// The scaled error function, the normal distribution, entropy and x log(1 + y), under PyTorch's names
// in `adjoint.special`.
#include <numbers>

#include "dispatch/op.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

constexpr double kRootTwoPi = 2.50662827463100050242;

}  // namespace

static const Op& erfcx_ =
    def("special_erfcx(input)", "erfc(input) times exp(input^2), which does not underflow.")
        .elementwise("erfcx", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) -> Tensor {
                   Tensor product = c.tensor(0) * c.out();
                   return g * (product * 2.0 - 2 * std::numbers::inv_sqrtpi);
                 })
        .function_only();

static const Op& ndtr_ =
    def("special_ndtr(input)", "The share of a standard normal distribution below `input`.")
        .elementwise("ndtr", ToFloat)
        .partial(0, input(0),
                 [](T g, C c) -> Tensor {
                   Tensor x = c.tensor(0);
                   return g * (op<"exp">(x * x * -0.5).tensor() / kRootTwoPi);
                 })
        .function_only();

static const Op& log_ndtr_ =
    def("special_log_ndtr(input)", "The logarithm of special.ndtr, accurate far to the left too.")
        .elementwise("log_ndtr", ToFloat)
        .partial(0, input(0),
                 [](T g, C c) -> Tensor {
                   Tensor scaled = op<"special_erfcx">(c.tensor(0) * (-0.5 * std::numbers::sqrt2));
                   return g / scaled * (2 / kRootTwoPi);
                 })
        .function_only();

static const Op& ndtri_ = def("special_ndtri(input)", "The inverse of special.ndtr.")
                              .elementwise("ndtri", ToFloat)
                              .partial(0, output(),
                                       [](T g, C c) -> Tensor {
                                         Tensor x = c.out();
                                         return g * (op<"exp">(x * x * 0.5).tensor() * kRootTwoPi);
                                       })
                              .function_only();

static const Op& entr_ =
    def("special_entr(input)",
        "-input * log(input), 0 at zero, and minus infinity for negative numbers.")
        .elementwise("entr", ToFloat)
        .partial(0, input(0),
                 [](T g, C c) -> Tensor { return -(g * (op<"log">(c.in(0)).tensor() + 1.0)); })
        .function_only();

static const Op& xlog1py_ =
    def("special_xlog1py(input: Operand, other: Operand)",
        "input * log(1 + other), and 0 where input is 0 unless other is NaN.")
        .elementwise("xlog1py", ToFloat)
        .partial(0, input(0) | input(1),
                 [](T g, C c) -> Tensor {
                   Value limit = op<"logical_and">(op<"eq">(c.in(0), 0), op<"le">(c.in(1), -1));
                   return op<"where">(limit, 0.0, op<"special_xlog1py">(g, c.in(1)));
                 })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor { return g * c.in(0) / op<"add">(c.in(1), 1).tensor(); })
        .function_only()
        .node([](const Value* v) {
          return !v[0].is_tensor()  ? "SpecialXlog1PyBackward1"
                 : v[1].is_tensor() ? "SpecialXlog1PyBackward0"
                                    : "SpecialXlog1PyBackward2";
        });

}  // namespace adjoint
