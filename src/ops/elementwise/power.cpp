// Powers and roots, elementwise. Small exponents have exact kernels: x ** 2 is one product.
#include <cmath>

#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"
#include "dispatch/scalar_range.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// The kernel that computes x ** e by fewer roundings than `pow`; null if there is none.
const Kernel* exact_kernel(DType d, double e) {
  static const Kernel &square = kernel_named("square"), &cube = kernel_named("cube"),
                      &sqrt = kernel_named("sqrt"), &rsqrt = kernel_named("rsqrt"),
                      &reciprocal = kernel_named("reciprocal"), &copy = kernel_named("positive");
  if (e == 1) return &copy;
  if (d == DType::Bool) return nullptr;
  if (e == 2) return &square;
  if (e == 3 && !is_complex(d)) return &cube;
  if (is_integral(d)) return nullptr;
  if (e == 0.5) return &sqrt;
  if (e == -0.5) return &rsqrt;
  if (e == -1) return &reciprocal;
  return nullptr;
}

Value pow_forward(Call& c) {
  static const Kernel& general = kernel_named("pow");
  if (c[0].is_tensor() && c[1].is_scalar()) {
    DType d = common_dtype(c.args, 2);
    if (is_integral(d) && c[1].real() < 0) {
      runtime_error("Integers to negative integer powers are not allowed.");
    }
    if (is_integral(d)) require_fits(c[1], d);
    const Kernel* k = c[1].kind() == Value::Complex ? nullptr : exact_kernel(d, c[1].real());
    if (k) {
      Value v[1] = {cast(c.tensor(0), d)};
      return run_kernel(*k, v, 1, Common, c.out, "pow");
    }
  }
  return run_kernel(general, c.args, 2, Common, c.out, "pow");
}

Value less_one(const Value& e) {
  if (e.is_tensor()) return e.tensor() - 1.0;
  if (e.kind() == Value::Int || e.kind() == Value::Bool) return Value(e.integer() - 1);
  if (e.kind() == Value::Double) return Value(e.real() - 1);
  return Value(e.complex() - 1.0);
}

// x, but 1 where the condition holds. Masking the argument of a function rather than its result
// keeps every higher derivative free of the NaN that is masked.
Value harmless_where(const Value& condition, const Value& x) {
  return op<"where">(condition, 1, x);
}

// g * e * x ** (e - 1), and 0 where e is 0, even at x = 0 and NaN.
Tensor base_slope(T g, const Value& x, const Value& e) {
  if (e.is_tensor()) {
    Value odd = op<"logical_not">(op<"gt">(op<"abs">(x), 0));
    Value base = harmless_where(op<"logical_and">(op<"eq">(e, 0), odd), x);
    return g * (e.tensor() * op<"pow">(base, op<"sub">(e, 1)));
  }
  if (e.complex() == 0.0) return zeros_of(g);
  // The short ways forget x, and with it that the next derivative of a polynomial is 0 rather than
  // missing: they serve where nobody differentiates on.
  if (!grad_enabled()) {
    if (e.complex() == 1.0) return g;
    if (e.complex() == 2.0) return mul_scaled(g, x, e);
  }
  return mul_scaled(g, op<"pow">(x, less_one(e)), e);
}

// g * out * log(x), and 0 where x is 0 and e is not negative.
Tensor exponent_slope(T g, const Value& x, const Value& e, const Tensor& out) {
  if (x.is_scalar()) {
    std::complex<double> z = x.complex();
    bool complex = x.kind() == Value::Complex || is_complex(g.dtype());
    if (z == 0.0) {
      Value positive = complex ? op<"ge">(op<"real">(e), 0) : op<"ge">(e, 0);
      return g * (out * op<"where">(positive, 0.0, -INFINITY));
    }
    if (complex) return g * (out * Value(std::log(z)));
    return g * (out * std::log(z.real()));
  }
  Value not_negative = is_complex(e.object()->dtype) ? op<"logical_and">(op<"eq">(op<"imag">(e), 0),
                                                                         op<"ge">(op<"real">(e), 0))
                                                     : op<"ge">(e, 0);
  Value certain = op<"logical_and">(op<"eq">(x, 0), not_negative);
  Value base = harmless_where(certain, x);
  // A negative real number has a logarithm among the complex numbers only.
  if (is_complex(out.dtype())) base = op<"_to_copy">(base, out.dtype());
  return g * (out * op<"log">(base));
}

