// The fused steps of common derivatives, as ops without a public name. Complex numbers, which are
// rarer, take the same steps one by one. Read fused.h first.
#include "ops/elementwise/fused.h"

#include <algorithm>

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

bool any_complex(std::initializer_list<Value> values) {
  return std::any_of(values.begin(), values.end(), [](const Value& v) {
    return v.is_tensor() ? is_complex(v.object()->dtype) : v.kind() == Value::Complex;
  });
}

}  // namespace

Tensor zeros_of(const Tensor& g) { return zeros(g.shape(), g.dtype()); }

Tensor mul_scaled(const Tensor& g, const Tensor& x, const Value& k) {
  if (is_complex(g.dtype()) || is_complex(x.dtype()) || k.kind() == Value::Complex) {
    return g * (x * k);
  }
  return op<"_mul_scaled">(g, x, k);
}

Tensor neg_mul_div(const Tensor& g, const Value& x, const Value& y) {
  if (any_complex({g, x, y})) return -(g * (x.tensor() / y));
  return op<"_neg_mul_div">(g, x, y);
}

Tensor divisor_grad(const Tensor& g, const Value& x, const Value& y) {
  if (any_complex({g, x, y})) return -(g * (op<"div">(op<"div">(x, y), y)));
  return op<"_divisor_grad">(g, x, y);
}

Tensor mul_cos(const Tensor& g, const Tensor& x) {
  if (is_complex(x.dtype())) return g * op<"cos">(x);
  return op<"_mul_cos">(g, x);
}

Tensor mul_neg_sin(const Tensor& g, const Tensor& x) {
  if (is_complex(x.dtype())) return -(g * op<"sin">(x));
  return op<"_mul_neg_sin">(g, x);
}

Tensor pass_where(const Value& condition, const Tensor& g) {
  return op<"where">(condition, g, 0.0);
}

Tensor one_minus_square(const Tensor& x) { return op<"rsub">(x * x, 1); }

static const Op& mul_scaled_ =
    def("_mul_scaled(input, other, scale: Scalar)", "`input * (other * scale)`.")
        .elementwise("mul_scaled")
        .partial(0, input(1), [](T g, C c) { return mul_scaled(g, c.in(1), c.in(2)); })
        .partial(1, input(0), [](T g, C c) { return mul_scaled(g, c.in(0), c.in(2)); })
        .internal();

static const Op& neg_mul_div_ =
    def("_neg_mul_div(input, x: Operand, y: Operand)", "`-input * (x / y)`.")
        .elementwise("neg_mul_div")
        .partial(0, input(1) | input(2), [](T g, C c) { return neg_mul_div(g, c.in(1), c.in(2)); })
        .partial(1, input(0) | input(2), [](T g, C c) { return neg_mul_div(g, c.in(0), c.in(2)); })
        .partial(2, input(2) | output(), [](T g, C c) { return neg_mul_div(g, c.out(), c.in(2)); })
        .internal();

static const Op& divisor_grad_ =
    def("_divisor_grad(input, x: Operand, y: Operand)", "`-input * (x / y / y)`.")
        .elementwise("divisor_grad")
        .partial(0, input(1) | input(2), [](T g, C c) { return divisor_grad(g, c.in(1), c.in(2)); })
        .partial(1, input(0) | input(2), [](T g, C c) { return divisor_grad(g, c.in(0), c.in(2)); })
        .partial(2, input(2) | output(),
                 [](T g, C c) { return neg_mul_div(g, c.out() * 2.0, c.in(2)); })
        .internal();

static const Op& mul_cos_ =
    def("_mul_cos(input, x)", "`input * cos(x)`.")
        .elementwise("mul_cos")
        .partial(0, input(1), [](T g, C c) { return mul_cos(g, c.in(1)); })
        .partial(1, input(0) | input(1), [](T g, C c) { return mul_neg_sin(g * c.in(0), c.in(1)); })
        .internal();

static const Op& mul_neg_sin_ =
    def("_mul_neg_sin(input, x)", "`-input * sin(x)`.")
        .elementwise("mul_neg_sin")
        .partial(0, input(1), [](T g, C c) { return mul_neg_sin(g, c.in(1)); })
        .partial(1, input(0) | input(1), [](T g, C c) { return mul_cos(-(g * c.in(0)), c.in(1)); })
        .internal();

static const Op& tanh_grad_ =
    def("_tanh_grad(input, y)", "`input * (1 - y * y)`.")
        .elementwise("tanh_grad")
        .partial(0, input(1), [](T g, C c) -> Tensor { return op<"_tanh_grad">(g, c.in(1)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return mul_scaled(g * c.in(0), c.in(1), -2); })
        .internal();

static const Op& sigmoid_grad_ =
    def("_sigmoid_grad(input, y)", "`input * (1 - y) * y`.")
        .elementwise("sigmoid_grad")
        .partial(0, input(1), [](T g, C c) -> Tensor { return op<"_sigmoid_grad">(g, c.in(1)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor { return g * c.in(0) * op<"rsub">(c.tensor(1) * 2.0, 1); })
        .internal();

static const Op& sqrt_grad_ =
    def("_sqrt_grad(input, y)", "`input / (2 * y)`.")
        .elementwise("sqrt_grad")
        .partial(0, input(1), [](T g, C c) -> Tensor { return op<"_sqrt_grad">(g, c.in(1)); })
        .partial(1, input(1) | output(), [](T g, C c) { return neg_mul_div(g, c.out(), c.in(1)); })
        .internal();

static const Op& rsqrt_grad_ =
    def("_rsqrt_grad(input, y)", "`-input * y**3 / 2`.")
        .elementwise("rsqrt_grad")
        .partial(0, input(1), [](T g, C c) -> Tensor { return op<"_rsqrt_grad">(g, c.in(1)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return mul_scaled(g * c.in(0), op<"square">(c.in(1)), -1.5); })
        .internal();

static const Op& clamp_grad_ =
    def("_clamp_grad(input, x, low: Scalar, high: Scalar)", "`input` where low <= x <= high.")
        .elementwise("clamp_grad")
        .partial(0, input(1),
                 [](T g, C c) -> Tensor { return op<"_clamp_grad">(g, c.in(1), c.in(2), c.in(3)); })
        .partial(1, nothing, [](T g, C) { return zeros_of(g); })
        .internal();

static const Op& max_grad_ =
    def("_max_grad(input, x: Operand, y: Operand)",
        "`input` where x > y, half of it where they are equal.")
        .elementwise("max_grad")
        .partial(0, input(1) | input(2),
                 [](T g, C c) -> Tensor { return op<"_max_grad">(g, c.in(1), c.in(2)); })
        .partial(1, nothing, [](T g, C) { return zeros_of(g); })
        .partial(2, nothing, [](T g, C) { return zeros_of(g); })
        .internal();

static const Op& abs_grad_ =
    def("_abs_grad(input, x)", "`input * sign(x)` of real numbers.")
        .elementwise("abs_grad")
        .partial(0, input(1), [](T g, C c) -> Tensor { return op<"_abs_grad">(g, c.in(1)); })
        .partial(1, nothing, [](T g, C) { return zeros_of(g); })
        .internal();

}  // namespace adjoint
