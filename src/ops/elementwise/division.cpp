// Quotients, remainders and reciprocals, elementwise. Read next: power.cpp.
#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Value div_mode_forward(Call& c) {
  static const Kernel &exact = kernel_named("div"), &trunc = kernel_named("trunc_divide"),
                      &floor = kernel_named("floor_divide");
  if (c[2].is_none()) return run_kernel(exact, c.args, 2, ToFloat, c.out, "div");
  const std::string& mode = c[2].str();
  if (mode == "trunc") return run_kernel(trunc, c.args, 2, Common, c.out, "div_trunc");
  if (mode == "floor") return run_kernel(floor, c.args, 2, Common, c.out, "div_floor");
  runtime_error("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
                mode, "'");
}

Tensor by_divisor(T g, C c) { return g / c.in(1); }
// From the operands, as PyTorch does: the quotient is then free to be changed in place.
Tensor of_divisor(T g, C c) { return divisor_grad(g, c.in(0), c.in(1)); }

// Of fmod and remainder: -(input rounded-divided by other).
template <OpName Mode>
Tensor minus_quotient(T g, C c) {
  Value q = op<"div.mode">(c.in(0), c.in(1), Mode.text);
  return -(g * q);
}

}  // namespace

static const Op& div_ = def("div(input: Operand, other: Operand)",
                            "`input / other`, elementwise; integers give floats.")
                            .elementwise("div", ToFloat)
                            .partial(0, input(1), by_divisor)
                            .partial(1, input(0) | input(1), of_divisor)
                            .reads_grad_once()
                            .inplace()
                            .alias("divide")
                            .alias("true_divide")
                            .takes_numbers()
                            .sparse(sparse::div);

static const Op& div_mode_ =
    def("div.mode(input: Operand, other: Operand, *, rounding_mode: str?)",
        "`input / other`; rounding_mode 'trunc' rounds the quotient towards zero, 'floor' down.")
        .forward(div_mode_forward)
        .partial(0, input(1),
                 [](T g, C c) { return c.in(2).is_none() ? by_divisor(g, c) : zeros_of(g); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return c.in(2).is_none() ? of_divisor(g, c) : zeros_of(g); })
        .inplace()
        .node("DivBackward2")
        .alias("divide")
        .takes_numbers()
        .sparse(sparse::rounded_div);

static const Op& floor_divide_ =
    def("floor_divide(input: Operand, other: Operand)",
        "The quotient rounded down; an integer divided by zero raises an error.")
        .elementwise("floor_divide")
        .partial(0, nothing, [](T g, C) { return zeros_of(g); })
        .partial(1, nothing, [](T g, C) { return zeros_of(g); })
        .inplace()
        .flat()
        .takes_numbers()
        .sparse(sparse::rounded_div);

static const Op& remainder_ =
    def("remainder(input: Operand, other: Operand)",
        "What floor division leaves, with the sign of `other`: Python's `%`.")
        .elementwise("remainder")
        .partial(0, nothing, [](T g, C) { return g; })
        .partial(1, input(0) | input(1), minus_quotient<"floor">)
        .inplace()
        .node([](const Value* v) {
          return v[1].is_tensor() ? "RemainderBackward1" : "RemainderBackward0";
        });

static const Op& fmod_ =
    def("fmod(input, other: Operand)",
        "What division rounded towards zero leaves, with the sign of `input`.")
        .elementwise("fmod")
        .partial(0, nothing, [](T g, C) { return g; })
        .partial(1, input(0) | input(1), minus_quotient<"trunc">)
        .inplace()
        .node([](const Value* v) { return v[1].is_tensor() ? "FmodBackward1" : "FmodBackward0"; });

static const Op& reciprocal_ =
    def("reciprocal(input)", "`1 / input`, elementwise.")
        .elementwise("reciprocal", ToFloat)
        .partial(0, output(), [](T g, C c) { return -(g * op<"square">(c.out())); })
        .inplace();

static const Op& gcd_ =
    def("gcd(input, other)", "The greatest common divisor of integers, never negative.")
        .elementwise("gcd")
        .inplace();

static const Op& lcm_ =
    def("lcm(input, other)", "The least common multiple of integers, never negative.")
        .elementwise("lcm")
        .inplace();

}  // namespace adjoint
