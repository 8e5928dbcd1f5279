// Sums and products, elementwise, and their fused forms. A good file to read first.
// Read next: division.cpp, power.cpp.
#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"
#include "dispatch/scalar_range.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

bool is_one(const Value& v) { return v.kind() == Value::Int && v.integer() == 1; }

bool is_bool(const Value& v) {
  return v.is_tensor() ? v.object()->dtype == DType::Bool : v.kind() == Value::Bool;
}

// A factor such as alpha never decides the dtype of the result; it must fit it.
Value fitting_factor(const Value* operands, int count, const Value& factor, const char* name) {
  DType d = common_dtype(operands, count);
  if (d == DType::Bool && (factor.kind() == Value::Bool || factor.kind() == Value::Int)) {
    return Value(factor.boolean());
  }
  if (factor.kind() == Value::Bool) {
    runtime_error("Boolean ", name, " only supported for Boolean results (the result is ", d, ")");
  }
  if (is_integral(d) && factor.kind() != Value::Int) {
    runtime_error("For integral input tensors, argument ", name,
                  " must not be a floating point number.");
  }
  if (!is_complex(d) && factor.kind() == Value::Complex) {
    runtime_error("For non-complex input tensors, argument ", name,
                  " must not be a complex number.");
  }
  require_fits(factor, d);
  return factor;
}

// addcmul and addcdiv are more lenient than add: the factor is converted.
Value converted_factor(Call& c) {
  DType d = common_dtype(c.args, 3);
  require_fits(c[3], d);
  if (is_integral(d) || c[3].kind() == Value::Bool) return Value(c[3].integer());
  return c[3];
}

Value negated(const Value& v) {
  if (v.kind() == Value::Int) return Value(-v.integer());
  if (v.kind() == Value::Double) return Value(-v.real());
  return Value(-v.complex());
}

// add and sub: with alpha = 1 a kernel of two operands, otherwise a + alpha * b.
Value add_forward(Call& c) {
  static const Kernel &plain = kernel_named("add"), &scaled = kernel_named("add_scaled");
  if (is_one(c[2])) return run_kernel(plain, c.args, 2, Common, c.out, "add");
  Value v[3] = {c[0], c[1], fitting_factor(c.args, 2, c[2], "alpha")};
  return run_kernel(scaled, v, 3, Common, c.out, "add");
}

void refuse_bool_subtraction(Call& c) {
  if (is_bool(c[0]) && is_bool(c[1])) {
    runtime_error(
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
        "`logical_xor()` operator instead.");
  }
  if (is_bool(c[0]) || is_bool(c[1])) {
    runtime_error(
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
        "to invert a mask, use the `~` or `logical_not()` operator instead.");
  }
}

Value sub_forward(Call& c) {
  static const Kernel &plain = kernel_named("sub"), &scaled = kernel_named("add_scaled");
  refuse_bool_subtraction(c);
  if (is_one(c[2])) return run_kernel(plain, c.args, 2, Common, c.out, "sub");
  Value v[3] = {c[0], c[1], negated(fitting_factor(c.args, 2, c[2], "alpha"))};
  return run_kernel(scaled, v, 3, Common, c.out, "sub");
}

Value rsub_forward(Call& c) {
  static const Kernel& k = kernel_named("rsub_scaled");
  refuse_bool_subtraction(c);
  Value v[3] = {c[0], c[1], fitting_factor(c.args, 2, c[2], "alpha")};
  return run_kernel(k, v, 3, Common, c.out, "rsub");
}

Value addcmul_forward(Call& c) {
  static const Kernel& k = kernel_named("addcmul");
  if (common_dtype(c.args, 3) == DType::Bool)
    not_implemented("\"addcmul\" not implemented for dtype bool");
  Value v[4] = {c[0], c[1], c[2], converted_factor(c)};
  return run_kernel(k, v, 4, Common, c.out, "addcmul");
}

Value addcdiv_forward(Call& c) {
  static const Kernel& k = kernel_named("addcdiv");
  if (is_integral(c.tensor(1).dtype()) && is_integral(c.tensor(2).dtype())) {
    runtime_error(
        "Integer division with addcdiv is no longer supported, and in a future release addcdiv "
        "will perform a true division of tensor1 and tensor2. Use (input + value * "
        "torch.trunc(tensor1 / tensor2)) for integer inputs.");
  }
  Value v[4] = {c[0], c[1], c[2], converted_factor(c)};
  return run_kernel(k, v, 4, Common, c.out, "addcdiv");
}

