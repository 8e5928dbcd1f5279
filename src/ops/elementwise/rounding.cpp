// Rounding, signs and steps, elementwise: derivatives that are 0 or pass the gradient on.
#include <cmath>

#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Tensor flat(T g, C) { return zeros_of(g); }

Value round_forward(Call& c) {
  static const Kernel &whole = kernel_named("round"), &at = kernel_named("round_at");
  int64_t decimals = c.integer(1);
  if (decimals == 0 || is_integral(c.tensor(0).dtype())) {
    if (decimals != 0) {
      not_implemented("round_cpu: \"round_vml_cpu\" not implemented for dtype ",
                      c.tensor(0).dtype(), " with decimals=", decimals);
    }
    return run_kernel(whole, c.args, 1, Common, c.out, "round");
  }
  Value v[3] = {c[0], std::pow(10.0, std::abs(static_cast<double>(decimals))), 0.0};
  if (decimals < 0) std::swap(v[1], v[2]);
  return run_kernel(at, v, 3, Common, c.out, "round");
}

Value abs_forward(Call& c) {
  static const Kernel& k = kernel_named("abs");
  if (c.out && is_complex(c.out.dtype())) {
    runtime_error("In-place abs is not supported for complex tensors.");
  }
  return run_kernel(k, c.args, 1, Common, c.out, "abs");
}

// sgn of complex numbers is z / |z|: only the part of g across z turns it.
Tensor sgn_rule(T g, C c) {
  if (!is_complex(g.dtype())) return zeros_of(g);
  Tensor size = op<"abs">(c.in(0)), sgn = op<"sgn">(c.in(0));
  Tensor along = sgn * op<"real">(g * op<"conj_physical">(sgn));
  return op<"where">(op<"eq">(size, 0), 0.0, (g - along) / size);
}

}  // namespace

static const Op& floor_ = def("floor(input)", "The largest whole number not above, elementwise.")
                              .elementwise("floor")
                              .partial(0, nothing, flat)
                              .inplace()
                              .flat()
                              .sparse(sparse::on_entries);
static const Op& ceil_ = def("ceil(input)", "The smallest whole number not below, elementwise.")
                             .elementwise("ceil")
                             .partial(0, nothing, flat)
                             .inplace()
                             .flat()
                             .sparse(sparse::on_entries);
static const Op& trunc_ = def("trunc(input)", "The whole part, towards zero, elementwise.")
                              .elementwise("trunc")
                              .partial(0, nothing, flat)
                              .inplace()
                              .alias("fix")
                              .flat()
                              .sparse(sparse::on_entries);
static const Op& frac_ = def("frac(input)", "What trunc takes off: input - trunc(input).")
                             .elementwise("frac")
                             .partial(0, nothing, [](T g, C) { return g; })
                             .inplace()
                             .sparse(sparse::on_entries);
static const Op& round_ =
    def("round(input, *, decimals: int = 0)",
        "The nearest multiple of 10**-decimals; halves go to the even neighbour.")
        .forward(round_forward)
        .partial(0, nothing, flat)
        .inplace()
        .node([](const Value* v) { return v[1].integer() ? "RoundBackward1" : "RoundBackward0"; })
        .flat()
        .out_dtype(OutDType::Input)
        .sparse(sparse::on_entries);

static const Op& sign_ = def("sign(input)", "-1, 0 or 1, elementwise.")
                             .elementwise("sign")
                             .partial(0, nothing, flat)
                             .inplace()
                             .cheap()
                             .flat()
                             .sparse(sparse::on_entries);

static const Op& sgn_ =
    def("sgn(input)", "sign(input); for complex numbers input / |input|, and 0 at zero.")
        .forward([](Call& c) -> Value {
          static const Kernel &real = kernel_named("sign"), &complex = kernel_named("sgn");
          bool z = is_complex(c.tensor(0).dtype());
          return run_kernel(z ? complex : real, c.args, 1, Common, c.out, "sgn");
        })
        .grad(0, input(0), sgn_rule)
        .jvp([](C c, const Tensor* t) -> Value { return sgn_rule(t[0], c); })
        .inplace()
        .batch(batch::pointwise)
        .depends(Depends::Pointwise)
        .out_dtype(OutDType::Input)
        .zero_text("is flat: its derivative is 0 everywhere")
        .sparse(sparse::on_entries);

