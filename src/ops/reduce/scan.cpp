// Running sums and extrema along an axis. The loops are in kernels/reduce/scan.h.
// Read next: products.cpp, for running products.
#include "ops/reduce/scan.h"

#include "ops/shape/along_axis.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {

using T = const Tensor&;
using C = Context&;

Tensor scanned(scan::Kind kind, Tensor t, int64_t dim, DType result) {
  int axis = wrap_dim(dim, t.ndim());
  DType d = is_integral(result) ? DType::Int64 : compute_dtype(result);
  // Narrow integers wrap around at every step, which is what the low bits of int64 do.
  t = contiguous(cast(t, is_integral(result) ? result : d));
  t = cast(t, d);
  Tensor out = empty(t.shape(), d);
  scan::Shape s = around(t.shape(), axis);
  {
    WithoutGil release(t.numel() >= kReleaseGil);
    scan::run(kind, d, t->data, out->data, s);
  }
  return cast(out, result);
}

DType scan_dtype(T t, const Value& dtype) {
  return !dtype.is_none() ? dtype.dtype() : is_integral(t.dtype()) ? DType::Int64 : t.dtype();
}

// cumsum_ and cumprod_ cannot compute in another dtype than the one they write.
void check_inplace_dtype(const Call& c) {
  if (!c.out || c[2].is_none() || c[2].dtype() == c.out.dtype()) return;
  runtime_error("Bad in-place call: input tensor dtype ", c.out.dtype(),
                " and output tensor dtype ", c[2].dtype(),
                " should match; fix: leave dtype out of ", c.op.name, "_()");
}

Tensor reversed_cumsum(T g, const Value& dim) { return op<"_cumsum_from_end">(g, dim); }

namespace {

Value running(Call& c, bool largest) {
  Tensor t = c.tensor(0);
  if (is_complex(t.dtype()))
    not_implemented("\"", c.op.name, "\" not implemented for '", t.dtype(), "'");
  int axis = wrap_dim(c.integer(1), t.ndim());
  Tensor x = contiguous(cast(t, compute_dtype(t.dtype())));
  Tensor values = empty(t.shape(), x.dtype()), index = empty(t.shape(), DType::Int64);
  scan::Shape s = around(t.shape(), axis);
  {
    WithoutGil release(t.numel() >= kReleaseGil);
    scan::running_extremum(largest, x.dtype(), x->data, values->data, index.data<int64_t>(), s);
  }
  return Tensors{cast(values, t.dtype()), index};
}

void running_vjp(C c, Tensor* grads) {
  Span shape = c.shape(0);
  int axis = wrap_dim(c.in(1).integer(), shape.n);
  Tensor g = c.grad(0);
  grads[0] = shape.n == 0 ? g : op<"_scatter_along">(g, c.out(1), shape[axis], axis).tensor();
}

Value running_tangent(C c, const Tensor* t) {
  if (t[0].ndim() == 0) return t[0];
  return op<"_gather_along">(t[0], c.out(1), c.in(1));
}

// log(max(part, 0)). The lowest finite number stands for log(0): infinities would leave inf - inf.
// NaN stays NaN. The inner selection keeps the derivative of log away from zero.
Tensor log_of_positive(T part) {
  double low = part.dtype() == DType::Float16   ? -65504.0
               : part.dtype() == DType::Float64 ? -__DBL_MAX__
                                                : -0x1.fep127;
  Tensor none = op<"le">(part, 0);
  return op<"where">(none, low, op<"log">(op<"where">(none, 1.0, part)));
}

// In logarithms, so that nothing overflows: positive and negative gradients apart.
Tensor logcumsumexp_grad(T g, C c) {
  Tensor x = c.tensor(0), out = c.out();
  if (x.ndim() == 0) return g;
  if (x.numel() == 0) return g;
  Dims axis{c.in(1).integer()};
  auto weighted = [&](T log) -> Tensor {
    Tensor sum = op<"flip">(op<"logcumsumexp">(op<"flip">(log - out, axis), c.in(1)), axis);
    return op<"exp">(sum + x);
  };
  if (is_complex(x.dtype())) return op<"conj">(weighted(op<"log">(op<"conj">(g))));
  auto half = [&](T part) -> Tensor { return weighted(log_of_positive(part)); };
  return half(g) - half(-g);
}

Value logcumsumexp_tangent(C c, const Tensor* t) {
  Tensor x = c.tensor(0), out = c.out();
  if (x.ndim() == 0 || x.numel() == 0) return t[0];
  auto weighted = [&](T log) -> Tensor {
    return op<"exp">(op<"logcumsumexp">(log + x, c.in(1)).tensor() - out);
  };
  if (is_complex(x.dtype())) return weighted(op<"log">(t[0]));
  auto half = [&](T part) -> Tensor { return weighted(log_of_positive(part)); };
  return half(t[0]) - half(-t[0]);
}

}  // namespace

static const Op& cumsum_ =
    def("cumsum(input, dim: int, *, dtype: dtype? = None)", "The running sum along an axis.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          check_inplace_dtype(c);
          return scanned(scan::Sum, t, c.integer(1), scan_dtype(t, c[2]));
        })
        .grad(0, nothing, [](T g, C c) { return reversed_cumsum(g, c.in(1)); })
        .linear()
        .inplace()
        .batch(batch::along)
        .depends(Depends::Along)
        .out_dtype(OutDType::Decides)
        .any_dtype();

static const Op& cumsum_from_end_ =
    def("_cumsum_from_end(input, dim: int)", "The running sum along an axis, from its end.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          return scanned(scan::SumFromEnd, t, c.integer(1), t.dtype());
        })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"cumsum">(g, c.in(1)); })
        .linear()
        .internal()
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& logcumsumexp_ =
    def("logcumsumexp(input, dim: int)", "log(cumsum(exp(input))) along an axis, without overflow.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (is_integral(t.dtype()))
            not_implemented("\"logcumsumexp\" not implemented for '", t.dtype(), "'");
          return scanned(scan::LogSumExp, t, c.integer(1), t.dtype());
        })
        .grad(0, input(0) | output(), logcumsumexp_grad)
        .jvp(logcumsumexp_tangent)
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& cummax_ =
    def("cummax(input, dim: int)", "The largest so far along an axis, and where it stands.")
        .forward([](Call& c) { return running(c, true); })
        .vjp(output(1), running_vjp)
        .jvp(running_tangent)
        .results({"values", "indices"})
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& cummin_ =
    def("cummin(input, dim: int)", "The smallest so far along an axis, and where it stands.")
        .forward([](Call& c) { return running(c, false); })
        .vjp(output(1), running_vjp)
        .jvp(running_tangent)
        .results({"values", "indices"})
        .batch(batch::along)
        .depends(Depends::Along);

}  // namespace adjoint