Value lerp_forward(Call& c) {
  static const Kernel& k = kernel_named("lerp");
  DType d = c.tensor(0).dtype();
  for (int i = 1; i < 3; ++i) {
    if (c[i].is_tensor() && c.tensor(i).dtype() != d) {
      runtime_error("expected dtype ", d, " for `", i == 1 ? "end" : "weight", "` but got dtype ",
                    c.tensor(i).dtype());
    }
  }
  if (is_integral(d)) not_implemented("\"lerp\" not implemented for dtype ", d);
  require_fits(c[2], d);
  return run_kernel(k, c.args, 3, Common, c.out, "lerp");
}

Value neg_forward(Call& c) {
  static const Kernel& k = kernel_named("neg");
  if (is_bool(c[0])) {
    runtime_error(
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead.");
  }
  return run_kernel(k, c.args, 1, Common, c.out, "neg");
}

Value one_minus(const Value& w) {
  if (w.is_tensor()) return op<"rsub">(w, 1);
  return w.kind() == Value::Complex ? Value(1.0 - w.complex()) : Value(1.0 - w.real());
}

Tensor scaled(T g, const Value& alpha) { return is_one(alpha) ? g : g * alpha; }

// The older order of arguments, x.add_(-lr, g): the same op with its factor in the second place.
template <OpName Name>
Value factor_second(Call& c) {
  static const Op& modern = find_op({Name.text, sizeof(Name.text) - 1});
  int last = c.op.argument_count - 1;
  Value v[kMaxArguments] = {c[0]};
  for (int i = 1; i < last; ++i) v[i] = c[i + 1];
  v[last] = c[1];
  Call same{modern, v, c.out};
  return modern.forward(same);
}

}  // namespace

static const Op& add_ = def("add(input: Operand, other: Operand, *, alpha: Scalar = 1)",
                            "`input + alpha * other`, elementwise.")
                            .forward(add_forward)
                            .direct("add", 2)
                            .partial(0, nothing, [](T g, C) { return g; })
                            .partial(1, nothing, [](T g, C c) { return scaled(g, c.in(2)); })
                            .inplace()
                            .cheap()
                            .takes_numbers()
                            .sparse(sparse::add);

static const Op& add_alpha_ = def("add.alpha(input, alpha: Scalar, other: Operand)",
                                  "`input + alpha * other`: an older order of the arguments.")
                                  .forward(factor_second<"add">)
                                  .partial(0, nothing, [](T g, C) { return g; })
                                  .partial(2, nothing, [](T g, C c) { return scaled(g, c.in(1)); })
                                  .inplace()
                                  .cheap()
                                  .takes_numbers();

static const Op& sub_ =
    def("sub(input: Operand, other: Operand, *, alpha: Scalar = 1)",
        "`input - alpha * other`, elementwise.")
        .forward(sub_forward)
        .direct("sub", 2)
        .partial(0, nothing, [](T g, C) { return g; })
        .partial(1, nothing, [](T g, C c) { return scaled(-g, c.in(2)); })
        .inplace()
        .node([](const Value* v) { return v[0].is_tensor() ? "SubBackward0" : "RsubBackward1"; })
        .alias("subtract")
        .cheap()
        .takes_numbers()
        .sparse(sparse::sub);

static const Op& sub_alpha_ = def("sub.alpha(input, alpha: Scalar, other: Operand)",
                                  "`input - alpha * other`: an older order of the arguments.")
                                  .forward(factor_second<"sub">)
                                  .partial(0, nothing, [](T g, C) { return g; })
                                  .partial(2, nothing, [](T g, C c) { return scaled(-g, c.in(1)); })
                                  .inplace()
                                  .cheap()
                                  .takes_numbers();

static const Op& rsub_ =
    def("rsub(input, other: Operand, *, alpha: Scalar = 1)",
        "`other - alpha * input`, elementwise.")
        .forward(rsub_forward)
        .partial(0, nothing, [](T g, C c) { return scaled(-g, c.in(2)); })
        .partial(1, nothing, [](T g, C) { return g; })
        .node([](const Value* v) { return v[1].is_tensor() ? "RsubBackward0" : "RsubBackward1"; })
        .function_only()
        .cheap();

