// Error functions, gamma functions and the logistic function, elementwise.
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

constexpr double kTwoOverSqrtPi = 2 * std::numbers::inv_sqrtpi;

Tensor exp_minus_square(const Tensor& x) { return op<"exp">(-(x * x)); }

Value polygamma_forward(int64_t n, const Value& x, const Tensor& out) {
  static const Kernel &first = kernel_named("digamma"), &second = kernel_named("trigamma"),
                      &rest = kernel_named("polygamma");
  if (n < 0) runtime_error("polygamma(n, x) does not support negative n, got ", n);
  if (n < 2) return run_kernel(n ? second : first, &x, 1, ToFloat, out, "polygamma");
  Value v[2] = {n, x};
  return run_kernel(rest, v, 2, ToFloat, out, "polygamma");
}

// Outside (0, 1) there is no slope: NaN, or 0 where eps holds the input back.
Tensor logit_rule(T g, C c) {
  Tensor x = c.in(0), slope = g / (x * op<"rsub">(x, 1).tensor());
  if (c.in(1).is_none()) {
    Value inside = op<"logical_and">(op<"ge">(x, 0), op<"le">(x, 1));
    return op<"where">(inside, slope, std::numeric_limits<double>::quiet_NaN());
  }
  double eps = c.in(1).real();
  return op<"where">(op<"logical_and">(op<"ge">(x, eps), op<"le">(x, 1 - eps)), slope, 0.0);
}

}  // namespace

static const Op& erf_ =
    def("erf(input)", "The error function, elementwise.")
        .elementwise("erf", ToFloat)
        .partial(0, input(0),
                 [](T g, C c) { return mul_scaled(g, exp_minus_square(c.in(0)), kTwoOverSqrtPi); })
        .inplace()
        .sparse(sparse::on_entries);

static const Op& erfc_ =
    def("erfc(input)", "1 - erf(input), accurate where it is small.")
        .elementwise("erfc", ToFloat)
        .partial(0, input(0),
                 [](T g, C c) { return mul_scaled(g, exp_minus_square(c.in(0)), -kTwoOverSqrtPi); })
        .inplace();

static const Op& erfinv_ =
    def("erfinv(input)", "The inverse of the error function, elementwise.")
        .elementwise("erfinv", ToFloat)
        .partial(0, output(),
                 [](T g, C c) {
                   return mul_scaled(g, op<"exp">(op<"square">(c.out())), 1 / kTwoOverSqrtPi);
                 })
        .inplace()
        .sparse(sparse::on_entries);

static const Op& lgamma_ =
    def("lgamma(input)", "The logarithm of the gamma function's absolute value.")
        .elementwise("lgamma", ToFloat)
        .partial(0, input(0), [](T g, C c) { return g * op<"digamma">(c.in(0)); })
        .inplace();

static const Op& digamma_ =
    def("digamma(input)", "The derivative of lgamma, elementwise.")
        .elementwise("digamma", ToFloat)
        .partial(0, input(0), [](T g, C c) { return g * op<"polygamma">(1, c.in(0)); })
        .inplace();

static const Op& polygamma_ =
    def("polygamma(n: int, input)", "The n-th derivative of digamma, elementwise.")
        .forward([](Call& c) { return polygamma_forward(c.integer(0), c[1], c.out); })
        .partial(1, input(1),
                 [](T g, C c) { return g * op<"polygamma">(c.in(0).integer() + 1, c.in(1)); })
        .function_only();

static const Op& polygamma_method_ =
    def("polygamma.method(input, n: int)", "The n-th derivative of digamma, elementwise.")
        .forward([](Call& c) { return polygamma_forward(c.integer(1), c[0], c.out); })
        .partial(0, input(0),
                 [](T g, C c) { return g * op<"polygamma">(c.in(1).integer() + 1, c.in(0)); })
        .inplace()
        .method_only();

static const Op& sigmoid_ = def("sigmoid(input)", "1 / (1 + exp(-input)), elementwise.")
                                .elementwise("sigmoid", ToFloat)
                                .partial(0, output(),
                                         [](T g, C c) -> Tensor {
                                           Tensor y = c.out();
                                           if (is_complex(g.dtype())) return g * (y - y * y);
                                           return op<"_sigmoid_grad">(g, y);
                                         })
                                .reads_grad_once()
                                .inplace();

static const Op& logit_ =
    def("logit(input, eps: float? = None)",
        "log(input / (1 - input)), the inverse of sigmoid; with `eps` the input is first limited "
        "to [eps, 1 - eps].")
        .forward([](Call& c) -> Value {
          static const Kernel& k = kernel_named("logit");
          Value v[2] = {c[0], c[1].is_none() ? Value(-1.0) : c[1]};
          return run_kernel(k, v, 2, ToFloat, c.out, "logit");
        })
        .partial(0, input(0), logit_rule)
        .inplace();

}  // namespace adjoint
