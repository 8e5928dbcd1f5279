// Comparisons and tests of numbers, elementwise, giving bool. None has a derivative.
// Read next: logical.cpp.
#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"
#include "ops/sparse/rules.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

// Whether every element of a dense bool tensor is true.
bool all_true(const Tensor& t) {
  Tensor dense = contiguous(t);
  return dense.numel() == 0 || !std::memchr(dense->data, 0, dense.numel());
}

// |a - b| <= atol + rtol * |b|, or equal (infinities are), or both NaN if that counts.
Tensor close_to(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  if (a.dtype() != b.dtype()) {
    runtime_error(a.dtype(), " did not match ", b.dtype(),
                  ": isclose() and allclose() compare tensors of one dtype; cast one of them");
  }
  if (rtol < 0) runtime_error("rtol must be greater than or equal to zero, but got ", rtol);
  if (atol < 0) runtime_error("atol must be greater than or equal to zero, but got ", atol);
  Tensor close = op<"eq">(a, b);
  if (equal_nan && is_differentiable(a.dtype())) {
    close = op<"logical_or">(close, op<"logical_and">(op<"isnan">(a), op<"isnan">(b)));
  }
  if (rtol == 0 && atol == 0) return close;
  // Integers are compared in the default float, so that differences cannot wrap around.
  Tensor x = a, y = b;
  if (is_integral(a.dtype())) x = cast(a, default_dtype()), y = cast(b, default_dtype());
  Tensor allowed = op<"abs">(y * rtol).tensor() + atol;
  Tensor distance = op<"abs">(x - y);
  Tensor within = op<"logical_and">(op<"isfinite">(distance), op<"le">(distance, allowed));
  return op<"logical_or">(close, within);
}

// isposinf, isneginf and signbit have no meaning for complex numbers.
Value real_test(Call& c) {
  if (is_complex(c.tensor(0).dtype())) {
    runtime_error(c.op.name, " does not support complex inputs.");
  }
  return elementwise_forward(c);
}

}  // namespace

static const Op& eq_ =
    def("eq(input, other: Operand)", "`input == other`, elementwise.").elementwise("eq").inplace();
static const Op& ne_ = def("ne(input, other: Operand)", "`input != other`, elementwise.")
                           .elementwise("ne")
                           .inplace()
                           .alias("not_equal");
static const Op& lt_ = def("lt(input, other: Operand)", "`input < other`, elementwise.")
                           .elementwise("lt")
                           .inplace()
                           .alias("less");
static const Op& le_ = def("le(input, other: Operand)", "`input <= other`, elementwise.")
                           .elementwise("le")
                           .inplace()
                           .alias("less_equal");
static const Op& gt_ = def("gt(input, other: Operand)", "`input > other`, elementwise.")
                           .elementwise("gt")
                           .inplace()
                           .alias("greater");
static const Op& ge_ = def("ge(input, other: Operand)", "`input >= other`, elementwise.")
                           .elementwise("ge")
                           .inplace()
                           .alias("greater_equal");

static const Op& isclose_ =
    def("isclose(input, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False)",
        "Whether |input - other| <= atol + rtol * |other|, elementwise.")
        .forward([](Call& c) -> Value {
          GradMode off(false);
          return close_to(c.tensor(0), c.tensor(1), c.real(2), c.real(3), c.flag(4));
        })
        .no_out()
        .batch(batch::pointwise)
        .any_dtype();

static const Op& allclose_ =
    def("allclose(input, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = "
        "False)",
        "Whether all elements are close: see isclose.")
        .forward([](Call& c) -> Value {
          GradMode off(false);
          return all_true(close_to(c.tensor(0), c.tensor(1), c.real(2), c.real(3), c.flag(4)));
        })
        .no_out()
        .batch(batch::each_sample)
        .by_values()
        .any_dtype();

static const Op& equal_ =
    def("equal(input, other)", "Whether both tensors have the same shape and equal elements.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          if (!(a.shape() == b.shape())) return false;
          GradMode off(false);
          return all_true(op<"eq">(a, b));
        })
        .no_out()
        .batch(batch::each_sample)
        .by_values()
        .any_dtype();

static const Op& isnan_ = def("isnan(input)", "Whether an element is not a number.")
                              .elementwise("isnan")
                              .no_out()
                              .sparse(sparse::on_entries);
static const Op& isinf_ = def("isinf(input)", "Whether an element is infinite.")
                              .elementwise("isinf")
                              .no_out()
                              .sparse(sparse::on_entries);
static const Op& isfinite_ = def("isfinite(input)", "Whether an element is a finite number.")
                                 .elementwise("isfinite")
                                 .no_out();
static const Op& isposinf_ = def("isposinf(input)", "Whether an element is positive infinity.")
                                 .elementwise("isposinf")
                                 .forward(real_test)
                                 .out_dtype(OutDType::Bool)
                                 .sparse(sparse::on_entries);
static const Op& isneginf_ = def("isneginf(input)", "Whether an element is negative infinity.")
                                 .elementwise("isneginf")
                                 .forward(real_test)
                                 .out_dtype(OutDType::Bool)
                                 .sparse(sparse::on_entries);
static const Op& signbit_ =
    def("signbit(input)", "Whether an element is negative; true for -0.0 too.")
        .elementwise("signbit")
        .forward(real_test)
        .out_dtype(OutDType::Bool)
        .sparse(sparse::on_entries);

static const Op& isreal_ = def("isreal(input)", "Whether the imaginary part is zero.")
                               .forward([](Call& c) -> Value {
                                 GradMode off(false);
                                 if (is_complex(c.tensor(0).dtype()))
                                   return op<"eq">(op<"imag">(c[0]), 0);
                                 Tensor out = empty_like(c.tensor(0), DType::Bool);
                                 std::memset(out->data, 1, out.numel());
                                 return out;
                               })
                               .no_out()
                               .batch(batch::pointwise)
                               .any_dtype();

}  // namespace adjoint
