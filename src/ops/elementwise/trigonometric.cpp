// Trigonometric and hyperbolic functions and their inverses, elementwise.
#include <limits>
#include <numbers>

#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Tensor rsqrt(const Tensor& x) { return op<"rsqrt">(x); }
Tensor square(const Value& x) { return op<"square">(x); }
// Infinite at the origin, where the angle has no direction to change in: the slope there is 0.
Tensor radius_squared(const Value& x, const Value& y) {
  Tensor r = square(x) + square(y);
  return op<"masked_fill">(r, op<"eq">(r, 0), std::numeric_limits<double>::infinity());
}

// Multiplication by a constant that makes floats of integers.
template <bool ToRadians>
Value change_unit(Call& c) {
  static const Kernel& k = kernel_named("mul");
  constexpr double factor = ToRadians ? std::numbers::pi / 180 : 180 / std::numbers::pi;
  if (is_complex(c.tensor(0).dtype())) {
    runtime_error(c.op.name, " is not supported for complex tensors.");
  }
  Value v[2] = {c[0], factor};
  return run_kernel(k, v, 2, ToFloat, c.out, c.op.name.c_str());
}

}  // namespace

static const Op& sin_ = def("sin(input)", "The sine of radians, elementwise.")
                            .elementwise("sin", ToFloat)
                            .partial(0, input(0), [](T g, C c) { return mul_cos(g, c.in(0)); })
                            .reads_grad_once()
                            .inplace()
                            .sparse(sparse::on_entries);

static const Op& cos_ = def("cos(input)", "The cosine of radians, elementwise.")
                            .elementwise("cos", ToFloat)
                            .partial(0, input(0), [](T g, C c) { return mul_neg_sin(g, c.in(0)); })
                            .reads_grad_once()
                            .inplace();

static const Op& tan_ =
    def("tan(input)", "The tangent of radians, elementwise.")
        .elementwise("tan", ToFloat)
        .partial(0, output(), [](T g, C c) { return g * (square(c.out()) + 1.0); })
        .inplace()
        .sparse(sparse::on_entries);

static const Op& asin_ =
    def("asin(input)", "The inverse sine, in radians.")
        .elementwise("asin", ToFloat)
        .partial(0, input(0), [](T g, C c) { return g * rsqrt(one_minus_square(c.in(0))); })
        .inplace()
        .alias("arcsin")
        .sparse(sparse::on_entries);

static const Op& acos_ =
    def("acos(input)", "The inverse cosine, in radians.")
        .elementwise("acos", ToFloat)
        .partial(0, input(0), [](T g, C c) { return -(g * rsqrt(one_minus_square(c.in(0)))); })
        .inplace()
        .alias("arccos");

static const Op& atan_ =
    def("atan(input)", "The inverse tangent, in radians.")
        .elementwise("atan", ToFloat)
        .partial(0, input(0), [](T g, C c) { return g / (square(c.in(0)) + 1.0); })
        .inplace()
        .alias("arctan")
        .sparse(sparse::on_entries);