static const Op& abs_ =
    def("abs(input)", "The absolute value, elementwise; the modulus of complex numbers.")
        .forward(abs_forward)
        .grad(0, input(0),
              [](T g, C c) -> Tensor {
                Tensor x = c.in(0);
                if (is_complex(x.dtype())) return g * op<"sgn">(x);
                return op<"_abs_grad">(g, x);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor x = c.in(0);
          if (!is_complex(x.dtype())) return op<"_abs_grad">(t[0], x);
          return op<"real">(t[0] * op<"conj_physical">(op<"sgn">(x)));
        })
        .inplace()
        .alias("absolute")
        .batch(batch::pointwise)
        .depends(Depends::Pointwise)
        .cheap()
        .out_dtype([](const Value* args) {
          return is_complex(args[0].object()->dtype) ? OutDType::Converts : OutDType::Input;
        })
        .sparse(sparse::on_entries);

static const Op& copysign_ =
    def("copysign(input, other: Operand)", "The size of `input` with the sign of `other`.")
        .elementwise("copysign", ToFloat)
        .partial(0, input(0) | output(),
                 [](T g, C c) -> Tensor {
                   Tensor flip = op<"sgn">(c.in(0)).tensor() * op<"sgn">(c.out());
                   return g * flip;
                 })
        .partial(1, nothing, flat)
        .inplace()
        .node([](const Value* v) {
          return v[1].is_tensor() ? "CopysignBackward0" : "CopysignBackward1";
        });

static const Op& heaviside_ =
    def("heaviside(input, values)", "0 below zero, 1 above, `values` at zero.")
        .forward([](Call& c) -> Value {
          if (c.tensor(0).dtype() != c.tensor(1).dtype()) {
            runtime_error("heaviside is not yet implemented for tensors with different dtypes (",
                          c.tensor(0).dtype(), " and ", c.tensor(1).dtype(), ").");
          }
          static const Kernel& k = kernel_named("heaviside");
          return run_kernel(k, c.args, 2, Common, c.out, "heaviside");
        })
        .partial(0, nothing, flat)
        .partial(1, input(0), [](T g, C c) { return g * op<"eq">(c.in(0), 0).tensor(); })
        .inplace()
        .flat()
        .out_dtype(OutDType::Exact);

namespace {

// The neighbour of x among 16-bit floats, whose bits are a sign and a number that grows with |x|.
uint16_t neighbour(uint16_t bits, float x, float y, uint16_t toward) {
  constexpr uint16_t kSign = 0x8000;
  if (x == y) return toward;
  if (std::isnan(x)) return bits;
  if (std::isnan(y)) return toward;
  if (x == 0) return static_cast<uint16_t>((toward & kSign) | 1);
  return static_cast<uint16_t>((x < y) == (x > 0) ? bits + 1 : bits - 1);
}

// A step of float32, in which 16-bit floats compute, would be lost when rounded back.
Tensor next_after_half(const Tensor& a, const Tensor& b, DType d) {
  GradMode off(false);
  Dims shape = broadcast_shapes(a.shape(), b.shape());
  Tensor x = contiguous(op<"expand">(cast(a, d), shape));
  Tensor y = contiguous(op<"expand">(cast(b, d), shape));
  Tensor wide_x = cast(x, DType::Float32), wide_y = cast(y, DType::Float32);
  Tensor out = empty(shape, d);
  const auto *from = reinterpret_cast<const uint16_t*>(x.bytes()),
             *toward = reinterpret_cast<const uint16_t*>(y.bytes());
  const float *fx = wide_x.data<float>(), *fy = wide_y.data<float>();
  auto* to = reinterpret_cast<uint16_t*>(out.bytes());
  for (int64_t i = 0; i < out.numel(); ++i) to[i] = neighbour(from[i], fx[i], fy[i], toward[i]);
  return out;
}

}  // namespace

static const Op& nextafter_ =
    def("nextafter(input, other)", "The next number after `input` in the direction of `other`.")
        .elementwise("nextafter")
        .forward([](Call& c) -> Value {
          DType d = promote_types(c.tensor(0).dtype(), c.tensor(1).dtype());
          if (is_half(d)) return next_after_half(c.tensor(0), c.tensor(1), d);
          return elementwise_forward(c);
        })
        .partial(0, input(0) | input(1),
                 [](T g, C c) { return g * op<"ne">(c.in(0), c.in(1)).tensor(); })
        .partial(1, nothing, flat)
        .inplace();

}  // namespace adjoint
