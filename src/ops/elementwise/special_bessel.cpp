// Bessel and Airy functions under PyTorch's names in `adjoint.special`. Each is a combination of its
// neighbours' when differentiated, so all have derivatives of every order. The modified ones of the
// first kind are in bessel.cpp.
#include "dispatch/op.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// f(x) / x for a function that is x times a + b x^2 + c x^4 near zero, where f may be rounded to a
// denormal number or to nothing.
Tensor over_x(T f, T x, double a, double b, double c) {
  Value near = op<"lt">(op<"abs">(x), 1e-3);
  Tensor small = op<"where">(near, x, 0.0), square = small * small;
  Tensor series = (square * c + b) * square + a;
  return op<"where">(near, series, f / op<"where">(near, 1.0, x));
}

}  // namespace

static const Op& airy_ai_ =
    def("special_airy_ai(input)", "Airy's function Ai.")
        .elementwise("airy_ai", ToFloat)
        .partial(0, input(0),
                 [](T g, C c) -> Tensor { return g * op<"_airy_ai_prime">(c.in(0)).tensor(); })
        .function_only();

static const Op& airy_ai_prime_ =
    def("_airy_ai_prime(input)", "The derivative of Airy's function Ai.")
        .elementwise("airy_ai_prime", ToFloat)
        .partial(0, input(0),
                 [](T g, C c) -> Tensor {
                   Tensor x = c.tensor(0);
                   return g * (x * op<"special_airy_ai">(x).tensor());
                 })
        .internal();

static const Op& j0_ =
    def("special_bessel_j0(input)", "The Bessel function of the first kind, order 0.")
        .elementwise("bessel_j0", ToFloat)
        .partial(
            0, input(0),
            [](T g, C c) -> Tensor { return -(g * op<"special_bessel_j1">(c.in(0)).tensor()); })
        .function_only();

static const Op& j1_ =
    def("special_bessel_j1(input)", "The Bessel function of the first kind, order 1.")
        .elementwise("bessel_j1", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) -> Tensor {
                   Tensor x = c.tensor(0);
                   Tensor over = over_x(c.out(), x, 0.5, -1.0 / 16, 1.0 / 384);
                   return g * (op<"special_bessel_j0">(x).tensor() - over);
                 })
        .function_only();

static const Op& y0_ =
    def("special_bessel_y0(input)", "The Bessel function of the second kind, order 0.")
        .elementwise("bessel_y0", ToFloat)
        .partial(
            0, input(0),
            [](T g, C c) -> Tensor { return -(g * op<"special_bessel_y1">(c.in(0)).tensor()); })
        .function_only();

static const Op& y1_ =
    def("special_bessel_y1(input)", "The Bessel function of the second kind, order 1.")
        .elementwise("bessel_y1", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) -> Tensor {
                   Tensor x = c.tensor(0);
                   return g * (op<"special_bessel_y0">(x).tensor() - c.out() / x);
                 })
        .function_only();

static const Op& k0_ =
    def("special_modified_bessel_k0(input)",
        "The modified Bessel function of the second kind, order 0.")
        .elementwise("modified_bessel_k0", ToFloat)
        .partial(0, input(0),
                 [](T g, C c) -> Tensor {
                   return -(g * op<"special_modified_bessel_k1">(c.in(0)).tensor());
                 })
        .function_only();

static const Op& k1_ = def("special_modified_bessel_k1(input)",
                           "The modified Bessel function of the second kind, order 1.")
                           .elementwise("modified_bessel_k1", ToFloat)
                           .partial(0, input(0) | output(),
                                    [](T g, C c) -> Tensor {
                                      Tensor x = c.tensor(0),
                                             zero = op<"special_modified_bessel_k0">(x);
                                      return -(g * (zero + c.out() / x));
                                    })
                           .function_only();

static const Op& scaled_k0_ =
    def("special_scaled_modified_bessel_k0(input)",
        "special.modified_bessel_k0(input) times exp(input), which does not underflow.")
        .elementwise("scaled_modified_bessel_k0", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) -> Tensor {
                   return g * (c.out() - op<"special_scaled_modified_bessel_k1">(c.in(0)).tensor());
                 })
        .function_only();

static const Op& scaled_k1_ =
    def("special_scaled_modified_bessel_k1(input)",
        "special.modified_bessel_k1(input) times exp(input), which does not underflow.")
        .elementwise("scaled_modified_bessel_k1", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) -> Tensor {
                   Tensor x = c.tensor(0), y = c.out();
                   return g * (y - op<"special_scaled_modified_bessel_k0">(x).tensor() - y / x);
                 })
        .function_only();

static const Op& spherical_j0_ =
    def("special_spherical_bessel_j0(input)",
        "The spherical Bessel function of the first kind, order 0: sin(x) / x.")
        .elementwise("spherical_bessel_j0", ToFloat)
        .partial(
            0, input(0),
            [](T g, C c) -> Tensor { return -(g * op<"_spherical_bessel_j1">(c.in(0)).tensor()); })
        .function_only();

static const Op& spherical_j1_ =
    def("_spherical_bessel_j1(input)", "The spherical Bessel function of the first kind, order 1.")
        .elementwise("spherical_bessel_j1", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) -> Tensor {
                   Tensor x = c.tensor(0);
                   Tensor over = over_x(c.out(), x, 1.0 / 3, -1.0 / 30, 1.0 / 840);
                   return g * (op<"special_spherical_bessel_j0">(x).tensor() - over * 2.0);
                 })
        .internal();

}  // namespace adjoint
