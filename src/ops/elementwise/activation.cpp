// Activations of neural networks, elementwise, and their one-pass derivatives.
#include <numbers>

#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"
#include "dispatch/scalar_range.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Tensor flat(T g, C) { return zeros_of(g); }
Tensor one_minus(const Tensor& x) { return op<"rsub">(x, 1); }

// Integers are refused although the kernel's numbers would make floats of them.
Value float_only(Call& c) {
  DType d = c.tensor(0).dtype();
  if (is_integral(d)) not_implemented("\"", c.op.name, "\" not implemented for dtype ", d);
  return elementwise_forward(c);
}

bool tanh_form(const Value& approximate) {
  if (approximate.str() == "tanh") return true;
  if (approximate.str() == "none") return false;
  runtime_error("approximate argument must be either none or tanh, but got '", approximate.str(),
                "'");
}

// The result keeps the input's dtype, whatever the numbers are.
Value threshold_forward(Call& c) {
  static const Kernel& k = kernel_named("threshold");
  DType d = c.tensor(0).dtype();
  if (d == DType::Bool) not_implemented("\"threshold\" not implemented for dtype bool");
  require_fits(c[1], d);
  require_fits(c[2], d);
  Value v[3] = {c[0], c[1], c[2]};
  if (is_integral(d)) v[1] = Value(c.integer(1)), v[2] = Value(c.integer(2));
  return run_kernel(k, v, 3, Common, c.out, "threshold");
}

// The same for the limits of hardtanh.
Value hardtanh_forward(Call& c) {
  static const Kernel& k = kernel_named("clamp");
  DType d = c.tensor(0).dtype();
  if (d == DType::Bool) runtime_error("Bool inputs not supported for hardtanh");
  if (d == DType::UInt8 && (c.real(1) < 0 || c.real(2) < 0)) {
    runtime_error("cannot do hardtanh on an unsigned type with negative limits, got ", c.real(1),
                  " and ", c.real(2));
  }
  require_fits(c[1], d);
  require_fits(c[2], d);
  Value v[3] = {c[0], c[1], c[2]};
  if (is_integral(d)) v[1] = Value(c.integer(1)), v[2] = Value(c.integer(2));
  return run_kernel(k, v, 3, Common, c.out, "hardtanh");
}

// The second derivatives: what the derivative of a fused derivative needs.
Tensor gelu_curvature(const Tensor& x) {
  constexpr double k = std::numbers::inv_sqrtpi / std::numbers::sqrt2;  // 1 / sqrt(2 pi)
  Tensor square = x * x;
  return op<"exp">(square * -0.5).tensor() * (op<"rsub">(square, 2).tensor() * k);
}

Tensor gelu_tanh_curvature(const Tensor& x) {
  constexpr double a = std::numbers::inv_sqrtpi * std::numbers::sqrt2, b = 0.044715;
  Tensor square = x * x;
  Tensor t = op<"tanh">(x * (square * b + 1.0) * a);
  Tensor du = (square * (3 * b) + 1.0) * a;
  return one_minus_square(t) * (du + square * (3 * a * b) - x * t * (du * du));
}

Tensor silu_curvature(const Tensor& x) {
  Tensor s = op<"sigmoid">(x);
  return s * one_minus(s) * (x * one_minus(s * 2.0) + 2.0);
}

}  // namespace

static const Op& relu_ =
    def("relu(input)", "max(input, 0), elementwise.")
        .elementwise("relu")
        .partial(0, output(), [](T g, C c) -> Tensor { return op<"_relu_grad">(g, c.out()); })
        .reads_grad_once()
        .inplace()
        .cheap()
        .zero_text("passes nothing on where its input is not positive: here everywhere")
        .sparse(sparse::on_entries);

static const Op& relu_grad_ =
    def("_relu_grad(input, y)", "`input` where y is positive.")
        .elementwise("relu_grad")
        .partial(0, input(1), [](T g, C c) -> Tensor { return op<"_relu_grad">(g, c.in(1)); })
        .partial(1, nothing, flat)
        .internal();

static const Op& leaky_relu_ =
    def("leaky_relu(input, negative_slope: Scalar = 0.01)",
        "The input where positive, negative_slope times it elsewhere.")
        .elementwise("leaky_relu")
        .forward(float_only)
        .partial(0, input(0),
                 [](T g, C c) -> Tensor { return op<"_leaky_relu_grad">(g, c.in(0), c.in(1)); })
        .inplace()
        .function_only();

