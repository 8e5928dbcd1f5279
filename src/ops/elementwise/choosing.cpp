// Choosing between values, elementwise: where, clamp, the larger and smaller of two, nan_to_num.
#include <cmath>
#include <limits>

#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"
#include "dispatch/scalar_range.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Value choose(Call& c, int condition, int first, int second) {
  static const Kernel& k = kernel_named("where");
  Tensor mask = c.tensor(condition);
  if (mask.dtype() != DType::Bool && mask.dtype() != DType::UInt8) {
    runtime_error("where expected condition to be a boolean tensor, but got a tensor with dtype ",
                  mask.dtype());
  }
  Value v[3] = {cast(mask, DType::Bool), c[first], c[second]};
  if (v[1].is_scalar() || v[2].is_scalar()) {
    DType d = common_dtype(v + 1, 2);
    for (int i = 1; i < 3 && is_integral(d); ++i) require_fits(v[i], d);
  }
  return run_kernel(k, v, 3, Common, c.out, "where");
}

template <int Condition>
Tensor where_true(T g, C c) {
  return op<"where">(c.in(Condition), g, 0.0);
}
template <int Condition>
Tensor where_false(T g, C c) {
  return op<"where">(c.in(Condition), 0.0, g);
}

// --- clamp: argument 1 is the lower bound, 2 the upper one; either may be None ------------------
Value clamp_forward(Call& c) {
  static const Kernel &both = kernel_named("clamp"), &low = kernel_named("clamp_min"),
                      &high = kernel_named("clamp_max");
  if (c[1].is_none() && c[2].is_none()) {
    runtime_error("torch.clamp: At least one of 'min' or 'max' must not be None");
  }
  DType d = common_dtype(c.args, 3);
  require_fits(c[1], d);
  require_fits(c[2], d);
  if (c[2].is_none()) return run_kernel(low, c.args, 2, Common, c.out, "clamp");
  if (c[1].is_none()) {
    Value v[2] = {c[0], c[2]};
    return run_kernel(high, v, 2, Common, c.out, "clamp");
  }
  return run_kernel(both, c.args, 3, Common, c.out, "clamp");
}

Tensor clamp_input(T g, C c) {
  Value x = c.in(0), low = c.in(1), high = c.in(2);
  if (!low.is_tensor() && !high.is_tensor()) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    return op<"_clamp_grad">(g, x, low ? low : Value(-inf), high ? high : Value(inf));
  }
  if (!high) return pass_where(op<"ge">(x, low), g);
  if (!low) return pass_where(op<"le">(x, high), g);
  return pass_where(op<"logical_and">(op<"ge">(x, low), op<"le">(x, high)), g);
}

Tensor clamp_low(T g, C c) {
  Value x = c.in(0), low = c.in(1), high = c.in(2);
  Value below = op<"lt">(x, low);
  if (high) below = op<"logical_and">(below, op<"lt">(low, high));
  return pass_where(below, g);
}

Tensor clamp_high(T g, C c) {
  Value x = c.in(0), low = c.in(1), high = c.in(2);
  Value above = op<"gt">(x, high);
  if (low) above = op<"logical_or">(above, op<"lt">(high, low));
  return pass_where(above, g);
}

// Whether fmax takes the first argument: it is larger, or the other is NaN.
Value takes_first(C c, bool larger) {
  Value order = larger ? op<"ge">(c.in(0), c.in(1)) : op<"le">(c.in(0), c.in(1));
  return op<"logical_or">(order, op<"isnan">(c.in(1)));
}

// --- nan_to_num --------------------------------------------------------------------------------
double largest(DType d) {
  if (d == DType::Float16) return 65504.0;
  if (d == DType::BFloat16) return 3.3895313892515355e38;
  if (real_dtype(d) == DType::Float32) return std::numeric_limits<float>::max();
  return std::numeric_limits<double>::max();
}

Value nan_to_num_forward(Call& c) {
  static const Kernel &k = kernel_named("nan_to_num"), &copy = kernel_named("positive");
  Tensor x = c.tensor(0);
  if (is_integral(x.dtype())) return run_kernel(copy, c.args, 1, Common, c.out, "nan_to_num");
  double limit = largest(x.dtype());
  Value nan = c[1].is_none() ? Value(0.0) : c[1], high = c[2].is_none() ? Value(limit) : c[2],
        low = c[3].is_none() ? Value(-limit) : c[3];
  if (!is_complex(x.dtype())) {
    Value v[4] = {x, nan, high, low};
    return run_kernel(k, v, 4, Common, c.out, "nan_to_num");
  }
  GradMode off(false);
  Tensor parts = op<"nan_to_num">(op<"view_as_real">(alias(x)), nan, high, low);
  return op<"view_as_complex">(contiguous(parts));
}

}  // namespace

static const Op& where_ =
    def("where(condition, input: Operand, other: Operand)",
        "`input` where the condition is true, `other` elsewhere.")
        .forward([](Call& c) -> Value { return choose(c, 0, 1, 2); })
        .partial(1, input(0), where_true<0>)
        .partial(2, input(0), where_false<0>)
        .function_only()
        .batch(batch::pointwise_from<1>)
        .cheap()
        .out_dtype(OutDType::Exact)
        .zero_text("passes nothing on to the side that was not chosen: here it never was");

