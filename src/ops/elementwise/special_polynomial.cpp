// Orthogonal polynomials of a degree that is a tensor too, under PyTorch's names in
// `adjoint.special`. The derivative of any order is one op: the recurrence is differentiated.
#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// In the order of the blocks below; a derivative knows its family by the number.
const char* const kFamilies[] = {"chebyshev_polynomial_t",         "chebyshev_polynomial_u",
                                 "chebyshev_polynomial_v",         "chebyshev_polynomial_w",
                                 "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
                                 "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w",
                                 "hermite_polynomial_h",           "hermite_polynomial_he",
                                 "laguerre_polynomial_l",          "legendre_polynomial_p"};

Value derivative_forward(Call& c) {
  const std::string name = std::string(kFamilies[c.integer(3)]) + "_derivative";
  const Kernel* k = find_kernel(name.c_str());
  Value v[3] = {c[0], c[1], static_cast<double>(c.integer(2))};
  return run_kernel(*k, v, 3, ToFloat, c.out, c.op.name.c_str());
}

template <int Family>
Tensor first_derivative(T g, C c) {
  return g * op<"_polynomial_derivative">(c.in(0), c.in(1), 1, Family).tensor();
}

}  // namespace

static const Op& derivative_ =
    def("_polynomial_derivative(input: Operand, n: Operand, order: int, family: int)",
        "A derivative of an orthogonal polynomial of degree n.")
        .forward(derivative_forward)
        .partial(0, input(0) | input(1),
                 [](T g, C c) -> Tensor {
                   return g * op<"_polynomial_derivative">(c.in(0), c.in(1), c.in(2).integer() + 1,
                                                           c.in(3))
                                  .tensor();
                 })
        .internal();

#define POLYNOMIAL(family, name, doc)                                                       \
  static const Op& name##_ = def("special_" #name "(input: Operand, n: Operand)", doc)      \
                                 .elementwise(#name, ToFloat)                               \
                                 .partial(0, input(0) | input(1), first_derivative<family>) \
                                 .function_only();

POLYNOMIAL(0, chebyshev_polynomial_t, "Chebyshev's polynomial of the first kind, of degree n.")
POLYNOMIAL(1, chebyshev_polynomial_u, "Chebyshev's polynomial of the second kind, of degree n.")
POLYNOMIAL(2, chebyshev_polynomial_v, "Chebyshev's polynomial of the third kind, of degree n.")
POLYNOMIAL(3, chebyshev_polynomial_w, "Chebyshev's polynomial of the fourth kind, of degree n.")
POLYNOMIAL(4, shifted_chebyshev_polynomial_t,
           "Chebyshev's polynomial of the first kind at 2 x - 1, of degree n.")
POLYNOMIAL(5, shifted_chebyshev_polynomial_u,
           "Chebyshev's polynomial of the second kind at 2 x - 1, of degree n.")
POLYNOMIAL(6, shifted_chebyshev_polynomial_v,
           "Chebyshev's polynomial of the third kind at 2 x - 1, of degree n.")
POLYNOMIAL(7, shifted_chebyshev_polynomial_w,
           "Chebyshev's polynomial of the fourth kind at 2 x - 1, of degree n.")
POLYNOMIAL(8, hermite_polynomial_h, "Hermite's polynomial of degree n, as physicists write it.")
POLYNOMIAL(9, hermite_polynomial_he, "Hermite's polynomial of degree n, of probability.")
POLYNOMIAL(10, laguerre_polynomial_l, "Laguerre's polynomial of degree n.")
POLYNOMIAL(11, legendre_polynomial_p, "Legendre's polynomial of degree n.")
#undef POLYNOMIAL

}  // namespace adjoint