static const Op& mul_ = def("mul(input: Operand, other: Operand)", "`input * other`, elementwise.")
                            .elementwise("mul")
                            .partial(0, input(1), [](T g, C c) { return g * c.in(1); })
                            .partial(1, input(0), [](T g, C c) { return g * c.in(0); })
                            .is_product()
                            .reads_grad_once()
                            .inplace()
                            .alias("multiply")
                            .cheap()
                            .takes_numbers()
                            .sparse(sparse::mul);

static const Op& neg_ = def("neg(input)", "`-input`, elementwise.")
                            .elementwise("neg")
                            .forward(neg_forward)  // where the direct loop does not serve
                            .partial(0, nothing, [](T g, C) { return -g; })
                            .reads_grad_once()
                            .inplace()
                            .alias("negative")
                            .cheap()
                            .sparse(sparse::linear_on_entries);

static const Op& positive_ =
    def("positive(input)", "`+input`: the tensor itself; bool has no sign and is refused.")
        .forward([](Call& c) -> Value {
          if (is_bool(c[0])) {
            runtime_error("The `+` operator, on a bool tensor is not supported.");
          }
          return c[0];
        })
        .no_out()
        .sparse(sparse::linear_on_entries);

static const Op& addcmul_ =
    def("addcmul(input, tensor1, tensor2, *, value: Scalar = 1)",
        "`input + value * tensor1 * tensor2`, elementwise.")
        .forward(addcmul_forward)
        .partial(0, nothing, [](T g, C) { return g; })
        .partial(1, input(2), [](T g, C c) { return mul_scaled(g, c.in(2), c.in(3)); })
        .partial(2, input(1), [](T g, C c) { return mul_scaled(g, c.in(1), c.in(3)); })
        .inplace();

static const Op& addcdiv_ =
    def("addcdiv(input, tensor1, tensor2, *, value: Scalar = 1)",
        "`input + value * tensor1 / tensor2`, elementwise.")
        .forward(addcdiv_forward)
        .partial(0, nothing, [](T g, C) { return g; })
        .partial(1, input(2), [](T g, C c) { return scaled(g, c.in(3)) / c.in(2); })
        .partial(2, input(1) | input(2),
                 [](T g, C c) {
                   return neg_mul_div(scaled(g, c.in(3)), c.tensor(1) / c.in(2), c.in(2));
                 })
        .inplace();

static const Op& addcmul_value_ =
    def("addcmul.value(input, value: Scalar, tensor1, tensor2)",
        "`input + value * tensor1 * tensor2`: an older order of the arguments.")
        .forward(factor_second<"addcmul">)
        .partial(0, nothing, [](T g, C) { return g; })
        .partial(2, input(3), [](T g, C c) { return mul_scaled(g, c.in(3), c.in(1)); })
        .partial(3, input(2), [](T g, C c) { return mul_scaled(g, c.in(2), c.in(1)); })
        .inplace();

static const Op& addcdiv_value_ =
    def("addcdiv.value(input, value: Scalar, tensor1, tensor2)",
        "`input + value * tensor1 / tensor2`: an older order of the arguments.")
        .forward(factor_second<"addcdiv">)
        .partial(0, nothing, [](T g, C) { return g; })
        .partial(2, input(3), [](T g, C c) { return scaled(g, c.in(1)) / c.in(3); })
        .partial(3, input(2) | input(3),
                 [](T g, C c) {
                   return neg_mul_div(scaled(g, c.in(1)), c.tensor(2) / c.in(3), c.in(3));
                 })
        .inplace();

static const Op& lerp_ =
    def("lerp(input, end, weight: Operand)",
        "`input + weight * (end - input)`, elementwise; exact at weights 0 and 1.")
        .forward(lerp_forward)
        .partial(0, input(2), [](T g, C c) -> Tensor { return g * one_minus(c.in(2)); })
        .partial(1, input(2), [](T g, C c) { return g * c.in(2); })
        .partial(2, input(0) | input(1), [](T g, C c) { return g * (c.tensor(1) - c.in(0)); })
        .inplace()
        .node([](const Value* v) { return v[2].is_tensor() ? "LerpBackward1" : "LerpBackward0"; })
        .out_dtype([](const Value* args) {
          return args[2].is_tensor() ? OutDType::Exact : OutDType::Converts;
        });

}  // namespace adjoint