static const Op& where_method_ =
    def("where.method(input, condition, other: Operand)",
        "The tensor where the condition is true, `other` elsewhere.")
        .forward([](Call& c) -> Value { return choose(c, 1, 0, 2); })
        .partial(0, input(1), where_true<1>)
        .partial(2, input(1), where_false<1>)
        .method_only()
        .batch(batch::pointwise_from<1>)
        .cheap()
        .out_dtype(OutDType::Exact)
        .zero_text("passes nothing on to the side that was not chosen: here it never was");

static const Op& clamp_ =
    def("clamp(input, min: Operand? = None, max: Operand? = None)",
        "The input limited to [min, max], elementwise; either bound may be None. Where the bounds "
        "cross, the result is max.")
        .forward(clamp_forward)
        .partial(0, input(0) | input(1) | input(2), clamp_input)
        .partial(1, input(0) | input(1) | input(2), clamp_low)
        .partial(2, input(0) | input(1) | input(2), clamp_high)
        .inplace()
        .node([](const Value* v) {
          return v[1].is_tensor() || v[2].is_tensor() ? "ClampBackward0" : "ClampBackward1";
        })
        .alias("clip")
        .cheap()
        .out_dtype([](const Value* args) {
          bool tensors = args[1].is_tensor() || args[2].is_tensor();
          return tensors ? OutDType::Converts : OutDType::Exact;
        })
        .zero_text("passes nothing on outside its bounds: all elements are outside");

static const Op& clamp_min_ =
    def("clamp_min(input, min: Operand)", "The input, but not below min.")
        .elementwise("clamp_min")
        .partial(0, input(0) | input(1),
                 [](T g, C c) { return pass_where(op<"ge">(c.in(0), c.in(1)), g); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return pass_where(op<"lt">(c.in(0), c.in(1)), g); })
        .inplace()
        .node([](const Value* v) {
          return v[1].is_tensor() ? "ClampMinBackward1" : "ClampMinBackward0";
        })
        .zero_text("passes nothing on outside its bounds: all elements are outside");

static const Op& clamp_max_ =
    def("clamp_max(input, max: Operand)", "The input, but not above max.")
        .elementwise("clamp_max")
        .partial(0, input(0) | input(1),
                 [](T g, C c) { return pass_where(op<"le">(c.in(0), c.in(1)), g); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) { return pass_where(op<"gt">(c.in(0), c.in(1)), g); })
        .inplace()
        .node([](const Value* v) {
          return v[1].is_tensor() ? "ClampMaxBackward1" : "ClampMaxBackward0";
        })
        .zero_text("passes nothing on outside its bounds: all elements are outside");

static const Op& maximum_ =
    def("maximum(input, other)",
        "The larger of two, elementwise; NaN if either is. The gradient is shared at ties.")
        .elementwise("maximum")
        .partial(0, input(0) | input(1),
                 [](T g, C c) -> Tensor { return op<"_max_grad">(g, c.in(0), c.in(1)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor { return op<"_max_grad">(g, c.in(1), c.in(0)); })
        .cheap()
        .zero_text("passes the gradient on to the one that won: here it never did");

static const Op& minimum_ =
    def("minimum(input, other)",
        "The smaller of two, elementwise; NaN if either is. The gradient is shared at ties.")
        .elementwise("minimum")
        .partial(0, input(0) | input(1),
                 [](T g, C c) -> Tensor { return op<"_max_grad">(g, c.in(1), c.in(0)); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor { return op<"_max_grad">(g, c.in(0), c.in(1)); })
        .cheap()
        .zero_text("passes the gradient on to the one that won: here it never did");

static const Op& fmax_ =
    def("fmax(input, other)", "The larger of two, elementwise; a number wins over NaN.")
        .elementwise("fmax")
        .partial(0, input(0) | input(1),
                 [](T g, C c) { return pass_where(takes_first(c, true), g); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor { return op<"where">(takes_first(c, true), 0.0, g); });

static const Op& fmin_ =
    def("fmin(input, other)", "The smaller of two, elementwise; a number wins over NaN.")
        .elementwise("fmin")
        .partial(0, input(0) | input(1),
                 [](T g, C c) { return pass_where(takes_first(c, false), g); })
        .partial(1, input(0) | input(1),
                 [](T g, C c) -> Tensor { return op<"where">(takes_first(c, false), 0.0, g); });

static const Op& nan_to_num_ =
    def("nan_to_num(input, nan: float? = None, posinf: float? = None, neginf: float? = None)",
        "NaN replaced by 0 and infinities by the largest finite numbers, or by those given.")
        .forward(nan_to_num_forward)
        .partial(0, input(0), [](T g, C c) { return g * op<"isfinite">(c.in(0)); })
        .inplace()
        .out_dtype(OutDType::Input)
        .sparse(sparse::on_entries);

}  // namespace adjoint