// float_power computes in the widest dtype.
Value widened(const Value& v, DType d) {
  if (v.is_tensor()) return op<"_to_copy">(v, d);
  return is_complex(d) ? Value(v.complex()) : Value(v.real());
}

Value float_power_forward(Call& c) {
  static const Kernel& k = kernel_named("pow");
  bool complex = false;
  for (int i = 0; i < 2; ++i) {
    complex |= c[i].is_tensor() ? is_complex(c.tensor(i).dtype()) : c[i].kind() == Value::Complex;
  }
  DType d = complex ? DType::Complex128 : DType::Float64;
  if (c.out && c.out.dtype() != d) {
    runtime_error("the base given to float_power_ has dtype ", c.out.dtype(),
                  " but the operation's result requires dtype ", d);
  }
  GradMode off(false);
  Value v[2] = {widened(c[0], d), widened(c[1], d)};
  return run_kernel(k, v, 2, Common, c.out, "float_power");
}

const char* power_name(const Value* v) {
  return !v[0].is_tensor() ? "PowBackward2" : v[1].is_tensor() ? "PowBackward1" : "PowBackward0";
}

}  // namespace

static const Op& pow_ =
    def("pow(input: Operand, exponent: Operand)",
        "`input ** exponent`, elementwise. An integer to a negative power is refused.")
        .forward(pow_forward)
        .partial(0, input(0) | input(1), [](T g, C c) { return base_slope(g, c.in(0), c.in(1)); })
        .partial(1, input(0) | input(1) | output(),
                 [](T g, C c) { return exponent_slope(g, c.in(0), c.in(1), c.out()); })
        .reads_grad_once()
        .inplace()
        .node(power_name)
        .sparse(sparse::pow);

static const Op& float_power_ =
    def("float_power(input: Operand, exponent: Operand)",
        "`input ** exponent` in float64, or complex128 if either is complex.")
        .forward(float_power_forward)
        .partial(0, input(0) | input(1),
                 [](T g, C c) {
                   return base_slope(g, widened(c.in(0), g.dtype()), widened(c.in(1), g.dtype()));
                 })
        .partial(1, input(0) | input(1) | output(),
                 [](T g, C c) {
                   return exponent_slope(g, widened(c.in(0), g.dtype()),
                                         widened(c.in(1), g.dtype()), c.out());
                 })
        .inplace()
        .node(power_name)
        .out_dtype(OutDType::Exact);

static const Op& square_ =
    def("square(input)", "`input * input`, elementwise.")
        .elementwise("square")
        .forward([](Call& c) -> Value {
          static const Kernel& k = kernel_named("square");
          Value v[1] = {c[0]};
          if (c.tensor(0).dtype() == DType::Bool) v[0] = cast(c.tensor(0), DType::Int64);
          return run_kernel(k, v, 1, Common, c.out, "square");
        })
        .partial(0, input(0), [](T g, C c) { return mul_scaled(g, c.in(0), 2); })
        .reads_grad_once()
        .inplace()
        .node("PowBackward0")
        .cheap()
        // A power, in PyTorch, where other ops of one operand do not convert.
        .out_dtype(OutDType::Converts)
        .sparse(sparse::on_entries);

static const Op& sqrt_ =
    def("sqrt(input)", "The square root, elementwise; NaN for negative numbers.")
        .elementwise("sqrt", ToFloat)
        .partial(0, output(),
                 [](T g, C c) -> Tensor {
                   if (is_complex(g.dtype())) return g / (c.out() * 2.0);
                   return op<"_sqrt_grad">(g, c.out());
                 })
        .reads_grad_once()
        .inplace()
        .sparse(sparse::on_entries);

static const Op& rsqrt_ = def("rsqrt(input)", "`1 / sqrt(input)`, elementwise.")
                              .elementwise("rsqrt", ToFloat)
                              .partial(0, output(),
                                       [](T g, C c) -> Tensor {
                                         if (is_complex(g.dtype()))
                                           return g * (op<"pow">(c.out(), 3).tensor() * -0.5);
                                         return op<"_rsqrt_grad">(g, c.out());
                                       })
                              .inplace();

}  // namespace adjoint