static const Op& leaky_relu_grad_ =
    def("_leaky_relu_grad(input, x, negative_slope: Scalar)", "The derivative of leaky_relu.")
        .elementwise("leaky_relu_grad")
        .partial(0, input(1),
                 [](T g, C c) -> Tensor { return op<"_leaky_relu_grad">(g, c.in(1), c.in(2)); })
        .partial(1, nothing, flat)
        .internal();

static const Op& silu_ =
    def("silu(input)", "input * sigmoid(input), elementwise.")
        .elementwise("silu")
        .partial(0, input(0), [](T g, C c) -> Tensor { return op<"_silu_grad">(g, c.in(0)); })
        .inplace()
        .function_only();

static const Op& silu_grad_ =
    def("_silu_grad(input, x)", "The derivative of silu.")
        .elementwise("silu_grad")
        .partial(0, input(1), [](T g, C c) -> Tensor { return op<"_silu_grad">(g, c.in(1)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return g * c.in(0) * silu_curvature(c.in(1)); })
        .internal();

static const Op& gelu_ =
    def("gelu(input, *, approximate: str = 'none')",
        "input * Phi(input), Phi the normal distribution; 'tanh' approximates Phi.")
        .forward([](Call& c) -> Value {
          static const Kernel &exact = kernel_named("gelu"), &tanh = kernel_named("gelu_tanh");
          return run_kernel(tanh_form(c[1]) ? tanh : exact, c.args, 1, Common, c.out, "gelu");
        })
        .partial(0, input(0),
                 [](T g, C c) -> Tensor {
                   if (tanh_form(c.in(1))) return op<"_gelu_tanh_grad">(g, c.in(0));
                   return op<"_gelu_grad">(g, c.in(0));
                 })
        .inplace()
        .function_only()
        .out_dtype(OutDType::Exact);

static const Op& gelu_grad_ =
    def("_gelu_grad(input, x)", "The derivative of gelu.")
        .elementwise("gelu_grad")
        .partial(0, input(1), [](T g, C c) -> Tensor { return op<"_gelu_grad">(g, c.in(1)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return g * c.in(0) * gelu_curvature(c.in(1)); })
        .internal();

static const Op& gelu_tanh_grad_ =
    def("_gelu_tanh_grad(input, x)", "The derivative of gelu with approximate='tanh'.")
        .elementwise("gelu_tanh_grad")
        .partial(0, input(1), [](T g, C c) -> Tensor { return op<"_gelu_tanh_grad">(g, c.in(1)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return g * c.in(0) * gelu_tanh_curvature(c.in(1)); })
        .internal();

static const Op& softplus_ =
    def("softplus(input, beta: Scalar = 1, threshold: Scalar = 20)",
        "log(1 + exp(beta * input)) / beta; the input where beta * input exceeds the threshold.")
        .elementwise("softplus")
        .forward(float_only)
        .partial(
            0, input(0),
            [](T g, C c) -> Tensor { return op<"_softplus_grad">(g, c.in(0), c.in(1), c.in(2)); })
        .function_only()
        .out_dtype(OutDType::Input);

static const Op& softplus_grad_ =
    def("_softplus_grad(input, x, beta: Scalar, threshold: Scalar)", "The derivative of softplus.")
        .elementwise("softplus_grad")
        .partial(
            0, input(1),
            [](T g, C c) -> Tensor { return op<"_softplus_grad">(g, c.in(1), c.in(2), c.in(3)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor {
                   Tensor z = c.tensor(1) * c.in(2), s = op<"sigmoid">(z);
                   Tensor slope = g * c.in(0) * (s * one_minus(s) * c.in(2));
                   return op<"where">(op<"gt">(z, c.in(3)), 0.0, slope);
                 })
        .internal();

static const Op& logsigmoid_ =
    def("logsigmoid(input)", "log(sigmoid(input)), without overflow.")
        .elementwise("log_sigmoid")
        .partial(0, input(0), [](T g, C c) { return g * op<"sigmoid">(-c.tensor(0)); })
        .function_only()
        .node("LogSigmoidBackward0");

static const Op& elu_ =
    def("elu(input, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1)",
        "scale * input where positive, scale * alpha * (exp(input_scale * input) - 1) elsewhere.")
        .elementwise("elu")
        .forward(float_only)
        // By the input: the result may be changed in place, and result + alpha would cancel.
        .partial(0, input(0),
                 [](T g, C c) -> Tensor {
                   double scale = c.in(2).real(), rate = c.in(3).real();
                   double below = c.in(1).real() * scale * rate;
                   return op<"_elu_grad">(g, c.in(0), scale, below, rate);
                 })
        .inplace()
        .function_only();

static const Op& elu_grad_ =
    def("_elu_grad(input, x, above: Scalar, below: Scalar, rate: Scalar)",
        "`input` times `above` where x is positive, times `below * exp(rate * x)` elsewhere.")
        .elementwise("elu_grad")
        .partial(0, input(1),
                 [](T g, C c) -> Tensor {
                   return op<"_elu_grad">(g, c.in(1), c.in(2), c.in(3), c.in(4));
                 })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor {
                   double steeper = c.in(3).real() * c.in(4).real();
                   return op<"_elu_grad">(g * c.in(0), c.in(1), 0.0, steeper, c.in(4));
                 })
        .internal();

static const Op& celu_ =
    def("celu(input, alpha: Scalar = 1.0)",
        "The input where positive, alpha * (exp(input / alpha) - 1) elsewhere.")
        .forward([](Call& c) -> Value {
          double alpha = c.real(1);
          if (alpha == 0) runtime_error("ZeroDivisionError: alpha cannot be 0 for CELU");
          return op<"elu">(c[0], alpha, 1.0, 1 / alpha);
        })
        .function_only();

static const Op& selu_ =
    def("selu(input)", "elu with the constants that keep the mean 0 and the variance 1.")
        .forward([](Call& c) -> Value {
          return op<"elu">(c[0], 1.6732632423543772848170429916717,
                           1.0507009873554804934193349852946);
        })
        .function_only();

static const Op& hardtanh_ =
    def("hardtanh(input, min_val: Scalar = -1, max_val: Scalar = 1)",
        "The input limited to [min_val, max_val]; the gradient is 0 at the bounds.")
        .forward(hardtanh_forward)
        .partial(0, input(0),
                 [](T g, C c) {
                   Tensor x = c.in(0);
                   Value inside = op<"logical_and">(op<"gt">(x, c.in(1)), op<"lt">(x, c.in(2)));
                   return pass_where(inside, g);
                 })
        .inplace()
        .function_only()
        .zero_text("passes nothing on outside its bounds: all elements are outside");

static const Op& threshold_ =
    def("threshold(input, threshold: Scalar, value: Scalar)",
        "The input where it exceeds the threshold, `value` elsewhere.")
        .forward(threshold_forward)
        .partial(0, input(0),
                 [](T g, C c) -> Tensor { return op<"where">(op<"le">(c.in(0), c.in(1)), 0.0, g); })
        .inplace()
        .function_only()
        .zero_text("passes nothing on where its input is not above it: here everywhere");

static const Op& hardshrink_ =
    def("hardshrink(input, lambd: Scalar = 0.5)",
        "The input where its magnitude exceeds lambd, 0 elsewhere.")
        .forward([](Call& c) -> Value {
          DType d = c.tensor(0).dtype();
          if (!is_floating(d)) not_implemented("\"hardshrink_cpu\" not implemented for '", d, "'");
          return op<"where">(op<"le">(op<"abs">(c[0]), c[1]), 0.0, c[0]);
        });

static const Op& mish_ = def("mish(input)", "input * tanh(softplus(input)), elementwise.")
                             .elementwise("mish")
                             .forward(float_only)
                             .partial(0, input(0),
                                      [](T g, C c) -> Tensor {
                                        Tensor x = c.in(0), t = op<"tanh">(op<"softplus">(x));
                                        return g * (t + x * op<"sigmoid">(x) * one_minus_square(t));
                                      })
                             .function_only();

static const Op& hardsigmoid_ =
    def("hardsigmoid(input)", "(input + 3) / 6, limited to [0, 1].")
        .elementwise("hardsigmoid")
        .forward(float_only)
        .partial(0, input(0),
                 [](T g, C c) { return pass_where(op<"lt">(op<"abs">(c.in(0)), 3), g / 6.0); })
        .function_only();

static const Op& hardswish_ = def("hardswish(input)", "input * hardsigmoid(input), elementwise.")
                                  .elementwise("hardswish")
                                  .forward(float_only)
                                  .partial(0, input(0),
                                           [](T g, C c) -> Tensor {
                                             Tensor x = c.in(0);
                                             Value curved =
                                                 pass_where(op<"gt">(x, -3), g * (x / 3.0 + 0.5));
                                             return op<"where">(op<"ge">(x, 3), g, curved);
                                           })
                                  .function_only();

}  // namespace adjoint
