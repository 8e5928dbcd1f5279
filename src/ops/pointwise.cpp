// Exponentials, logarithms, trigonometry and other functions of one number.
#include "op.h"

namespace adjoint {
namespace {
using T = const Tensor&;
using C = Context&;
}  // namespace

static const Op& exp_ = def("exp(input)", "The exponential, elementwise.")
                            .elementwise("exp", ToFloat)
                            .partial(0, output(), [](T g, C c) { return g * c.out(); })
                            .inplace();

static const Op& sin_ = def("sin(input)", "The sine of radians, elementwise.")
                            .elementwise("sin", ToFloat)
                            .partial(0, input(0), [](T g, C c) { return g * op<"cos">(c.in(0)); })
                            .inplace();

static const Op& cos_ =
    def("cos(input)", "The cosine of radians, elementwise.")
        .elementwise("cos", ToFloat)
        .partial(0, input(0), [](T g, C c) { return -(g * op<"sin">(c.in(0))); })
        .inplace();

}  // namespace adjoint
