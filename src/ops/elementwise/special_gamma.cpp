// Incomplete and multivariate gamma functions and Hurwitz' zeta function.
#include <cmath>
#include <numbers>

#include "dispatch/op.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// The derivative of P by x is the density of the gamma distribution.
Tensor density(T a, T x) {
  Tensor exponent = op<"xlogy">(a - 1.0, x).tensor() - x - op<"lgamma">(a).tensor();
  return op<"exp">(exponent);
}

Tensor refuse(const char* name) {
  not_implemented("the derivative for '", name,
                  "' by its first argument is not implemented. fix: detach() it");
}

// x, x - 1/2, ..., p of them along a last axis.
Tensor in_steps(T x, int64_t p) {
  Tensor steps = op<"mul">(op<"arange">(p), -0.5);
  return op<"add">(op<"unsqueeze">(x, -1), op<"_to_copy">(steps, x.dtype()));
}

Value multivariate(Call& c) {
  Tensor x = c.tensor(0);
  const int64_t p = c.integer(1);
  if (p < 1) runtime_error("p has to be greater than or equal to 1, got ", p);
  if (is_complex(x.dtype())) not_implemented("\"mvlgamma\" not implemented for '", x.dtype(), "'");
  if (is_integral(x.dtype())) x = op<"_to_copy">(x, default_dtype());
  const double constant =
      static_cast<double>(p) * static_cast<double>(p - 1) / 4 * std::log(std::numbers::pi);
  return op<"sum">(op<"lgamma">(in_steps(x, p)), Dims{-1}).tensor() + constant;
}

}  // namespace

static const Op& igamma_ =
    def("igamma(input, other)",
        "The regularised lower incomplete gamma function P(input, other), from 0 to 1.")
        .elementwise("igamma", ToFloat)
        .partial(0, nothing, [](T, C) -> Tensor { return refuse("igamma: input"); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor { return g * density(c.tensor(0), c.tensor(1)); })
        .inplace()
        .alias("special_gammainc");

static const Op& igammac_ =
    def("igammac(input, other)",
        "The regularised upper incomplete gamma function, 1 - igamma(input, other).")
        .elementwise("igammac", ToFloat)
        .partial(0, nothing, [](T, C) -> Tensor { return refuse("igammac: input"); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor { return -(g * density(c.tensor(0), c.tensor(1))); })
        .inplace()
        .alias("special_gammaincc");

static const Op& mvlgamma_ =
    def("mvlgamma(input, p: int)", "The logarithm of the gamma function of `p` dimensions.")
        .forward(multivariate)
        .partial(0, input(0),
                 [](T g, C c) -> Tensor {
                   Tensor terms = op<"digamma">(in_steps(c.tensor(0), c.in(1).integer()));
                   return g * op<"sum">(terms, Dims{-1}).tensor();
                 })
        .inplace();

static const Op& zeta_ =
    def("special_zeta(input: Operand, other: Operand)",
        "Hurwitz' zeta function: the sum of (other + k)^-input over k = 0, 1, ...")
        .elementwise("zeta", ToFloat)
        .partial(0, nothing, [](T, C) -> Tensor { return refuse("zeta"); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor {
                   Tensor next = op<"special_zeta">(op<"add">(c.in(0), 1), c.in(1));
                   return -(g * (next * c.in(0)));
                 })
        .function_only()
        .node([](const Value* v) {
          return !v[0].is_tensor()  ? "SpecialZetaBackward1"
                 : v[1].is_tensor() ? "SpecialZetaBackward0"
                                    : "SpecialZetaBackward2";
        });

}  // namespace adjoint
