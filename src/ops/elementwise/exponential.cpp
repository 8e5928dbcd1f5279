// Exponentials and logarithms, elementwise. Read next: trigonometric.cpp, special.cpp.
#include <numbers>

#include "dispatch/op.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"

namespace adjoint {
namespace {
using T = const Tensor&;
using C = Context&;
using std::numbers::ln10;
using std::numbers::ln2;
}  // namespace

static const Op& exp_ = def("exp(input)", "The exponential, elementwise.")
                            .elementwise("exp", ToFloat)
                            .partial(0, output(), [](T g, C c) { return g * c.out(); })
                            .reads_grad_once()
                            .inplace();

static const Op& expm1_ = def("expm1(input)", "exp(input) - 1, accurate near zero.")
                              .elementwise("expm1", ToFloat)
                              .partial(0, output(), [](T g, C c) { return g * (c.out() + 1.0); })
                              .inplace()
                              .sparse(sparse::on_entries);

static const Op& exp2_ =
    def("exp2(input)", "2 to the power of the input, elementwise.")
        .elementwise("exp2", ToFloat)
        .partial(0, output(), [](T g, C c) { return mul_scaled(g, c.out(), ln2); })
        .inplace();

static const Op& log_ = def("log(input)", "The natural logarithm, elementwise.")
                            .elementwise("log", ToFloat)
                            .partial(0, input(0), [](T g, C c) { return g / c.in(0); })
                            .reads_grad_once()
                            .inplace();

static const Op& log1p_ =
    def("log1p(input)", "log(1 + input), accurate near zero.")
        .elementwise("log1p", ToFloat)
        .partial(0, input(0), [](T g, C c) { return g / (c.tensor(0) + 1.0); })
        .inplace()
        .node("Log1PBackward0")
        .sparse(sparse::on_entries);

static const Op& log2_ = def("log2(input)", "The logarithm to base 2, elementwise.")
                             .elementwise("log2", ToFloat)
                             .partial(0, input(0), [](T g, C c) { return g / (c.tensor(0) * ln2); })
                             .inplace();

static const Op& log10_ =
    def("log10(input)", "The logarithm to base 10, elementwise.")
        .elementwise("log10", ToFloat)
        .partial(0, input(0), [](T g, C c) { return g / (c.tensor(0) * ln10); })
        .inplace();

// The slopes of log(exp(a) + exp(b)) are the weights of a and b in the sum.
static const Op& logaddexp_ =
    def("logaddexp(input, other)", "log(exp(input) + exp(other)), without overflow.")
        .elementwise("logaddexp")
        .partial(0, input(0) | input(1),
                 [](T g, C c) { return g * op<"sigmoid">(c.tensor(0) - c.in(1)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return g * op<"sigmoid">(c.tensor(1) - c.in(0)); });

static const Op& logaddexp2_ =
    def("logaddexp2(input, other)", "log2(2**input + 2**other), without overflow.")
        .elementwise("logaddexp2")
        .partial(0, input(0) | input(1),
                 [](T g, C c) { return g * op<"sigmoid">((c.tensor(0) - c.in(1)) * ln2); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return g * op<"sigmoid">((c.tensor(1) - c.in(0)) * ln2); });

static const Op& ldexp_ =
    def("ldexp(input, other)", "`input * 2**other`, elementwise; of whole numbers too a float.")
        .forward([](Call& c) -> Value {
          GradMode off(false);
          return op<"mul">(c[0], op<"pow">(2.0, c[1]));
        })
        .partial(0, input(1), [](T g, C c) { return g * op<"pow">(2.0, c.in(1)); })
        .partial(1, output(), [](T g, C c) { return mul_scaled(g, c.out(), ln2); })
        .inplace();

static const Op& xlogy_ =
    def("xlogy(input: Operand, other: Operand)",
        "input * log(other), and 0 where input is 0 unless other is NaN.")
        .elementwise("xlogy", ToFloat)
        .partial(0, input(0) | input(1),
                 [](T g, C c) -> Tensor {
                   Value limit = op<"logical_and">(op<"eq">(c.in(0), 0), op<"le">(c.in(1), 0));
                   return op<"where">(limit, 0.0, op<"xlogy">(g, c.in(1)));
                 })
        .partial(1, input(0) | input(1), [](T g, C c) { return g * c.in(0) / c.in(1); })
        .inplace()
        .node([](const Value* v) {
          return !v[0].is_tensor()  ? "XlogyBackward1"
                 : v[1].is_tensor() ? "XlogyBackward0"
                                    : "XlogyBackward2";
        });

}  // namespace adjoint