static const Op& atan2_ =
    def("atan2(input, other)", "The angle of the point (other, input), in radians.")
        .elementwise("atan2", ToFloat)
        .partial(0, input(0) | input(1),
                 [](T g, C c) { return g * c.in(1) / radius_squared(c.in(0), c.in(1)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return -(g * c.in(0)) / radius_squared(c.in(0), c.in(1)); })
        .inplace()
        .alias("arctan2");

static const Op& sinh_ = def("sinh(input)", "The hyperbolic sine, elementwise.")
                             .elementwise("sinh", ToFloat)
                             .partial(0, input(0), [](T g, C c) { return g * op<"cosh">(c.in(0)); })
                             .inplace()
                             .sparse(sparse::on_entries);

static const Op& cosh_ = def("cosh(input)", "The hyperbolic cosine, elementwise.")
                             .elementwise("cosh", ToFloat)
                             .partial(0, input(0), [](T g, C c) { return g * op<"sinh">(c.in(0)); })
                             .inplace();

static const Op& tanh_ = def("tanh(input)", "The hyperbolic tangent, elementwise.")
                             .elementwise("tanh", ToFloat)
                             .partial(0, output(),
                                      [](T g, C c) -> Tensor {
                                        if (is_complex(g.dtype()))
                                          return g * one_minus_square(c.out());
                                        return op<"_tanh_grad">(g, c.out());
                                      })
                             .reads_grad_once()
                             .inplace()
                             .sparse(sparse::on_entries);

static const Op& asinh_ =
    def("asinh(input)", "The inverse hyperbolic sine, elementwise.")
        .elementwise("asinh", ToFloat)
        .partial(0, input(0), [](T g, C c) { return g * rsqrt(square(c.in(0)) + 1.0); })
        .inplace()
        .alias("arcsinh")
        .sparse(sparse::on_entries);

static const Op& acosh_ = def("acosh(input)", "The inverse hyperbolic cosine, elementwise.")
                              .elementwise("acosh", ToFloat)
                              .partial(0, input(0),
                                       [](T g, C c) {
                                         Tensor x = c.in(0);
                                         // Two roots: the branch cut of one root of the product is
                                         // not that of acosh.
                                         if (is_complex(x.dtype()))
                                           return g * rsqrt(x - 1.0) * rsqrt(x + 1.0);
                                         return g * rsqrt(square(x) - 1.0);
                                       })
                              .inplace()
                              .alias("arccosh");

static const Op& atanh_ =
    def("atanh(input)", "The inverse hyperbolic tangent, elementwise.")
        .elementwise("atanh", ToFloat)
        .partial(0, input(0), [](T g, C c) { return g / one_minus_square(c.in(0)); })
        .inplace()
        .alias("arctanh")
        .sparse(sparse::on_entries);

static const Op& hypot_ =
    def("hypot(input, other)", "sqrt(input**2 + other**2), without overflow.")
        .elementwise("hypot")
        .partial(0, input(0) | output(), [](T g, C c) { return g * (c.tensor(0) / c.out()); })
        .partial(1, input(1) | output(), [](T g, C c) { return g * (c.tensor(1) / c.out()); })
        .inplace();

namespace {

// The derivative of sin(y) / y. Near zero its two parts cancel, so the series is used there:
// the sum of (-1)^k 2k / (2k + 1)! y^(2k - 1).
Tensor sinc_slope(T y) {
  Tensor near = op<"lt">(op<"abs">(y), 1.0);
  Tensor small = op<"where">(near, y, 0.0), large = op<"where">(near, 1.0, y);
  Tensor square = small * small;
  double weight[10];  // weight[k - 1] = (-1)^k 2k / (2k + 1)!
  double factorial = 1;
  for (int k = 1; k <= 10; ++k) {
    factorial *= 2 * k * (2 * k + 1);
    weight[k - 1] = (k % 2 ? -1 : 1) * 2 * k / factorial;
  }
  Tensor series = square * weight[9] + weight[8];
  for (int k = 7; k >= 0; --k) series = series * square + weight[k];
  Tensor direct = (op<"cos">(large) - op<"sin">(large).tensor() / large) / large;
  return op<"where">(near, series * small, direct);
}

}  // namespace

static const Op& sinc_ = def("sinc(input)", "sin(pi * input) / (pi * input), and 1 at zero.")
                             .elementwise("sinc", ToFloat)
                             .partial(0, input(0),
                                      [](T g, C c) -> Tensor {
                                        Tensor y = c.tensor(0) * std::numbers::pi;
                                        return g * (sinc_slope(y) * std::numbers::pi);
                                      })
                             .inplace();

static const Op& deg2rad_ =
    def("deg2rad(input)", "Degrees as radians.")
        .forward(change_unit<true>)
        .partial(0, nothing, [](T g, C) { return g * (std::numbers::pi / 180); })
        .inplace()
        .node("Deg2RadBackward0")
        .sparse(sparse::linear_on_entries);

static const Op& rad2deg_ =
    def("rad2deg(input)", "Radians as degrees.")
        .forward(change_unit<false>)
        .partial(0, nothing, [](T g, C) { return g * (180 / std::numbers::pi); })
        .inplace()
        .node("Rad2DegBackward0")
        .sparse(sparse::linear_on_entries);

}  // namespace adjoint
