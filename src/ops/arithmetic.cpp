// Arithmetic, elementwise: add, sub, mul, div and their like. A good file to read first.
#include "elementwise_forward.h"
#include "op.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

bool is_one(const Value& v) { return v.is_scalar() && v.complex() == 1.0; }

// add and sub: with alpha = 1 a kernel of two operands, otherwise a + alpha * b.
Value add_forward(Call& c) {
  static const Kernel &plain = kernel_named("add"), &scaled = kernel_named("add_scaled");
  if (is_one(c[2])) return run_kernel(plain, c.args, 2, Common, c.out, "add");
  return run_kernel(scaled, c.args, 3, Common, c.out, "add");
}

Value sub_forward(Call& c) {
  static const Kernel &plain = kernel_named("sub"), &scaled = kernel_named("add_scaled");
  for (int i = 0; i < 2; ++i) {
    if (c[i].is_tensor() ? c[i].object()->dtype == DType::Bool : c[i].kind() == Value::Bool) {
      runtime_error(
          "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
          "to invert a mask, "
          "use the `~` or `logical_not()` operator instead.");
    }
  }
  if (is_one(c[2])) return run_kernel(plain, c.args, 2, Common, c.out, "sub");
  Value negative[3] = {c[0], c[1],
                       c[2].kind() == Value::Int ? Value(-c[2].integer()) : Value(-c[2].complex())};
  if (c[2].kind() == Value::Double) negative[2] = Value(-c[2].real());
  return run_kernel(scaled, negative, 3, Common, c.out, "sub");
}

Tensor scaled(T g, const Value& alpha) { return is_one(alpha) ? g : g * alpha; }

}  // namespace

static const Op& add_ = def("add(input: Operand, other: Operand, *, alpha: Scalar = 1)",
                            "`input + alpha * other`, elementwise.")
                            .forward(add_forward)
                            .partial(0, nothing, [](T g, C) { return g; })
                            .partial(1, nothing, [](T g, C c) { return scaled(g, c.in(2)); })
                            .inplace();

static const Op& sub_ = def("sub(input: Operand, other: Operand, *, alpha: Scalar = 1)",
                            "`input - alpha * other`, elementwise.")
                            .forward(sub_forward)
                            .partial(0, nothing, [](T g, C) { return g; })
                            .partial(1, nothing, [](T g, C c) { return scaled(-g, c.in(2)); })
                            .inplace()
                            .alias("subtract");

static const Op& mul_ = def("mul(input: Operand, other: Operand)", "`input * other`, elementwise.")
                            .elementwise("mul")
                            .partial(0, input(1), [](T g, C c) { return g * c.in(1); })
                            .partial(1, input(0), [](T g, C c) { return g * c.in(0); })
                            .inplace()
                            .alias("multiply");

static const Op& div_ =
    def("div(input: Operand, other: Operand)",
        "`input / other`, elementwise; integers give floats.")
        .elementwise("div", ToFloat)
        .partial(0, input(1), [](T g, C c) { return g / c.in(1); })
        .partial(1, input(1) | output(), [](T g, C c) { return -(g * c.out() / c.in(1)); })
        .inplace();

static const Op& neg_ = def("neg(input)", "`-input`, elementwise.")
                            .elementwise("neg")
                            .partial(0, nothing, [](T g, C) { return -g; })
                            .inplace()
                            .alias("negative");

static const Op& conj_ =
    def("conj(input)", "The complex conjugate; a real tensor is returned as it is.")
        .forward([](Call& c) -> Value {
          static const Kernel& k = kernel_named("conj");
          if (!is_complex(c.tensor(0).dtype())) return c[0];
          return run_kernel(k, c.args, 1, Common, c.out, "conj");
        })
        .grad(0, nothing, [](T g, C) -> Tensor { return op<"conj">(g); })
        .linear();

static const Op& real_ =
    def("real(input)", "The real part of a complex tensor.")
        .forward([](Call& c) -> Value {
          static const Kernel& k = kernel_named("real");
          if (!is_complex(c.tensor(0).dtype())) return c[0];
          return run_kernel(k, c.args, 1, Common, c.out, "real");
        })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"_to_copy">(g, c.dtype(0)); })
        .linear();

}  // namespace adjoint
